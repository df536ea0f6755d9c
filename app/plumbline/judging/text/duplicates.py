"""Claims that an answer makes twice count once: repeating a true sentence makes nothing truer."""

from collections.abc import Sequence
from dataclasses import replace

from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.text.words import normalise

DUPLICATE = "duplicate"
DISAGREEING = "duplicates_disagree"
# Of two verdicts without support the accusation weighs more.
_WEIGHT = {Verdict.CONTRADICTED: 0, Verdict.NOT_MENTIONED: 1, Verdict.PARTIAL: 2, Verdict.SUPPORTED: 3}


def mark_duplicates(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """The claims in order, those that repeat an earlier one with the flag `duplicate`: no count includes them.

    Two claims are equal when their words are, case and punctuation aside. Where their verdicts differ, the first takes
    verdict, support, reason and evidence of the one with the lowest support, and the flag `duplicates_disagree`.
    What is no claim is left alone.
    """
    first_by_text: dict[str, int] = {}
    marked = [replace(claim, flags=_without_marks(claim.flags)) if claim.flags else claim for claim in claims]
    for index, claim in enumerate(marked):
        if not claim.is_checkable:
            continue
        first = first_by_text.setdefault(normalise(claim.text) or claim.text, index)
        if first == index:
            continue
        marked[index] = replace(claim, flags=(*claim.flags, DUPLICATE))
        marked[first] = _lower(marked[first], claim)
    return tuple(marked)


def is_duplicate(claim: Claim) -> bool:
    """Whether the claim repeats an earlier one and counts for nothing."""
    return DUPLICATE in claim.flags


def _lower(first: Claim, other: Claim) -> Claim:
    if (first.verdict, first.support) == (other.verdict, other.support):
        return first
    flags = tuple(dict.fromkeys((*first.flags, DISAGREEING)))
    if _rank(first) <= _rank(other):
        return replace(first, flags=flags)
    return replace(
        first,
        verdict=other.verdict,
        support=other.support,
        reason=other.reason,
        evidence=other.evidence,
        flags=tuple(dict.fromkeys((*flags, *other.flags))),
    )


def _rank(claim: Claim) -> tuple[float, int]:
    return claim.support or 0.0, _WEIGHT[claim.verdict]


def _without_marks(flags: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if flag not in (DUPLICATE, DISAGREEING))
