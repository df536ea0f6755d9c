"""The lab's page in a real Chromium: it sorts and filters twenty systems, and asks for nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plumbline.extras.lab.report.page import render_page
from plumbline.extras.lab.report.table import PageLanguage
from plumbline.extras.lab.results import ExperimentResults
from plumbline.retrieval.compare import Summary
from tests.making.lab_results import results_of
from tests.reading.report_html import HOSTILE
from tests.running.browser import Opened, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


def twenty_systems() -> ExperimentResults:
    """Systems s0 to s19 of which the seventh has the highest mean, and s3 was not measured."""
    results = results_of(title=HOSTILE[0], warning=HOSTILE[1])
    means = [None if place == 3 else (7 * place % 20) / 20 for place in range(20)]
    systems = tuple(
        replace(
            results.systems[0],
            name=f"small.whole.s{place}",
            retriever=f"s{place}",
            measures={name: Summary(mean=mean, ci95=None, n=10) for name in results.measures},
        )
        for place, mean in enumerate(means)
    )
    return replace(results, systems=systems, comparisons=(), baseline="s0")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [400, 1600])
def test_twenty_systems_are_sorted_and_filtered(
    browser: Any, tmp_path: Path, language: PageLanguage, width: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_page(twenty_systems(), language=language), encoding="utf-8")
    it = Opened(browser, path, viewport={"width": width, "height": 900})
    names = "rows => rows.filter(row => row.style.display !== 'none').map(row => row.cells[1].textContent)"

    def shown() -> list[str]:
        found: list[str] = it.page.eval_on_selector_all("table.systems tbody tr", names)
        return found

    heads = it.page.locator("table.systems th button")
    heads.nth(2).click()
    # 7 * 17 % 20 = 19 is the highest, 7 * 0 % 20 = 0 the lowest; what was not measured is last both ways
    assert [shown()[0], *shown()[-2:]] == ["whole.s17", "whole.s0", "whole.s3"]
    heads.nth(2).click()
    assert [shown()[0], shown()[-1]] == ["whole.s0", "whole.s3"]

    it.page.locator(".filter input").fill("s1 whole")
    assert sorted(shown()) == sorted(f"whole.s{place}" for place in (1, *range(10, 20)))
    assert it.page.evaluate("document.documentElement.scrollWidth") <= width
    assert it.requests == [it.page.url]
    assert it.page.evaluate("[window.ran, window.violations]") == [None, []]
    assert it.said == []
    it.context.close()
