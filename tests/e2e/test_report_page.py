"""The page of a report in a real Chromium: nothing is asked for, nothing hostile runs, filters and keys work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.rows.report.page import render_html
from plumbline.rows.report.result_lines import GRAVEST_FIRST
from plumbline.rows.report.texts import one_line
from plumbline.schemas.report import GateOutcome, ReportLanguage
from tests.making.result_rows import build_report, error_line, hostile_lines, result_line, scored_line, with_gates
from tests.reading.report_html import HOSTILE
from tests.running.browser import Opened, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


class OpenedReport(Opened):
    def shown(self) -> list[str]:
        """The names of the rows that can be seen, in their order."""
        names: list[str] = self.page.eval_on_selector_all(
            "details.row",
            "rows => rows.filter(row => !row.hidden).map(row => row.querySelector('strong bdi').textContent)",
        )
        return names


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    pages: list[OpenedReport] = []

    def opens(html: str, **options: Any) -> OpenedReport:
        path = tmp_path / f"report{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        pages.append(OpenedReport(browser, path, **options))
        return pages[-1]

    yield opens
    for each in pages:
        each.context.close()


LINES = [
    scored_line("alpha", 0.5, row=0, verdicts=("supported", "contradicted"), text="The harbour froze."),
    scored_line("beta", 0.0, row=1, verdicts=("not_mentioned",), text="The bridge is red."),
    scored_line("gamma", 1.0, row=2),
    scored_line("delta", 0.25, row=3, tier="lexical"),
    scored_line("epsilon", 0.75, row=4, tier="lexical", verdicts=("contradicted",) * 3),
    result_line("zeta", row=5, status="abstained"),
    error_line("eta", row=6),
]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_hostile_text_runs_or_asks_for_anything(opened: Any, language: ReportLanguage) -> None:
    everything = " ".join(HOSTILE)
    lines = [line for text in HOSTILE for line in hostile_lines(text)]
    report = build_report(lines, baseline_lines=[scored_line(text, 1.0) for text in HOSTILE])
    gates = [GateOutcome(name=text, wanted=text, got=text, passed=False) for text in HOSTILE]

    it = opened(render_html(with_gates(report, *gates), language=language, title=everything))
    it.page.locator("[data-open]").click()
    for name in ("tier", "status", "verdict", "sort"):
        it.page.locator(f"select[name={name}]").select_option(index=1)
    it.page.locator("[name=search]").fill(HOSTILE[0])
    it.page.locator("[data-reset]").click()

    assert it.requests == [it.page.url]
    assert it.page.evaluate("[window.ran, window.violations]") == [None, []]
    assert it.said == []
    assert it.page.title() == one_line(everything, most=200)
    assert it.page.locator("body img, body iframe, main script, body form[action], a[href^=javascript]").count() == 0
    assert it.page.locator("details.row").count() == 6 * len(HOSTILE)


def test_the_policy_would_stop_a_script_and_a_picture_that_got_in(opened: Any) -> None:
    # The policy by itself: as if escaping had failed.
    page = render_html(build_report(LINES))
    it = opened(page.replace("</main>", "<script>window.ran=1</script><img src='https://evil.example/a.png'></main>"))

    assert it.page.evaluate("window.ran") is None
    assert sorted(it.page.evaluate("window.violations")) == ["img-src", "script-src-elem"]
    assert it.blocked == {"https://evil.example/a.png": "csp"}


def test_rows_are_filtered(opened: Any) -> None:
    it = opened(render_html(build_report(LINES)))
    everything = ["beta", "alpha", "gamma", "delta", "epsilon", "eta", "zeta"]
    assert it.shown() == everything

    def after(name: str, value: str) -> list[str]:
        it.page.locator("[data-reset]").click()
        it.page.locator(f"select[name={name}]").select_option(value)
        shown: list[str] = it.shown()
        return shown

    assert after("tier", "lexical") == ["delta", "epsilon"]
    assert after("status", "error") == ["eta"]
    assert after("verdict", "contradicted") == ["alpha", "epsilon"]
    assert after("passed", "yes") == ["gamma", "epsilon"]
    assert after("passed", "no") == ["beta", "alpha", "delta"]

    it.page.locator("[data-reset]").click()
    it.page.locator("[name=search]").fill("HARBOUR froze")
    assert it.shown() == ["alpha"]
    assert it.page.locator("[data-said]").text_content() == "1 of 7 shown"
    it.page.locator("[name=search]").fill("no such words")
    assert it.shown() == []
    assert it.page.locator("[data-nothing]").is_visible()
    it.page.locator("[data-reset]").click()
    assert it.shown() == everything


def test_rows_are_ordered(opened: Any) -> None:
    it = opened(render_html(build_report(LINES)))

    def after(order: str) -> list[str]:
        it.page.locator("select[name=sort]").select_option(order)
        shown: list[str] = it.shown()
        return shown

    assert after("best") == ["gamma", "alpha", "beta", "epsilon", "delta", "eta", "zeta"]
    assert after("row") == ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"]
    assert after("contradicted")[:2] == ["epsilon", "alpha"]
    assert after("worst") == ["beta", "alpha", "gamma", "delta", "epsilon", "eta", "zeta"]


def test_the_keyboard_is_enough(opened: Any) -> None:
    it = opened(render_html(build_report(LINES)))

    def focused() -> str:
        text: str = it.page.evaluate("document.activeElement.querySelector('strong bdi')?.textContent ?? ''")
        return text

    it.page.keyboard.press("/")
    it.page.keyboard.type("a j k")
    assert it.page.locator("[name=search]").input_value() == "a j k"
    it.page.locator("[data-reset]").click()
    it.page.keyboard.press("j")
    it.page.keyboard.press("j")
    assert focused() == "alpha"
    it.page.keyboard.press("Enter")
    assert it.page.locator("#row-0").get_attribute("open") is not None
    it.page.keyboard.press("k")
    assert focused() == "beta"


def test_a_row_that_moved_is_opened_by_its_link(opened: Any) -> None:
    before = [scored_line("gamma", 0.1), scored_line("beta", 1.0)]
    it = opened(render_html(build_report(LINES, baseline_lines=before)))
    it.page.locator("select[name=status]").select_option("error")

    it.page.locator("a[href='#row-2']").click()

    it.page.wait_for_selector("#row-2[open]")
    assert it.page.locator("#row-2 .sentence").first.is_visible()


def test_without_its_script_the_list_is_whole(opened: Any) -> None:
    it = opened(render_html(build_report(LINES)), java_script_enabled=False)

    assert it.page.locator("details.row").count() == 7
    assert it.page.locator("[data-controls]").is_hidden()
    it.page.locator("#row-0 > summary").click()
    assert it.page.locator("#row-0 .sentence").first.is_visible()


def test_verdicts_are_coloured_and_have_a_sign_and_a_word(opened: Any) -> None:
    it = opened(render_html(build_report([scored_line("a", 0.5, verdicts=GRAVEST_FIRST)])))
    it.page.locator("#row-0 > summary").click()

    seen = it.page.eval_on_selector_all(
        ".sentence",
        "all => all.map(each => [getComputedStyle(each).backgroundColor, each.querySelector('.is').textContent, "
        "each.querySelector('.is svg').getBoundingClientRect().width > 0])",
    )

    assert len({colour for colour, _, _ in seen}) == len({word for _, word, _ in seen}) == len(GRAVEST_FIRST)
    assert all(has_sign for _, _, has_sign in seen)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen(opened: Any, language: ReportLanguage, width: int) -> None:
    lines = [*LINES, scored_line("n" * 200, 0.1, row=7, text="w" * 900)]
    html = render_html(build_report(lines, baseline_lines=lines), language=language, title="t" * 300)
    it = opened(html, viewport={"width": width, "height": 800})
    it.page.locator("[data-open]").click()

    assert it.page.evaluate("document.documentElement.scrollWidth") == width


def test_the_page_follows_the_colours_of_the_system(opened: Any) -> None:
    html = render_html(build_report(LINES))

    backgrounds = [
        opened(html, color_scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]

    assert len(set(backgrounds)) == 2
