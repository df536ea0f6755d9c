"""Claims and judgement of the tiers that take a sentence as one claim."""

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
    """Measures of one sentence, and the most similar place in the contexts.

    `is_copy`: the place holds the sentence word for word; `unknown`: names and numbers that no context has.
    """

    measures: Mapping[str, float]
    evidence: Evidence | None
    is_copy: bool
    unknown: tuple[str, ...]


def build_claims(
    sample: SegmentedSample, finding_by_position: Mapping[int, Finding], calibration: Calibration
) -> tuple[Claim, ...]:
    """Build one claim for each sentence of the answer, in order; a sentence without a finding is not a claim."""
    return tuple(
        _claim(sample, position, finding_by_position[position], calibration)
        if position in finding_by_position
        else whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
        for position, sentence in enumerate(sample.sentences)
    )


def build_judgement(
    sample: SegmentedSample,
    finding_by_position: Mapping[int, Finding],
    calibration: Calibration,
    *,
    warnings: tuple[str, ...] = (),
) -> Judgement:
    """Build the judgement of the tier and model of the calibration."""
    return Judgement(
        claims=build_claims(sample, finding_by_position, calibration),
        account=JudgeAccount(model=calibration.model),
        has_verdict_kinds=False,
        reliability=calibration.reliability,
        flags=() if calibration.is_fitted else ("uncalibrated",),
        warnings=warnings,
    )


def compute_support(finding: Finding, calibration: Calibration) -> float:
    """Return the support in [0, 1]; no similarity counts for more than a copy."""
    if finding.is_copy:
        return VERBATIM_SUPPORT
    return min(VERBATIM_SUPPORT, calibration.support(finding.measures))


def _claim(sample: SegmentedSample, position: int, finding: Finding, calibration: Calibration) -> Claim:
    sentence = sample.sentences[position]
    support = compute_support(finding, calibration)
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
