"""Rules on a judge's verdicts: what the evidence found allows, majority votes, and escalation to a second model."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.quantities.arithmetic import missing
from plumbline.judging.quantities.context_quantities import drop_calculated, stand_verbatim
from plumbline.judging.quantities.extraction import facts_in, prepare_text, stated_in_claim
from plumbline.judging.text import negation
from plumbline.judging.text.scores import PassCriterion, score
from plumbline.judging.text.verdicts import (
    SUPPORT_BY_VERDICT,
    Claim,
    Evidence,
    JudgeAccount,
    Judgement,
    Scores,
    Verdict,
)
from plumbline.judging.text.words import STEM, contains_verbatim, content_words, detect_language, han_share

MISSING = "evidence_missing"
UNVERIFIED = "evidence_unverified"
INSTRUCTION = "evidence_is_instruction"
NUMBER = "number_not_in_evidence"
NEGATION = "negation_differs"
ACCUSATION = "accusation_doubtful"
SUPPORT = "support_doubtful"
NO_CLAIM = "no_claim_doubtful"
UNCOVERED = "claims_incomplete"
DERIVED = "derived"
_JUDGE_SAID = "judge_said_"
_DOUBT_NAMES = {
    MISSING: "quote", UNVERIFIED: "quote", SUPPORT: "quote", NUMBER: "number", ACCUSATION: "accused",
    NO_CLAIM: "no_claim", UNCOVERED: "parts",
}  # fmt: skip
# Reasons of a verdict that code changed, by the flag of what it found.
_FOUND_BY_FLAG: Final = {
    MISSING: CodedText("judge_quoted_nothing"),
    UNVERIFIED: CodedText("quotes_in_no_context"),
    NUMBER: CodedText("number_not_quoted"),
    NEGATION: CodedText("quotes_negated_otherwise"),
    SUPPORT: CodedText("quotes_unlike"),
    NO_CLAIM: CodedText("asserts_what_no_context_has"),
}
# Reasons of a verdict against the answer for which the judge gave none.
_NO_REASON_BY_VERDICT: Final = {
    Verdict.PARTIAL: CodedText("judge_finds_a_part"),
    Verdict.CONTRADICTED: CodedText("judge_finds_otherwise"),
    Verdict.NOT_MENTIONED: CodedText("judge_finds_nothing"),
}
_NEEDING_EVIDENCE = (Verdict.SUPPORTED, Verdict.PARTIAL)
_ACCUSATIONS = (Verdict.NOT_MENTIONED, Verdict.CONTRADICTED)
# The sentences before and after a quote say what its pronouns and bare numbers are about.
_NUMBER_REACH_SENTENCES = 1
# A shorter claim stands in some sentence by chance.
_VERBATIM_MIN_WORDS = 3


def apply_evidence(claim: Claim, search: EvidenceSearch, *, is_derived: bool) -> Claim:
    """Return the claim with the verdict that its evidence allows, and flags that say what is wrong with it.

    The rules, and what each does to the score: docs/decisions/0003-evidence.md. `is_derived`: the reason shows that the
    claim, each of its quotes located, is calculated from several passages.
    """
    if claim.verdict is Verdict.NOT_A_CLAIM:
        return claim
    found = [evidence for evidence in claim.evidence if evidence.verified]
    flagged = claim
    if claim.verdict is not Verdict.NOT_MENTIONED and not found:
        flagged = with_flags(claim, UNVERIFIED if claim.evidence else MISSING)
    if flagged.verdict in _NEEDING_EVIDENCE:
        if not found:
            return _lower(flagged, Verdict.NOT_MENTIONED)
        if all(map(search.stands_in_instruction, found)):
            flagged = with_flags(flagged, INSTRUCTION)
        return _compare(flagged, found, search, is_derived=is_derived)
    if flagged.verdict in _ACCUSATIONS and _is_verbatim(claim, search):
        return with_flags(flagged, ACCUSATION)
    return flagged


def review_flags(claim: Claim) -> tuple[str, ...]:
    """Return the flags of a claim that a second look could clear, so that its score might change."""
    doubtful = {MISSING, UNVERIFIED, ACCUSATION, NO_CLAIM, UNCOVERED}
    if any(flag.startswith(_JUDGE_SAID) for flag in claim.flags):
        doubtful |= {NUMBER, SUPPORT}
    return tuple(flag for flag in claim.flags if flag in doubtful)


def has_nothing_to_quote(claim: Claim, search: EvidenceSearch) -> bool:
    """Return True for a contradiction without any quote, of a claim of which no context has a word or the amounts.

    Asked again, a judge could show none: as good as not mentioned, which needs none. False where texts in two scripts
    cannot be compared.
    """
    if claim.verdict is not Verdict.CONTRADICTED or review_flags(claim) != (MISSING,):
        return False
    if shared_words(claim.text, search.texts) != 0.0:
        return False
    stated = stated_in_claim(claim.text)
    return not stated or bool(missing(stated, search.facts, is_derived=False))


def name_doubts(claims: Iterable[Claim]) -> dict[str, str]:
    """Return the doubt that the second look names for each claim id, in the words of the prompt."""
    return {claim.id: next((_DOUBT_NAMES[flag] for flag in review_flags(claim)), "unread") for claim in claims}


def with_shown_calculation(claim: Claim) -> Claim:
    """Return a claim of a second look as supported if its reason shows where the doubted number comes from.

    Every quote was found, the judge calls the claim derived, and the reason has each number that the quotes lack, and
    one that they have: "100 feet x 0.3048 = 30 m". The flag stays.
    """
    if not {NUMBER, DERIVED} <= set(claim.flags) or f"{_JUDGE_SAID}{Verdict.SUPPORTED}" not in claim.flags:
        return claim
    quoted, shown = facts_in("\n".join(each.quote for each in claim.evidence)), facts_in(claim.reason or "")
    lacking = missing(stated_in_claim(claim.text), quoted, is_derived=False)
    if not lacking or missing(lacking, shown, is_derived=False) or not quoted.values & shown.values:
        return claim
    flags = tuple(flag for flag in claim.flags if not flag.startswith(_JUDGE_SAID))
    return replace(claim, verdict=Verdict.SUPPORTED, support=SUPPORT_BY_VERDICT[Verdict.SUPPORTED], flags=flags)


def _compare(claim: Claim, found: list[Evidence], search: EvidenceSearch, *, is_derived: bool) -> Claim:
    if is_derived and len(found) == len(claim.evidence):
        claim = with_flags(claim, DERIVED)
    # A passage that has the claim itself agrees, negation and all.
    touched = [search.around(evidence, reach=0) for evidence in found]
    if claim.text in touched or any(contains_verbatim(passage, claim.text) for passage in touched):
        return claim
    lowers = False
    stated = stated_in_claim(claim.text)
    if stated:
        passages = "\n".join(search.around(evidence, reach=_NUMBER_REACH_SENTENCES) for evidence in found)
        # Judges seldom say that they calculated.
        if not stand_verbatim(stated.wordings, prepare_text(passages)) and drop_calculated(
            missing(stated, facts_in(passages), is_derived=is_derived), touched
        ):
            claim = with_flags(claim, NUMBER)
            # Elsewhere in the contexts: the judge quoted too little, which is no fault of the answer.
            lowers = bool(missing(stated, search.facts, is_derived=is_derived))
    differing = [passage for passage in touched if negation.differs(claim.text, passage)]
    if differing:
        claim = with_flags(claim, NEGATION)
        lowers = lowers or any(negation.is_unexplained(claim.text, passage) for passage in differing)
    if lowers and claim.verdict is Verdict.SUPPORTED:
        claim = _lower(claim, Verdict.PARTIAL)
    return _bound(claim, touched, search)


def _bound(claim: Claim, touched: list[str], search: EvidenceSearch) -> Claim:
    """Return the claim with what it counts for bounded by its likeness to the sentences that its quotes touch.

    No word in common, or few and a name that no context has, lower it; few words, or such a name, only flag it.
    """
    share = shared_words(claim.text, touched)
    is_unlike = share is not None and is_doubtful(claim.text, share)
    has_unknown_name = bool(search.names.find_unknown(claim.text))
    if not (is_unlike or has_unknown_name):
        return claim
    flagged = with_flags(claim, SUPPORT)
    is_lowered = any(each.startswith(_JUDGE_SAID) for each in claim.flags)
    # Of a single sentence a judge had no choice.
    is_unrelated = share == 0.0 and len(search.index.places) > 1
    if claim.verdict is Verdict.PARTIAL or is_lowered or not (is_unrelated or (is_unlike and has_unknown_name)):
        return flagged
    return _lower(flagged, Verdict.PARTIAL)


def asserts_unknown(text: str, search: EvidenceSearch) -> bool:
    """Return True if a text that is no question has an amount or a name that neither contexts nor question have."""
    if text.rstrip(" *_\"”'").endswith(("?", "？")):
        return False
    unknown = missing(stated_in_claim(text), search.facts, is_derived=False)
    asked = facts_in(search.question)
    return bool(missing(unknown, asked, is_derived=False)) or bool(search.names.find_unknown(text))


def accuse_doubtful_no_claim(claim: Claim, search: EvidenceSearch) -> Claim:
    """Return a doubted `not_a_claim` as `not_mentioned` if it has an amount or a name that no context has."""
    if claim.is_checkable or NO_CLAIM not in claim.flags or not asserts_unknown(claim.text, search):
        return claim
    return _lower(with_flags(claim, SUPPORT), Verdict.NOT_MENTIONED)


def _is_verbatim(claim: Claim, search: EvidenceSearch) -> bool:
    words = frozenset(content_words(claim.text))
    match = search.index.best_match(claim.text, words) if len(words) >= _VERBATIM_MIN_WORDS else None
    return match is not None and match.is_verbatim and not search.is_instruction(match.context, match.sentence)


def _lower(claim: Claim, verdict: Verdict) -> Claim:
    flagged = with_flags(claim, f"{_JUDGE_SAID}{claim.verdict}")
    return replace(flagged, verdict=verdict, support=SUPPORT_BY_VERDICT[verdict])


def with_flags(claim: Claim, *flags: str) -> Claim:
    """Return the claim with these flags, once each."""
    return replace(claim, flags=tuple(dict.fromkeys((*claim.flags, *flags))))


def with_reason(claim: Claim) -> Claim:
    """Return the claim with the reason of its verdict: of one that code changed, what code found.

    A verdict against the answer never lacks one.
    """
    if any(flag.startswith(_JUDGE_SAID) for flag in claim.flags):
        found = [text for flag, text in _FOUND_BY_FLAG.items() if flag in claim.flags]
        # A claim that was none for the judge quotes nothing.
        doubted = [_FOUND_BY_FLAG[NO_CLAIM]] if NO_CLAIM in claim.flags else found
        return replace(claim, reason=join_texts(doubted) if doubted else _NO_REASON_BY_VERDICT.get(claim.verdict))
    return claim if claim.reason else replace(claim, reason=_NO_REASON_BY_VERDICT.get(claim.verdict))


# Supported claims of faithful answers share less with the sentences they are quoted from in 7 to 9 % of the cases
# (docs/decisions/0011-belief.md).
_DOUBTED_BELOW: Final = 0.25
_DOUBTED_BELOW_ZH: Final = 0.15
# "Yes, that is true.", "I agree with you.": words of a conversation, which no passage has.
_REPLY_WORDS: Final = (
    "yes yeah yep yea no nope sure right true corre indee exact certa agree inter nice cool great good reall usual"
    " heard hear know think lot welco shame sorry love like point 是的 对的 没错 正确 同意 不是 可以 不能 不会 没有"
)
_REPLY_STEMS: Final = frozenset(_REPLY_WORDS.split())


def word_stems(text: str) -> frozenset[str]:
    """Return the content words of a text up to five characters; of Chinese, pairs of characters."""
    return frozenset(word[:STEM] for word in content_words(text))


def shared_words(claim: str, passages: Iterable[str]) -> float | None:
    """Return the share in [0, 1] of a claim's content words that its passages have.

    None if they cannot be compared: the claim has no such words ("Yes, that is true."), only leads to what follows
    ("The key points are:"), or is in another script than its passages.
    """
    wanted, evidence = word_stems(claim) - _REPLY_STEMS, "\n".join(passages)
    if not wanted or claim.rstrip(" *_").endswith((":", "：")) or detect_language(claim) != detect_language(evidence):
        return None
    return len(wanted & word_stems(evidence)) / len(wanted)


def is_doubtful(claim: str, share: float) -> bool:
    return share < (_DOUBTED_BELOW_ZH if han_share(claim) else _DOUBTED_BELOW)


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
    scores = [_scores(ballot) for ballot in ballots]
    return tuple(each for each in scores if each is not None)


def worth_escalating(claims: Sequence[Claim], *, criterion: PassCriterion, is_suspect: bool) -> tuple[Claim, ...]:
    """Return the claims that a second model should see: accused, doubtful or, in a suspect sample, supported ones.

    None of them when the answer passes or fails whatever is found: with every accused claim acquitted it still fails,
    and with every doubtful one dismissed it still passes.
    """
    accused = [claim for claim in claims if claim.verdict in _ACCUSATIONS or claim.verdict is Verdict.PARTIAL]
    trusted = [claim for claim in claims if claim.verdict is Verdict.SUPPORTED and (is_suspect or review_flags(claim))]
    ids = {claim.id for claim in (*accused, *trusted)}
    best = _scores([_with(claim, Verdict.SUPPORTED) if claim.id in ids else claim for claim in claims])
    worst = _scores([_with(claim, Verdict.NOT_MENTIONED) if claim.id in ids else claim for claim in claims])
    if best is None or worst is None or criterion.passes(worst) or not criterion.passes(best):
        return ()
    return tuple(claim for claim in claims if claim.id in ids)


def escalate(claims: Sequence[Claim], second: Mapping[str, Claim]) -> tuple[Claim, ...]:
    """Return the claims after a second model's look.

    Verified evidence decides: an accusation without any gives way to support with it. Where both or neither have
    evidence, the lower support stands. Either way a claim on which they differ carries the flag `disputed`.
    """
    return tuple(_escalate(claim, second[claim.id]) if claim.id in second else claim for claim in claims)


def _escalate(first: Claim, second: Claim) -> Claim:
    if first.verdict is second.verdict:
        return replace(first, flags=(*first.flags, "escalated"))
    acquits = _has_evidence(second) and not review_flags(second) and not _has_evidence(first)
    chosen = second if acquits else min(first, second, key=lambda claim: SUPPORT_BY_VERDICT.get(claim.verdict, 0.0))
    return replace(chosen, flags=(*chosen.flags, "escalated", "disputed"))


def _has_evidence(claim: Claim) -> bool:
    return any(evidence.verified for evidence in claim.evidence)


def _with(claim: Claim, verdict: Verdict) -> Claim:
    return replace(claim, verdict=verdict, support=SUPPORT_BY_VERDICT.get(verdict, 0.0))


def _scores(claims: Sequence[Claim]) -> Scores | None:
    return score(Judgement(tuple(claims), JudgeAccount(model=""), has_verdict_kinds=True))
