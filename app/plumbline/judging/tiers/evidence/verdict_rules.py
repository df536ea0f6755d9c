"""Rules that limit a judge's verdict to what the evidence found allows."""

from dataclasses import replace

from plumbline.judging.quantities.arithmetic import missing
from plumbline.judging.quantities.extraction import facts_in, stated_in_claim
from plumbline.judging.text import negation
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Evidence, Verdict
from plumbline.judging.text.words import contains_verbatim, content_words, detect_language
from plumbline.judging.tiers.evidence.search import EvidenceSearch

MISSING = "evidence_missing"
UNVERIFIED = "evidence_unverified"
INSTRUCTION = "evidence_is_instruction"
NUMBER = "number_not_in_evidence"
NEGATION = "negation_differs"
ACCUSATION = "accusation_doubtful"
DERIVED = "derived"
_JUDGE_SAID = "judge_said_"
_NEEDING_EVIDENCE = (Verdict.SUPPORTED, Verdict.PARTIAL)
_ACCUSATIONS = (Verdict.NOT_MENTIONED, Verdict.CONTRADICTED)
# The sentences before and after a quote say what its pronouns and bare numbers are about.
_NUMBER_REACH_SENTENCES = 1
# A claim with all but one word in twenty in one sentence of a context repeats it.
_VERBATIM_SHARE = 0.95
_VERBATIM_MIN_WORDS = 3


def apply_evidence(claim: Claim, search: EvidenceSearch, *, is_derived: bool) -> Claim:
    """Return the claim with the verdict that its evidence allows, and flags that say what is wrong with it.

    The rules, and what each does to the score: docs/decisions/0003-evidence.md.

    Args:
        claim: with the judge's verdict, and each of its quotes as `search` located it.
        is_derived: the judge says that the claim is calculated from several passages.
    """
    if claim.verdict is Verdict.NOT_A_CLAIM:
        return claim
    found = [evidence for evidence in claim.evidence if evidence.verified]
    flagged = claim
    if claim.verdict is not Verdict.NOT_MENTIONED and not found:
        in_instruction = any(map(search.stands_in_instruction, claim.evidence))
        flagged = _flagged(claim, (INSTRUCTION if in_instruction else UNVERIFIED) if claim.evidence else MISSING)
    if flagged.verdict in _NEEDING_EVIDENCE:
        if not found:
            return _lowered(flagged, Verdict.NOT_MENTIONED)
        return _compared(flagged, found, search, is_derived=is_derived)
    if flagged.verdict in _ACCUSATIONS and _is_almost_verbatim(claim, search):
        return _flagged(flagged, ACCUSATION)
    return flagged


def doubts(claim: Claim) -> tuple[str, ...]:
    """Return the flags of a claim that a second look could clear, so that its score might change."""
    doubtful = {MISSING, UNVERIFIED, INSTRUCTION, ACCUSATION}
    if any(flag.startswith(_JUDGE_SAID) for flag in claim.flags):
        doubtful |= {NUMBER, NEGATION}
    return tuple(flag for flag in claim.flags if flag in doubtful)


def _compared(claim: Claim, found: list[Evidence], search: EvidenceSearch, *, is_derived: bool) -> Claim:
    if is_derived and len(found) == len(claim.evidence):
        claim = _flagged(claim, DERIVED)
    # A passage that has the claim itself agrees, negation and all.
    touched = [search.around(evidence, reach=0) for evidence in found]
    if claim.text in touched or any(contains_verbatim(passage, claim.text) for passage in touched):
        return claim
    lowers = False
    stated = stated_in_claim(claim.text)
    if stated:
        passages = "\n".join(search.around(evidence, reach=_NUMBER_REACH_SENTENCES) for evidence in found)
        if missing(stated, facts_in(passages), is_derived=is_derived):
            claim = _flagged(claim, NUMBER)
            # Elsewhere in the contexts: the judge quoted too little, which is no fault of the answer.
            lowers = bool(missing(stated, search.facts, is_derived=is_derived))
    if any(negation.differs(claim.text, passage) for passage in touched):
        claim = _flagged(claim, NEGATION)
        lowers = True
    return _lowered(claim, Verdict.PARTIAL) if lowers and claim.verdict is Verdict.SUPPORTED else claim


def _is_almost_verbatim(claim: Claim, search: EvidenceSearch) -> bool:
    words = frozenset(content_words(claim.text))
    if len(words) < _VERBATIM_MIN_WORDS:
        return False
    match = search.index.best_match(claim.text, words)
    if match is None or match.share < _VERBATIM_SHARE or search.is_excluded(match.context, match.sentence):
        return False
    if match.is_verbatim:
        return True
    sentence = match.sentence.text
    if detect_language(sentence) != detect_language(claim.text) or negation.is_turned(claim.text, sentence):
        return False
    return not missing(stated_in_claim(claim.text), facts_in(sentence), is_derived=False)


def _lowered(claim: Claim, verdict: Verdict) -> Claim:
    flagged = _flagged(claim, f"{_JUDGE_SAID}{claim.verdict}")
    return replace(flagged, verdict=verdict, support=SUPPORT_BY_VERDICT[verdict])


def _flagged(claim: Claim, *flags: str) -> Claim:
    return replace(claim, flags=tuple(dict.fromkeys((*claim.flags, *flags))))
