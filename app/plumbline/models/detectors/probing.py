"""The check of a detector's answer to its probe."""

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.models.detectors.description import Description


def check_probe(description: Description, number: int, found: float, *, tolerance: float = 0.0) -> None:
    """Check the support found for a pair of the probe, counted from 1, within the larger of the tolerances.

    Raises:
        TierFailure: `detector_probe_failed`, with both numbers.
    """
    expected = description.probe[number - 1].wrong(found, max(description.tolerance, tolerance))
    if expected is not None:
        raise TierFailure(
            FailureReason.DETECTOR_PROBE_FAILED,
            f"{description.name} gave {found:.4f} for pair {number} of its probe, expected {expected}: "
            "it is asked or read otherwise than it was trained, or its weights are not those described",
        )
