"""The lab's page: it stands alone, shows every system, and what is written in an experiment runs as nothing."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from plumbline.extras.lab.report import page as lab_page
from plumbline.extras.lab.report.page import render_page
from plumbline.extras.lab.report.plots import HEIGHT, WIDTH, plot, plot_curves
from plumbline.extras.lab.report.table import PageLanguage
from plumbline.extras.lab.results import ExperimentResults
from plumbline.retrieval.compare import LatencySummary
from plumbline.rows.report.texts import load_words
from tests.making.lab_results import results_of
from tests.reading.report_html import HOSTILE, Page

LOADING = {"img", "iframe", "object", "embed", "link", "base", "form"}


def page_of(results: ExperimentResults, language: PageLanguage = "en") -> Page:
    return Page(render_page(results, language=language, made_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC)))


def test_the_verdict_says_who_leads_and_by_how_much() -> None:
    text = " ".join(page_of(results_of()).texts)

    assert "small.whole.better has the highest ndcg@10: 1.0000." in text
    assert "Against small.whole.worse that is +0.3691" in text
    assert "more than chance explains" in text


def test_a_leader_by_chance_is_called_so() -> None:
    results = results_of()
    doubtful = tuple(replace(each, significant=False) for each in results.comparisons)

    assert "no more than chance explains" in " ".join(page_of(replace(results, comparisons=doubtful)).texts)


def test_a_leading_baseline_is_compared_from_its_side() -> None:
    results = results_of()
    systems = tuple(system for system in results.systems if system.retriever != "better")
    turned = tuple(
        replace(each, a=each.b, b=each.a, mean_a=each.mean_b, mean_b=each.mean_a, diff=-each.diff, ci95=(-0.4, -0.3))
        for each in results.comparisons
        if each.a.endswith("blend")
    )

    text = " ".join(page_of(replace(results, systems=systems, comparisons=turned)).texts)

    assert "Against small.whole.worse that is +0.3322 (95 % interval +0.3000 to +0.4000" in text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_system_engine_weight_and_warning_is_shown(language: PageLanguage) -> None:
    page = page_of(results_of(), language)
    text = " ".join(page.texts)

    for said in (
        "whole.blend",
        "better 1.0",
        "k1 = 1.2",
        "two chunks were cut",
        "one of two cores",
        "1,400",
        "small.whole.lost",
    ):
        assert said in text
    assert [dict(attributes)["lang"] for name, attributes in page.elements if name == "html"] == [
        "en" if language == "en" else "zh-Hans"
    ]


@pytest.fixture(scope="module")
def plain() -> Page:
    return page_of(results_of())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_of_an_experiment_run_as_nothing(hostile: str, plain: Page) -> None:
    results = replace(results_of(title=hostile, warning=hostile), settings={hostile: hostile})

    page = page_of(results)

    assert [name for name, _ in page.elements] == [name for name, _ in plain.elements]
    assert not LOADING & {name for name, _ in page.elements}
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]


def test_both_languages_have_the_same_words_with_the_same_places() -> None:
    english, chinese = (
        load_words(language, Path(lab_page.__file__).parent / "page_parts") for language in ("en", "zh")
    )

    # Names of columns are English already
    assert english.keys() == {name for name in chinese if not name.startswith("column ")}
    for name, text in english.items():
        assert set(_places(text)) == set(_places(chinese[name])), name


def _places(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]


def test_marks_stand_in_the_plot_and_slower_is_further_right() -> None:
    results = results_of()

    drawn = plot(results.systems, "ndcg@10")

    assert drawn is not None
    assert all(0 < mark.x < WIDTH and 0 < mark.y < HEIGHT for mark in drawn.marks)
    worse, better, blend = drawn.marks
    assert worse.x < better.x < blend.x
    assert better.y < blend.y < worse.y
    assert blend.low_y > blend.y > blend.high_y


def test_the_frontier_leaves_out_what_is_slower_and_worse() -> None:
    drawn = plot(results_of().systems, "map")

    assert drawn is not None
    worse, better, _ = drawn.marks
    assert drawn.frontier == ((worse.x, worse.y), (better.x, better.y))


def test_ticks_are_round_numbers_in_order() -> None:
    drawn = plot(results_of().systems, "ndcg@10")

    assert drawn is not None
    assert [tick.text for tick in drawn.x_ticks] == ["1", "2", "5", "10", "20"]
    assert all(one.at > other.at for one, other in pairwise(drawn.y_ticks))


@pytest.mark.parametrize("milliseconds", [1e-4, 0.7, 3.0, 5e6])
def test_one_system_alone_is_drawn(milliseconds: float) -> None:
    system = replace(results_of().systems[0], latency=LatencySummary(1.0, milliseconds, 1.0, 1.0, 1))

    drawn = plot([system], "map")

    assert drawn is not None
    assert drawn.marks[0].x == pytest.approx((46 + WIDTH - 16) / 2, abs=0.1)


def test_labels_of_near_marks_stand_apart() -> None:
    system = results_of().systems[1]
    near = [replace(system, latency=LatencySummary(1.0, 30.0 + place / 4, 1.0, 1.0, 1)) for place in range(12)]

    drawn = plot([results_of().systems[0], *near], "map")

    assert drawn is not None
    places = [(mark.label_x, mark.label_y) for mark in drawn.marks]
    assert all(abs(one[0] - two[0]) >= 13 or abs(one[1] - two[1]) >= 12 for one, two in combinations(places, 2))


def test_what_was_not_timed_is_not_drawn() -> None:
    system = replace(results_of().systems[0], latency=None)

    assert plot([system], "map") is None
    assert "–" in render_page(replace(results_of(), systems=(system,), comparisons=()))


def test_chinese_headings_of_the_table_are_chinese() -> None:
    results = results_of()
    scored = replace(results.systems[1], answers={"faithfulness.llm": 0.75, "judged": 4.0, "degraded": 1.0})
    text = page_of(replace(results, systems=(results.systems[0], scored)), "zh").texts

    for heading in ("系统", "p50 毫秒", "构建秒数", "索引大小", "忠实度.llm", "已评判", "降级"):
        assert heading in text


def test_a_cell_carries_the_number_by_which_it_sorts() -> None:
    cells = [attributes for name, attributes in page_of(results_of()).elements if name == "td"]

    keys = [each["data-key"] for each in cells if "data-key" in each]
    # index_bytes of the first system, shown as 2.15 MB
    assert "2150000" in keys
    assert "1.0" in keys


def test_precision_is_drawn_by_recall_with_the_leader_in_full() -> None:
    drawn = plot_curves(results_of().systems, {"small.whole.better"})

    assert drawn is not None
    assert [(each.label, each.is_best) for each in drawn.curves] == [("c", False), ("b", True)]
    xs, ys = zip(*drawn.curves[1].points, strict=True)
    # Precision falls from 1 to .5, and an svg's y grows downwards
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys)
    assert len(xs) == 11
    assert plot_curves(results_of().systems[:1], set()) is None
