"""The everyday answers under tests/data: columns, shapes, kinds of errors, and the balance of both."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"
KINDS = {"number", "unit", "name", "date", "invented", "swapped", "negation"}
COLUMNS = {
    **dict.fromkeys(("id", "pair", "lang", "shape", "kind", "question", "answer"), str),
    "contexts": list,
    "label": int,
}

Row = dict[str, Any]


def _rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


ROWS = {name: _rows(name) for name in ("everyday", "everyday_unseen")}


def _count(rows: list[Row], *columns: str) -> Counter[Any]:
    return Counter(tuple(row[column] for column in columns) for row in rows)


@pytest.mark.parametrize("name", ROWS)
def test_each_row_has_the_columns_and_an_id_of_its_own(name: str) -> None:
    rows = ROWS[name]

    assert all({column: type(value) for column, value in row.items()} == COLUMNS for row in rows)
    assert all(row["contexts"] and all(row["contexts"]) and row["answer"] and row["question"] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ROWS)
def test_each_pair_is_a_faithful_answer_and_the_same_with_one_error(name: str) -> None:
    pairs: dict[str, list[Row]] = {}
    for row in ROWS[name]:
        pairs.setdefault(row["pair"], []).append(row)

    for faithful, error in pairs.values():
        assert (faithful["label"], faithful["kind"], error["label"]) == (1, "faithful", 0)
        assert error["kind"] in KINDS
        assert faithful["answer"] != error["answer"]
        assert all(faithful[same] == error[same] for same in ("lang", "shape", "question", "contexts"))


def test_both_languages_come_in_twenty_shapes_and_more() -> None:
    by_language = _count(ROWS["everyday"], "lang")
    by_shape = _count(ROWS["everyday"], "lang", "shape")
    shapes = {language: {shape for of, shape in by_shape if of == language} for language in ("en", "zh")}

    assert by_language["en",] >= 150
    assert by_language["zh",] >= 100
    assert shapes["en"] == shapes["zh"]
    assert len(shapes["en"]) >= 20
    assert min(by_shape.values()) >= 6


def test_every_kind_of_error_is_there_often_enough_for_a_figure() -> None:
    by_kind = _count(ROWS["everyday"], "lang", "kind")

    assert all(by_kind["en", kind] >= 10 and by_kind["zh", kind] >= 7 for kind in KINDS)


def test_the_held_back_rows_share_nothing_with_the_others() -> None:
    seen = {context for row in ROWS["everyday"] for context in row["contexts"]}
    held_back = ROWS["everyday_unseen"]

    assert (_count(held_back, "lang")["en",], _count(held_back, "lang")["zh",]) == (60, 40)
    assert not any(context in seen for row in held_back for context in row["contexts"])
    assert {row["shape"] for row in held_back} == {row["shape"] for row in ROWS["everyday"]}
