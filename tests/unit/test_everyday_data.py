"""The everyday answers and probes under tests/data: pairs, twins, languages and one error each."""

from collections import Counter
from typing import Any

import pytest

from benchmarks.probes import read_rows

KINDS = {"number", "unit", "name", "date", "invented", "swapped", "negation"}
PROBES, PROSE = read_rows("probes"), read_rows("everyday_prose")
ROWS = {name: read_rows(name) for name in ("everyday", "everyday_unseen")}


def _count(rows: list[dict[str, Any]], *columns: str) -> Counter[Any]:
    return Counter(tuple(row[column] for column in columns) for row in rows)


@pytest.mark.parametrize("name", ROWS)
def test_each_pair_is_a_faithful_answer_and_the_same_with_one_error(name: str) -> None:
    pairs: dict[str, list[dict[str, Any]]] = {}
    for row in ROWS[name]:
        pairs.setdefault(row["pair"], []).append(row)

    for faithful, error in pairs.values():
        assert (faithful["label"], faithful["kind"], error["label"]) == (1, "faithful", 0)
        assert error["kind"] in KINDS
        assert faithful["answer"] != error["answer"]
        assert all(faithful[same] == error[same] for same in ("lang", "shape", "question", "contexts"))


def test_both_languages_have_enough_of_every_shape_and_kind_for_a_figure() -> None:
    by_shape, by_kind = _count(ROWS["everyday"], "lang", "shape"), _count(ROWS["everyday"], "lang", "kind")

    assert len(by_shape) >= 40
    assert min(by_shape.values()) >= 6
    assert all(by_kind["en", kind] >= 10 and by_kind["zh", kind] >= 7 for kind in KINDS)


def test_the_held_back_rows_share_no_context_with_the_others() -> None:
    seen = {context for row in ROWS["everyday"] for context in row["contexts"]}

    assert not any(context in seen for row in ROWS["everyday_unseen"] for context in row["contexts"])


def test_probes_of_every_kind_are_in_both_languages_and_half_of_the_prose_has_a_wrong_sentence() -> None:
    by_kind = _count(PROBES, "kind", "lang")

    assert (len(PROBES), len(by_kind)) == (200, 32)
    assert min(by_kind.values()) >= 6
    assert set(_count(PROSE, "lang", "label").values()) == {25}
    assert all(row["answer"].count(row["wrong"]) == 1 for row in PROSE if row["label"] == 0)
    assert len({row["id"] for row in (*PROBES, *PROSE)}) == 300
