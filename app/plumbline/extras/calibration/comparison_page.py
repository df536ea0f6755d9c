"""Standalone HTML page of tiers and detectors compared on labels; it loads nothing and has no script."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from plumbline.extras.calibration.calibrating import TierComparison
from plumbline.rows.report.page import BASE_STYLE, build_environment, page_head, read_part
from plumbline.rows.report.texts import load_words, visible
from plumbline.schemas.report import ReportLanguage

_PARTS: Final = Path(__file__).parent / "page_parts"


def render_comparison(
    compared: Sequence[TierComparison], *, language: ReportLanguage = "en", made_at: datetime | None = None
) -> str:
    """Render the page: one row for each model and language of the answers, then AUROC by data set.

    Args:
        made_at: default: now.
    """
    datasets = {
        language: sorted({name for each in compared if each.language == language for name in each.agreement.by_dataset})
        for language in dict.fromkeys(each.language for each in compared)
    }
    return (
        build_environment(_PARTS, {"visible": visible, "three": format_figure})
        .get_template("comparison.html")
        .render(
            **page_head(language, read_part(BASE_STYLE), made_at=made_at),
            words=load_words(language, "extras/calibration/page_parts"),
            compared=compared,
            datasets=datasets,
        )
    )


def format_figure(value: float | None) -> str:
    """Return a figure with three decimals, a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"
