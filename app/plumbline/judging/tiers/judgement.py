"""A judgement from a tier's findings: claims with reasons, the calibrated score, and the decision."""

from collections.abc import Mapping

from plumbline.ground.deadline import within_deadline
from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.text.scores import confidence
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import (
    JudgeAccount,
    Judgement,
    PassRule,
    TierDecision,
    Verdict,
    whole_sentence_claim,
)
from plumbline.judging.text.words import normalise
from plumbline.judging.tiers.calibration import (
    OPEN_SUPPORT,
    SUPPORTED_FROM,
    VERBATIM_SUPPORT,
    Calibration,
    find_shape,
    highest_score,
)
from plumbline.judging.tiers.lexical_features import Finding
from plumbline.judging.tiers.tier import TierName

# Flag of a claim with a hard reason against it.
HARD_REASON = "hard_reason"
# Names and numbers listed in a reason.
_MAX_LISTED = 5


def build_judgement(
    sample: SegmentedSample,
    finding_by_position: Mapping[int, Finding],
    calibration: Calibration,
    *,
    warnings: tuple[CodedText, ...] = (),
) -> Judgement:
    """Build a judgement with one claim for each sentence of the answer; one without a finding is not a claim."""
    claims = []
    measured = distinct_findings(sample, finding_by_position)
    bounds, is_alone = calibration.find_bounds(find_shape(sample)), len(measured) == 1
    for position, sentence in enumerate(within_deadline(sample.sentences)):
        finding = finding_by_position.get(position)
        if finding is None:
            claims.append(whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM))
            continue
        # No similarity counts for more than a copy.
        support = VERBATIM_SUPPORT
        if not finding.is_copy:
            highest = OPEN_SUPPORT if finding.open_reasons else VERBATIM_SUPPORT
            support = min(highest, calibration.support(finding.measures))
        verdict = _verdict(finding, support)
        length = float(len(sentence.text))
        is_faulty = bounds.has_hard_reason(length, finding, is_alone=is_alone)
        flags = (("verbatim", finding.is_copy), (HARD_REASON, is_faulty))
        claims.append(
            whole_sentence_claim(
                position,
                sentence,
                verdict=verdict,
                support=support,
                reason=None if verdict is Verdict.SUPPORTED else _reason(finding, calibration.tier),
                evidence=(finding.evidence,) if finding.evidence else (),
                flags=tuple(flag for flag, is_so in flags if is_so),
                weight=length,
            )
        )
    faithfulness = decision = None
    if measured:
        faithfulness = calibration.score_answer(measured)
        if calibration.tier is TierName.DETECTOR:
            passed = faithfulness >= calibration.boundary
            sure = confidence(faithfulness, passed=passed, reliability=calibration.reliability)
            decision = TierDecision(passed, PassRule.CALIBRATED, calibration.boundary, sure)
        else:
            decision = bounds.decide(
                faithfulness,
                copied=min(1.0 if found.is_copy else found.copied for _, found in measured),
                is_faulty=any(HARD_REASON in claim.flags for claim in claims),
                is_open=any(found.open_reasons for _, found in measured),
            )
    return Judgement(
        claims=tuple(claims),
        account=JudgeAccount(model=calibration.model),
        has_verdict_kinds=False,
        reliability=calibration.reliability,
        faithfulness=faithfulness,
        decision=decision,
        highest=highest_score(calibration.tier),
        flags=() if calibration.is_fitted else ("uncalibrated",),
        warnings=warnings,
    )


def distinct_findings(sample: SegmentedSample, findings: Mapping[int, Finding]) -> list[tuple[float, Finding]]:
    """Return the findings with the lengths of their sentences; a sentence that repeats another counts once."""
    measured: dict[str, tuple[float, Finding]] = {}
    for position, finding in findings.items():
        text = sample.sentences[position].text
        measured.setdefault(normalise(text) or text, (float(len(text)), finding))
    return list(measured.values())


def _verdict(finding: Finding, support: float) -> Verdict:
    """Return the verdict. Likeness does not distinguish a denial from an omission; some detectors do."""
    if support >= SUPPORTED_FROM:
        return Verdict.SUPPORTED
    return Verdict.CONTRADICTED if finding.is_denied else Verdict.NOT_MENTIONED


def _reason(finding: Finding, tier: TierName) -> str:
    """Return why a sentence is not supported: what is wrong with it, or that too little speaks for it."""
    unknown = (*finding.unknown_names, *finding.unknown_numbers)
    listed, more = unknown[:_MAX_LISTED], len(unknown) - _MAX_LISTED
    texts: list[str] = []
    if unknown:
        texts.append(
            CodedText("in_no_context", names=listed)
            if more <= 0
            else CodedText("in_no_context_and_more", names=listed, count=more)
        )
    if finding.measures.get("negation"):
        texts.append(CodedText("negated_otherwise"))
    if finding.unsupported_words:
        texts.append(CodedText("marked_by_detector", words=tuple(finding.unsupported_words)))
    if texts:
        return join_texts(texts)
    if tier is TierName.DETECTOR:
        return CodedText("detector_finds_denial") if finding.is_denied else CodedText("detector_finds_little")
    return CodedText("little_like_it") if finding.evidence else CodedText("nothing_like_it")
