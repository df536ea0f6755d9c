"""A result as a page shows it: the answer's sentences with their verdicts, and the evidence marked in the contexts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

from plumbline.rows.report.marked_passages import Piece, Span, answer_sentences, mark
from plumbline.rows.report.result_lines import Verdict
from plumbline.rows.report.shown_rows import GRAVEST_FIRST
from plumbline.schemas.evaluation import EvaluationResult, SampleTexts
from plumbline.schemas.result_parts import ClaimItem, EvidenceItem, TierName

TIERS: Final[tuple[TierName, ...]] = get_args(TierName)
# Of a context on both sides of a quote, and of a quote, in characters.
_AROUND: Final = 240
_LONGEST_QUOTE: Final = 4_000


class Passage(NamedTuple):
    """Evidence in its context, shortened on both sides; `context` counts from 1, and is None for an unknown quote."""

    context: int | None
    pieces: tuple[Piece, ...]
    is_verified: bool


class ShownClaim(NamedTuple):
    """A claim and its evidence."""

    claim: ClaimItem
    passages: tuple[Passage, ...]


class ShownSentence(NamedTuple):
    """A sentence of the answer; `verdict` is None where no tier judged it, `number` where no claim is about it."""

    number: int | None
    text: str
    verdict: Verdict | None
    claims: tuple[ShownClaim, ...]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A result with its sentences, and each context in pieces."""

    result: EvaluationResult
    sentences: tuple[ShownSentence, ...]
    contexts: tuple[tuple[Piece, ...], ...]


def judged_answer(result: EvaluationResult, texts: SampleTexts) -> JudgedAnswer:
    """Return the result of these texts, its evidence marked in them."""
    spans: dict[int, list[Span]] = {}
    for claim in result.claims:
        for each in claim.evidence:
            if (span := _span(each, claim, texts.passages)) is not None and each.context is not None:
                spans.setdefault(each.context, []).append(span)
    verdicts = sentence_verdicts(result)
    unjudged: Verdict | None = None if result.status == "not_judged" else "not_a_claim"
    return JudgedAnswer(
        result=result,
        sentences=tuple(
            ShownSentence(
                number,
                text,
                unjudged if number is None else verdicts[number],
                tuple(
                    ShownClaim(claim, tuple(_passage(each, claim, texts.passages) for each in claim.evidence))
                    for claim in claims
                    if claim.verdict != "not_a_claim"
                ),
            )
            for number, text, claims in answer_sentences(result.claims, texts.answer, unit=result.offset_unit)
        ),
        contexts=tuple(mark(context, spans.get(place, ())) for place, context in enumerate(texts.passages)),
    )


def sentence_verdicts(result: EvaluationResult) -> Mapping[int, Verdict | None]:
    """Return the gravest verdict on each sentence with a claim by its number; None where no tier judged."""
    found: dict[int, set[Verdict]] = {}
    for claim in result.claims:
        found.setdefault(claim.sentence, set()).add(claim.verdict)
    return {
        number: None
        if result.status == "not_judged"
        else next((each for each in GRAVEST_FIRST if each in verdicts), "not_a_claim")
        for number, verdicts in found.items()
    }


def _passage(evidence: EvidenceItem, claim: ClaimItem, contexts: Sequence[str]) -> Passage:
    span = _span(evidence, claim, contexts)
    if span is None or evidence.context is None:
        number = None if evidence.context is None else evidence.context + 1
        return Passage(number, (Piece(evidence.quote[:_LONGEST_QUOTE]),), is_verified=False)
    context, (start, end, kind) = contexts[evidence.context], span
    low, high = max(0, start - _AROUND), min(len(context), end + _AROUND)
    cut = min(end, start + _LONGEST_QUOTE)
    pieces = (
        Piece(("…" if low else "") + context[low:start]),
        Piece(context[start:cut] + ("…" if cut < end else ""), kind),
        Piece(context[end:high] + ("…" if high < len(context) else "")),
    )
    return Passage(evidence.context + 1, tuple(each for each in pieces if each.text), evidence.verified)


def _span(evidence: EvidenceItem, claim: ClaimItem, contexts: Sequence[str]) -> Span | None:
    """Return the place of a quote in its context; None if it is not there to the letter."""
    if evidence.context is None or not evidence.quote or not 0 <= evidence.context < len(contexts):
        return None
    context, quote = contexts[evidence.context], evidence.quote
    # Offsets of a job can count in UTF-16.
    start = evidence.start if evidence.start is not None and context.startswith(quote, evidence.start) else None
    start = context.find(quote) if start is None else start
    kind = "evidence" if claim.verdict in ("supported", "partial", "contradicted") else "nearest"
    return None if start < 0 else Span(start, start + len(quote), kind)
