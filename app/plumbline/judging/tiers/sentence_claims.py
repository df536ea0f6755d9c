"""From what was measured of each sentence to its claim: the tiers that take a sentence as one claim end here."""

from collections.abc import Mapping
from dataclasses import dataclass

from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Evidence, JudgeAccount, Judgement, Verdict, whole_sentence_claim
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT, Calibration

# Of support, for the verdict of a sentence: calibration puts its decision boundary here.
SUPPORTED_FROM = 0.5
# Names and numbers listed in a reason.
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What was measured of one sentence, and the place in the contexts that is most like it.

    `is_copy`: the place holds the sentence word for word; `unknown`: names and numbers that no context has.
    """

    measures: Mapping[str, float]
    evidence: Evidence | None
    is_copy: bool
    unknown: tuple[str, ...]


def claims_of(
    sample: SegmentedSample, finding_by_position: Mapping[int, Finding], calibration: Calibration
) -> tuple[Claim, ...]:
    """One claim for each sentence of the answer, in order; a sentence without a finding is not a claim."""
    return tuple(
        _claim(sample, position, finding_by_position[position], calibration)
        if position in finding_by_position
        else whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
        for position, sentence in enumerate(sample.sentences)
    )


def judgement_of(
    sample: SegmentedSample,
    finding_by_position: Mapping[int, Finding],
    calibration: Calibration,
    *,
    warnings: tuple[str, ...] = (),
) -> Judgement:
    """The judgement of the tier and model that the calibration is for."""
    return Judgement(
        claims=claims_of(sample, finding_by_position, calibration),
        account=JudgeAccount(model=calibration.model),
        has_verdict_kinds=False,
        reliability=calibration.reliability,
        flags=() if calibration.is_fitted else ("uncalibrated",),
        warnings=warnings,
    )


def support_of(finding: Finding, calibration: Calibration) -> float:
    """Support in [0, 1]: that of a copy for a copy, and no likeness counts for more than one."""
    if finding.is_copy:
        return VERBATIM_SUPPORT
    return min(VERBATIM_SUPPORT, calibration.support(finding.measures))


def _claim(sample: SegmentedSample, position: int, finding: Finding, calibration: Calibration) -> Claim:
    sentence = sample.sentences[position]
    support = support_of(finding, calibration)
    return whole_sentence_claim(
        position,
        sentence,
        # A contradiction cannot be told from an omission by likeness.
        verdict=Verdict.SUPPORTED if support >= SUPPORTED_FROM else Verdict.NOT_MENTIONED,
        support=support,
        reason=_reason(finding.unknown),
        evidence=(finding.evidence,) if finding.evidence else (),
        flags=("verbatim",) if finding.is_copy else (),
        weight=float(len(sentence.text)),
    )


def _reason(unknown: tuple[str, ...]) -> str | None:
    if not unknown:
        return None
    more = f" and {len(unknown) - _MAX_LISTED} more" if len(unknown) > _MAX_LISTED else ""
    return f"in no context: {', '.join(unknown[:_MAX_LISTED])}{more}"
