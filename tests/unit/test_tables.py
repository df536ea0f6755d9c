"""Comparisons as JSON rows, Markdown and CSV."""

import csv
import io
import json
from dataclasses import replace
from itertools import combinations

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.comparison import RunComparison
from plumbline.retrieval.tables import (
    Marked,
    Table,
    as_csv,
    as_markdown,
    comparison_table,
    label,
    pair_table,
)
from tests.making.cases import load_cases

BETTER = RunComparison(
    a="dense",
    b="bm25",
    measure="ndcg@10",
    mean_a=0.5,
    mean_b=0.25,
    diff=0.25,
    ci95=(0.125, 0.375),
    t=None,
    p=0.001,
    p_adjusted=0.002,
    significant=True,
    win=8,
    tie=1,
    loss=1,
    n=10,
)


def named(*names: str) -> Table:
    return Table(("run", "n"), tuple((name, place) for place, name in enumerate(names)))


def as_rows(table: Table) -> list[dict[str, object]]:
    """Return each row by column, a marked number as its value and marks."""
    return [
        {
            column: {"mean": cell.value, "beats": list(cell.beats)} if isinstance(cell, Marked) else cell
            for column, cell in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]


def test_a_run_is_marked_with_the_runs_that_it_beats() -> None:
    even = replace(BETTER, measure="mrr", mean_a=0.4, mean_b=0.6, diff=-0.2, significant=False)

    rows = as_rows(comparison_table([BETTER, even]))

    assert rows == [
        {"label": "a", "run": "bm25", "ndcg@10": {"mean": 0.25, "beats": []}, "mrr": {"mean": 0.6, "beats": []}},
        {"label": "b", "run": "dense", "ndcg@10": {"mean": 0.5, "beats": ["a"]}, "mrr": {"mean": 0.4, "beats": []}},
    ]
    assert json.loads(json.dumps(rows)) == rows


def test_the_second_run_of_a_pair_can_be_the_better_one() -> None:
    turned = replace(BETTER, diff=-0.25, mean_a=0.25, mean_b=0.5)

    rows = as_rows(comparison_table([turned, replace(turned, b="other", significant=False)]))

    assert [(row["run"], row["ndcg@10"]) for row in rows[:2]] == [
        ("dense", {"mean": 0.25, "beats": []}),
        ("bm25", {"mean": 0.5, "beats": ["a"]}),
    ]


def test_labels_go_on_after_z() -> None:
    assert [label(place) for place in (0, 25, 26, 51, 52, 701, 702)] == ["a", "z", "aa", "az", "ba", "zz", "aaa"]


def test_thirty_runs_have_thirty_labels_and_their_marks_can_be_told_apart() -> None:
    names = [f"run{place}" for place in range(30)]
    pairs = [replace(BETTER, a=a, b=b) for a, b in combinations(names, 2)]

    table = comparison_table(pairs)

    assert len({row[0] for row in table.rows}) == 30
    assert as_markdown(table).count("<sup>") == 29
    # The third from last beats the last two, ac and ad; the first all others.
    assert "<sup>ac,ad</sup> |" in as_markdown(table)
    assert "<sup>b,c,d," in as_markdown(table)


def test_labels_of_one_letter_are_run_together() -> None:
    pairs = [replace(BETTER, a="x", b=b) for b in ("y", "z")] + [replace(BETTER, a="y", b="z", significant=False)]

    assert "<sup>bc</sup>" in as_markdown(comparison_table(pairs))


def test_nothing_compared_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing was compared"):
        comparison_table([])


def test_a_pair_has_all_its_numbers() -> None:
    (row,) = as_rows(pair_table([BETTER]))

    assert row == load_cases("tables", "pair")


def test_markdown_by_hand() -> None:
    table = comparison_table([BETTER])

    assert as_markdown(table).splitlines() == [
        "| label | run | ndcg@10 |",
        "| --- | --- | ---: |",
        "| a | bm25 | 0.2500 |",
        "| b | dense | 0.5000<sup>a</sup> |",
    ]


def test_csv_by_hand() -> None:
    assert as_csv(comparison_table([BETTER])).splitlines() == [
        "label,run,ndcg@10,ndcg@10 beats",
        "a,bm25,0.25,",
        "b,dense,0.5,a",
    ]


def test_what_is_not_known_is_empty_or_said() -> None:
    table = pair_table([replace(BETTER, ci95=None, diff=-0.25, p=1.25e-7, significant=False)])

    assert as_csv(table).splitlines()[1] == "ndcg@10,dense,bm25,-0.25,,,1.25e-07,0.002,False,8,1,1,10"
    assert "| -0.2500 | n/a | n/a | 1.2e-07 | 0.0020 | no | 8 |" in as_markdown(table)


@pytest.mark.parametrize(
    "name",
    ["=1+1", "+SUM(A1)", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1", "\r=1", "＝1+1", "-", "-1.5", "'=1"],
)
def test_a_name_that_a_spreadsheet_would_run_is_guarded(name: str) -> None:
    written = list(csv.reader(io.StringIO(as_csv(named(name)), newline="")))

    assert written[1][0] == f"'{name}"


@pytest.mark.parametrize("name", ["bm25", "1=1", "a@b", "k-1", ""])
def test_a_harmless_name_is_left_alone(name: str) -> None:
    written = list(csv.reader(io.StringIO(as_csv(named(name)), newline="")))

    assert written[1][0] == name


def test_a_measure_that_a_spreadsheet_would_run_is_guarded_in_the_header() -> None:
    assert as_csv(Table(("=1", "b"), ())).splitlines() == ["'=1,b"]


def test_a_name_cannot_leave_its_markdown_cell() -> None:
    text = as_markdown(named("a|b\nc<img src=x>[l](u)`*_"))

    assert text.splitlines()[2] == r"| a\|b c\<img src=x\>\[l\](u)\`\*\_ | 0 |"
