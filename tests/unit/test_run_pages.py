"""Figures of the pages of runs: intervals, trends, and two runs compared."""

import json

import pytest

from plumbline.rows.jobs.job import Job, JobCounts, JobState
from plumbline.rows.report.comparison import compare_pairs, compare_runs, exact_flip_test
from plumbline.rows.report.result_lines import read_head
from plumbline.service.web.comparison_page import mark_changes
from plumbline.service.web.run_pages import run_of, trend, with_changes
from tests.making.result_rows import error_line, scored_line


@pytest.mark.parametrize(
    ("first", "second", "p"),
    # 2 * (1 + 10 + 45) / 2**10; 2 * 1 / 2**6; all equal
    [(2, 8, 0.109375), (6, 0, 0.03125), (5, 5, 1.0), (0, 0, 1.0), (1, 0, 1.0)],
)
def test_changed_decisions_are_tested_by_the_binomial_law(first: int, second: int, p: float) -> None:
    assert exact_flip_test(first, second) == pytest.approx(p)


def test_rows_are_paired_by_id_within_their_tier() -> None:
    before = [
        scored_line("same", 0.5, row=0),
        scored_line("worse", 1.0, row=1),
        scored_line("better", 0.25, row=2),
        scored_line("tier", 0.5, row=3),
        scored_line("gone", 0.5, row=4),
        error_line("error", row=5),
    ]
    now = [
        scored_line("worse", 0.25, row=0),
        scored_line("same", 0.5, row=1),
        scored_line("tier", 0.9, row=2, tier="lexical"),
        scored_line("better", 0.75, row=3),
        scored_line("error", 0.1, row=4),
        scored_line("worse", 0.9, row=5),
    ]

    compared = compare_runs(map(read_head, before), map(read_head, now))

    assert [(each.kind, each.now.custom_id, each.before.row, each.now.row) for each in compared.moves()] == [
        ("fails_now", "worse", 1, 0), ("passes_now", "better", 2, 3), ("other_tier", "tier", 3, 2)
    ]  # fmt: skip


def test_p_and_interval_of_differences_are_of_one_method() -> None:
    # Mean .05, deviation .05: .05 -+ 1.96 * .05 / sqrt(2400 - 3.84); 60 / sqrt(6) = 24 deviations
    mean, p = compare_pairs(2_400, 1_200, 120.0, 12.0)
    assert (mean.low, mean.high) == pytest.approx((0.048, 0.052), abs=2e-5)
    assert p < 1e-6
    # 20 of -.1 and 80 of 0 less 9 of them that rose: z = (11 * .1) / sqrt(29 * .01), by the normal law p .041
    mean, p = compare_pairs(100, 29, -1.1, 0.29)
    assert p == pytest.approx(0.0411, abs=1e-3)
    assert mean.high is not None
    assert mean.high < 0
    # Five that all fell, of many: the exact test of random signs gives 2 / 2^5; three pairs leave everything open
    assert compare_pairs(100, 5, -2.5, 1.25)[1] == 2 / 2**5
    assert (compare_pairs(3, 3, -1.5, 0.75)[0].low, compare_pairs(0, 0, 0.0, 0.0)[1]) == (None, 1.0)


def job(number: int, passed: int, **versions: str) -> Job:
    counts = JobCounts(by_status={"judged": 10}, passed=passed, not_passed=10 - passed)
    return Job(
        f"job_{number}", "", "nightly", b"{}", None, JobState.COMPLETED, 10, float(number), 1.0, 2.0, None, counts,
        json.dumps(versions) if versions else None,
    )  # fmt: skip


def test_a_trend_marks_where_versions_change() -> None:
    newest_first = [
        job(4, 9, judge="b", prompt="v2"),
        job(3, 5, judge="b", prompt="v1"),
        job(2, 5, judge="a", prompt="v1"),
        job(1, 10),
    ]

    runs = with_changes([run_of(each) for each in newest_first])
    points = trend(runs)

    assert [run.changed for run in runs] == [("prompt",), ("judge",), (), ()]
    assert [point.run.info.id for point in points] == ["job_1", "job_2", "job_3", "job_4"]
    assert [point.x for point in points] == sorted(point.x for point in points)
    assert all(point.top <= point.y <= point.bottom for point in points)


def test_changed_words_are_marked_chinese_ones_by_character() -> None:
    before, now = mark_changes("Opened in 1931", "Closed in 1931, late")
    assert [piece.text for piece in before if piece.kind] == ["Opened"]
    assert [piece.text for piece in now if piece.kind] == ["Closed", ", late"]
    assert "".join(piece.text for piece in now) == "Closed in 1931, late"
    assert [[piece.text for piece in side if piece.kind] for side in mark_changes("大桥开放", "大桥关闭")] == [
        ["开放"],
        ["关闭"],
    ]
