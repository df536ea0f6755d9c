"""Results into tables: safe in a spreadsheet."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plumbline.rows.records.result_table import (
    DELIMITER_BY_FORM,
    RESULT_COLUMNS,
    ResultTable,
    flat_result,
    format_cell,
)
from tests.making.cases import load_cases

RESULT: dict[str, object] = load_cases("result_writing", "result", inner=list)


@contextmanager
def open_table(path: Path) -> Iterator[ResultTable]:
    with path.open("wb") as file:
        yield ResultTable(file, DELIMITER_BY_FORM[path.suffix[1:]])


def cells_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter, strict=True))


def test_metrics_without_a_column_of_their_own_are_not_lost() -> None:
    values = {"correctness": 0.5, "context_precision@3": 0.25, "criterion_正式": 1.0, "criterion_open": None}

    row = flat_result({"metrics": {name: {"value": value} for name, value in values.items()}})

    assert row["correctness"] == 0.5
    assert row["metrics"] == '{"context_precision@3": 0.25, "criterion_正式": 1.0}'
    assert flat_result({"metrics": {"correctness": {"value": 0.5}}})["metrics"] is None


@pytest.mark.parametrize(("name", "delimiter"), [("r.csv", ","), ("r.tsv", "\t")])
def test_a_table_has_one_row_a_result_under_a_fixed_header(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    with open_table(path) as table:
        table.write(RESULT)
        table.write({"id": "m2", "status": "not_judged", "error": {"title": "Bad row", "detail": "no answer"}})

    first, second = cells_of(path, delimiter)

    assert list(first) == list(RESULT_COLUMNS)
    given = {column: cell for column, cell in first.items() if cell}
    assert given == load_cases("result_writing", "cells")
    assert (second["custom_id"], second["error"], second["flags"]) == ("m2", "no answer", "")


def test_a_result_under_its_own_name_is_flattened_alike() -> None:
    inner = {name: value for name, value in RESULT.items() if name not in {"custom_id", "row"}}

    assert flat_result({"custom_id": "m1", "row": 4, "error": None, "result": inner}) == flat_result(RESULT)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", "'=1", "''@x"])
def test_a_text_that_a_spreadsheet_would_run_is_neutralised(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.csv"
    with open_table(path) as table:
        table.write({"custom_id": text, "error": text, "cost": -1.5})

    (row,) = cells_of(path)

    assert row["custom_id"] == row["error"] == f"'{text}"
    assert row["cost"] == "-1.5"


@pytest.mark.parametrize("text", ["", "a=1", "'a", "'", "1-2", "磨坊"])
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert format_cell(text) == text
