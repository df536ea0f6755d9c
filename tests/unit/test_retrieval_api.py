"""`plumbline.retrieval.evaluate`, `compare` and `fuse` on mappings, tables and paths."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import plumbline
from plumbline.ground.errors import InvalidInput

# What was counted or left out is warned of; one test looks at that.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

QRELS = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
RUN = {"q1": {"a": 0.9, "x": 0.5, "b": 0.1}, "q2": {"y": 2.0, "c": 1.0}}


class Column(list[Any]):
    def to_list(self) -> list[Any]:
        return list(self)


@dataclass
class Frame:
    """Interface that pandas and polars share."""

    data: dict[str, list[Any]]

    @property
    def columns(self) -> list[str]:
        return list(self.data)

    def __getitem__(self, name: str) -> Column:
        return Column(self.data[name])


def test_one_measure_is_a_number_and_several_are_by_name() -> None:
    assert plumbline.retrieval.evaluate(QRELS, RUN, "mrr") == 0.75
    assert plumbline.retrieval.evaluate(QRELS, RUN, ["mrr", "P_1"]) == {"mrr": 0.75, "precision@1": 0.5}


def test_values_by_query_are_returned_on_request() -> None:
    assert plumbline.retrieval.evaluate(QRELS, RUN, "mrr", per_query=True) == {"q1": 1.0, "q2": 0.5}


def test_every_convention_is_a_keyword() -> None:
    assert plumbline.retrieval.evaluate(QRELS, RUN, "recall@10", rel_level=2, no_relevant="skip") == 1.0
    with pytest.raises(InvalidInput, match="did you mean 'rel_level'"):
        plumbline.retrieval.evaluate(QRELS, RUN, rel_lvel=2)


def test_tables_are_read_by_their_columns() -> None:
    qrels = Frame({"query_id": ["q1", "q1", "q2"], "doc_id": ["a", "b", "c"], "relevance": [2, 1, 1]})
    scored = Frame({"qid": ["q1", "q1", "q2"], "docno": ["x", "a", "c"], "score": [0.1, 0.9, 1.0]})
    ranked = Frame({"qid": ["q1", "q1", "q2"], "docno": ["x", "a", "c"], "rank": [2, 1, 1]})

    assert plumbline.retrieval.evaluate(qrels, scored, "mrr") == 1.0
    assert plumbline.retrieval.evaluate(qrels, ranked, "mrr") == 1.0
    with pytest.raises(InvalidInput, match="wanted a column of documents, such as"):
        plumbline.retrieval.evaluate(qrels, Frame({"query": ["q1"], "score": [1.0]}))


def test_numbers_of_numpy_and_ids_that_are_numbers_are_taken() -> None:
    numpy = pytest.importorskip("numpy")

    assert (
        plumbline.retrieval.evaluate(
            {1: {7: numpy.int64(1)}}, {1: {7: numpy.float32(0.5), 8: numpy.float32(0.9)}}, "mrr"
        )
        == 0.5
    )
    assert plumbline.retrieval.evaluate({1: [7]}, {1: [8, 7]}, "mrr") == 0.5


@pytest.mark.parametrize(
    ("qrels", "run", "said"),
    [
        ({"q1": {"a": "two"}}, {"q1": ["a"]}, "q1/a: found the grade \"'two'\""),
        ({"q1": {"a": 1}}, {"q1": {"a"}}, "q1: found a set, wanted scores by document or ids best first"),
        ({"q1": {"a": 1}}, {"q1": [["a"]]}, "q1: rank 1: found \"\\['a'\\]\", wanted the id of a document"),
        ({"q1": {"a": 1}}, {"q1": {"a": None}}, "q1/a: found the score 'None'"),
    ],
)
def test_bad_input_names_query_and_document(qrels: Any, run: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plumbline.retrieval.evaluate(qrels, run)


def test_paths_hold_trec_files_or_json(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q1 0 a 2\nq1 0 b 1\nq2 0 c 1\n", encoding="utf-8")
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")

    assert plumbline.retrieval.evaluate(tmp_path / "qrels.txt", str(tmp_path / "run.json"), "mrr") == 0.75


def test_runs_are_compared_and_fused() -> None:
    (pair,) = plumbline.retrieval.compare(QRELS, {"one": RUN, "two": {"q1": ["a"], "q2": ["c"]}}, "mrr")
    fused = plumbline.retrieval.fuse([RUN, {"q1": ["b"]}], k=10)
    tuned = plumbline.retrieval.fuse(
        [RUN, {"q1": ["b"], "q2": ["y"]}], "wsum", tune_on=QRELS, measure="mrr", folds=2, step=0.5
    )

    assert (pair.a, pair.b, pair.diff) == ("one", "two", -0.25)
    assert fused["q1"]["b"] == pytest.approx(1 / 13 + 1 / 11)
    assert set(tuned) == {"q1", "q2"}


def test_weights_are_tuned_under_the_conventions_that_are_given() -> None:
    # by grade 2 alone the second run is right, by grade 1 the first
    qrels = {f"q{place}": {"a": 1, "b": 2, "c": 0} for place in range(4)}
    runs = [{query: {"a": 1.0, "c": 0.5} for query in qrels}, {query: {"b": 1.0, "c": 0.9} for query in qrels}]
    tuned: dict[str, Any] = {"tune_on": qrels, "measure": "P_1", "folds": 2, "step": 1.0}

    strict = plumbline.retrieval.fuse(runs, "wsum", norm="none", conventions={"rel_level": 2}, **tuned)

    assert next(iter(strict["q0"])) == "b"
    with pytest.raises(InvalidInput, match="unknown convention 'level'"):
        plumbline.retrieval.fuse(runs, "wsum", conventions={"level": 2}, **tuned)


def test_what_has_nothing_in_common_is_refused_or_warned_of_where_it_is_allowed() -> None:
    with pytest.raises(InvalidInput, match="no document of the run is judged"):
        plumbline.retrieval.evaluate({"q1": {"a": 1}}, {"q1": ["z"]})
    with pytest.warns(UserWarning, match="no document of the run is judged"):
        assert plumbline.retrieval.evaluate({"q1": {"a": 1}}, {"q1": ["z"]}, "mrr", allow_disjoint=True) == 0.0
