"""Rules on a judge's verdicts: what evidence changes and what it only flags, votes, and a second judge's opinion."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plumbline.ground.texts import CodedText
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.quantities.amount import Stated
from plumbline.judging.quantities.comparison import Facts, drop_calculated, facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.text import negation
from plumbline.judging.text.scores import PassCriterion, score_claims
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Evidence, Scores, Verdict
from plumbline.judging.text.words import STEM, Passage, content_words, detect_language

MISSING = "evidence_missing"
UNVERIFIED = "evidence_unverified"
NOWHERE = "number_not_in_contexts"
NO_CLAIM = "no_claim_doubtful"
UNCOVERED = "claims_incomplete"
UNANSWERED = "unanswered"
# Of a decision model: what the check in code refutes, and what it declined or did not answer. It decides neither.
REFUTED = "check_refutes"
UNANSWERED_QUESTION = "question_refused"
_JUDGE_SAID = "judge_said_"
# Doubts that the second prompt names, in its words.
_DOUBT_NAMES = {MISSING: "quote", UNVERIFIED: "quote", NOWHERE: "number", NO_CLAIM: "no_claim", UNANSWERED: "unread"}
# Reasons of a verdict that code changed, by the flag of what it found.
_FOUND_BY_FLAG: Final = {
    MISSING: CodedText("judge_quoted_nothing"),
    UNVERIFIED: CodedText("quotes_in_no_context"),
}
# Reasons of a verdict against the answer for which the judge gave none.
_NO_REASON_BY_VERDICT: Final = {
    Verdict.PARTIAL: CodedText("judge_finds_a_part"),
    Verdict.CONTRADICTED: CodedText("judge_finds_otherwise"),
    Verdict.NOT_MENTIONED: CodedText("judge_finds_nothing"),
}
_NEEDING_EVIDENCE = (Verdict.SUPPORTED, Verdict.PARTIAL)
# The sentences before and after a quote say what its pronouns and bare numbers are about.
_NUMBER_REACH_SENTENCES = 1
# A shorter claim stands in some sentence by chance.
_VERBATIM_MIN_WORDS = 3
# A whole number in digits, which is written in one way only: no part of a larger one, a date, a code or a decade.
_CLEAR = re.compile(r"(?<![\w.,:/'’-])\d{2,7}(?![\d:/-]|[.,'’ ]\d|s\b| ?(?:st|nd|rd|th)\b)")
_SEPARATOR = re.compile(r"(?<=\d)[.,'’ \u00a0\u202f](?=\d)")
_CALCULATION = re.compile("[=≈]")


def apply_evidence(claim: Claim, search: EvidenceSearch) -> Claim:
    """Return the claim with flags for what code finds; a verdict changes only where no quote of its support is found.

    Likeness, numbers, negations and names never change one (docs/decisions/0003-evidence.md).
    """
    if claim.verdict is Verdict.NOT_A_CLAIM:
        return claim
    found = [evidence for evidence in claim.evidence if evidence.verified]
    if claim.verdict is not Verdict.NOT_MENTIONED and not found:
        claim = with_flags(claim, UNVERIFIED if claim.evidence else MISSING)
    if claim.verdict in _NEEDING_EVIDENCE:
        if found:
            return with_flags(claim, *_doubts(claim, found, search))
        flagged = with_flags(claim, f"{_JUDGE_SAID}{claim.verdict}")
        return replace(flagged, verdict=Verdict.NOT_MENTIONED, support=SUPPORT_BY_VERDICT[Verdict.NOT_MENTIONED])
    return with_flags(claim, "accusation_doubtful") if _is_verbatim(claim, search) else claim


def is_unproven(claim: Claim) -> bool:
    """Return True if the judge supports the claim without a quote that is found."""
    return any(flag.startswith(_JUDGE_SAID) for flag in claim.flags)


def is_open(claim: Claim) -> bool:
    """Return True for a claim that is asked again, once: unread, unproven, no claim though it states a fact, or
    supported with a number that stands nowhere."""
    flags = {NO_CLAIM, UNANSWERED, *((NOWHERE,) if claim.verdict is Verdict.SUPPORTED else ())}
    return is_unproven(claim) or not flags.isdisjoint(claim.flags)


def name_doubts(claims: Iterable[Claim]) -> dict[str, str]:
    """Return the doubt that the second look names for each claim id, in the words of the prompt."""
    return {claim.id: name for claim in claims for flag, name in _DOUBT_NAMES.items() if flag in claim.flags}


def _doubts(claim: Claim, found: list[Evidence], search: EvidenceSearch) -> Iterator[str]:
    """Yield the flags of a claim whose quotes were found."""
    if all(map(search.stands_in_instruction, found)):
        yield "evidence_is_instruction"
    touched = [search.around(evidence, reach=0) for evidence in found]
    # A passage that has the claim itself agrees, negation and all.
    if claim.text in touched or any(Passage(passage).contains(claim.text) for passage in touched):
        return
    if stated := read_amounts(claim.text).asked:
        passages = "\n".join(search.around(evidence, reach=_NUMBER_REACH_SENTENCES) for evidence in found)
        quoted = facts_in(passages)
        if lacking := drop_calculated(missing(stated, quoted), touched):
            # Elsewhere in the contexts: the judge quoted too little, which is no fault of the answer.
            nowhere = missing(lacking, search.facts)
            if _is_shown(lacking, claim.reason or "", quoted):
                yield "derived"
            else:
                yield NOWHERE if nowhere and _is_clear(nowhere, search.texts) else "number_not_in_evidence"
    if any(negation.differs(claim.text, passage) for passage in touched):
        yield "negation_differs"
    if is_unlike(claim.text, touched) or search.names.find_unknown(claim.text):
        yield "support_doubtful"


def _is_shown(lacking: Stated, reason: str, quoted: Facts) -> bool:
    """Return True if a judge's reason has each number and says what it comes from: "100 feet x 0.3048 = 30 m"."""
    shown = facts_in(reason)
    if missing(lacking, shown):
        return False
    return _CALCULATION.search(reason) is not None or not quoted.values.isdisjoint(shown.values)


def _is_clear(lacking: Stated, texts: Sequence[str]) -> bool:
    """Return True if one of the numbers is written in one way only, and no text has its digits."""
    numbers = [found[0] for wording in lacking.wordings for found in _CLEAR.finditer(wording)]
    digits = "\n".join(_SEPARATOR.sub("", text) for text in texts) if numbers else ""
    return any(number not in digits for number in numbers)


def states_fact(text: str, search: EvidenceSearch) -> bool:
    """Return True for a text with an amount, a date or a name that no context has, but for questions and lead-ins."""
    if text.rstrip(" *_\"”'").endswith(("?", "？", ":", "：")):
        return False
    return bool(read_amounts(text).asked) or bool(search.names.find_unknown(text))


def _is_verbatim(claim: Claim, search: EvidenceSearch) -> bool:
    words = frozenset(content_words(claim.text))
    match = search.index.best_match(claim.text, words) if len(words) >= _VERBATIM_MIN_WORDS else None
    return match is not None and match.is_verbatim and not search.is_instruction(match.context, match.sentence)


def with_flags(claim: Claim, *flags: str) -> Claim:
    """Return the claim with these flags, once each."""
    return replace(claim, flags=tuple(dict.fromkeys((*claim.flags, *flags))))


def with_reason(claim: Claim) -> Claim:
    """Return the claim with the reason of its verdict: of one that code changed, what code found.

    A verdict against the answer never lacks one.
    """
    if is_unproven(claim):
        return replace(claim, reason=next(text for flag, text in _FOUND_BY_FLAG.items() if flag in claim.flags))
    return claim if claim.reason else replace(claim, reason=_NO_REASON_BY_VERDICT.get(claim.verdict))


def word_stems(text: str) -> frozenset[str]:
    """Return the content words of a text up to five characters; of Chinese, pairs of characters."""
    return frozenset(word[:STEM] for word in content_words(text))


def is_unlike(claim: str, passages: Iterable[str]) -> bool:
    """Return True if a claim has none of its content words in its passages, which are in its language."""
    wanted, evidence = word_stems(claim), "\n".join(passages)
    return (
        bool(wanted) and wanted.isdisjoint(word_stems(evidence)) and detect_language(claim) == detect_language(evidence)
    )


def majority_vote(claims: Sequence[Claim], votes: Sequence[Mapping[str, Claim]]) -> tuple[Claim, ...]:
    """Return each claim with the verdict of most votes, its own included; of equal counts, the lower support.

    A claim on which votes differ carries the flag `disputed`. A vote that leaves a claim out abstains on it.
    """
    return tuple(_majority_of([claim, *(vote[claim.id] for vote in votes if claim.id in vote)]) for claim in claims)


def _majority_of(votes: Sequence[Claim]) -> Claim:
    counts = Counter(vote.verdict for vote in votes)
    if len(counts) == 1:
        return votes[0]
    most = max(counts.values())
    leading = [vote for vote in votes if counts[vote.verdict] == most]
    # An accusation before "no claim".
    chosen = min(leading, key=lambda vote: (SUPPORT_BY_VERDICT.get(vote.verdict, 0.0), not vote.is_checkable))
    return replace(chosen, text=votes[0].text, flags=(*chosen.flags, "disputed"))


def scores_by_vote(claims: Sequence[Claim], votes: Sequence[Mapping[str, Claim]]) -> tuple[Scores, ...]:
    """Return the scores of the answer by each vote alone, that of `claims` first; () without other votes."""
    if not votes:
        return ()
    ballots = [claims, *([vote.get(claim.id, claim) for claim in claims] for vote in votes)]
    return tuple(each for ballot in ballots if (each := score_claims(ballot)) is not None)


def claims_that_decide(claims: Sequence[Claim], criterion: PassCriterion) -> tuple[Claim, ...]:
    """Return the claims on which a second judge's opinion could turn `passed`: () where it stays whatever that says.

    Of an answer that passes those that are supported, of any other those that are not.
    """
    scores = score_claims(claims)
    if scores is None:
        return ()
    passes = criterion.passes(scores)
    asked = tuple(each for each in claims if each.is_checkable and (each.verdict is Verdict.SUPPORTED) == passes)
    other = Verdict.NOT_MENTIONED if passes else Verdict.SUPPORTED
    turned = score_claims(
        [replace(each, verdict=other, support=SUPPORT_BY_VERDICT[other]) if each in asked else each for each in claims]
    )
    return asked if turned is not None and criterion.passes(turned) != passes else ()


def merge_opinions(claims: Sequence[Claim], second: Mapping[str, Claim]) -> tuple[Claim, ...]:
    """Return the claims after a second judge's opinion; one on which the two differ carries the flag `disputed`.

    Support with verified evidence outweighs an accusation without any; otherwise the lower support stands.
    """
    return tuple(_merge(claim, second[claim.id]) if claim.id in second else claim for claim in claims)


def _merge(first: Claim, second: Claim) -> Claim:
    if first.verdict is second.verdict:
        return with_flags(first, "escalated")
    acquits = second.verdict is Verdict.SUPPORTED and not any(evidence.verified for evidence in first.evidence)
    chosen = second if acquits else min(first, second, key=lambda claim: SUPPORT_BY_VERDICT.get(claim.verdict, 0.0))
    return with_flags(chosen, "escalated", "disputed")
