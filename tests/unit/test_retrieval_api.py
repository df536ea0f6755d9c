"""`plumbline.evaluate`, `compare` and `fuse` on mappings, tables and paths; and what each seed asked for."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import plumbline
from plumbline.cli.main import main
from plumbline.ground.errors import InvalidInput

# What was counted or left out is warned of; one test looks at that.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

QRELS = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
RUN = {"q1": {"a": 0.9, "x": 0.5, "b": 0.1}, "q2": {"y": 2.0, "c": 1.0}}
UUID = "27c682dc-c97b-4c3e-b41c-999c65264a6d"


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
    assert plumbline.evaluate(QRELS, RUN, "mrr") == 0.75
    assert plumbline.evaluate(QRELS, RUN, ["mrr", "P_1"]) == {"mrr": 0.75, "precision@1": 0.5}


def test_values_by_query_are_returned_on_request() -> None:
    assert plumbline.evaluate(QRELS, RUN, "mrr", per_query=True) == {"q1": 1.0, "q2": 0.5}


def test_every_convention_is_a_keyword() -> None:
    assert plumbline.evaluate(QRELS, RUN, "recall@10", rel_level=2, no_relevant="skip") == 1.0
    with pytest.raises(InvalidInput, match="did you mean 'rel_level'"):
        plumbline.evaluate(QRELS, RUN, rel_lvel=2)


def test_tables_are_read_by_their_columns() -> None:
    qrels = Frame({"query_id": ["q1", "q1", "q2"], "doc_id": ["a", "b", "c"], "relevance": [2, 1, 1]})
    scored = Frame({"qid": ["q1", "q1", "q2"], "docno": ["x", "a", "c"], "score": [0.1, 0.9, 1.0]})
    ranked = Frame({"qid": ["q1", "q1", "q2"], "docno": ["x", "a", "c"], "rank": [2, 1, 1]})

    assert plumbline.evaluate(qrels, scored, "mrr") == 1.0
    assert plumbline.evaluate(qrels, ranked, "mrr") == 1.0
    with pytest.raises(InvalidInput, match="a table with a column such as"):
        plumbline.evaluate(qrels, Frame({"query": ["q1"], "score": [1.0]}))


def test_numbers_of_numpy_and_ids_that_are_numbers_are_taken() -> None:
    numpy = pytest.importorskip("numpy")

    assert (
        plumbline.evaluate({1: {7: numpy.int64(1)}}, {1: {7: numpy.float32(0.5), 8: numpy.float32(0.9)}}, "mrr") == 0.5
    )
    assert plumbline.evaluate({1: [7]}, {1: [8, 7]}, "mrr") == 0.5


@pytest.mark.parametrize(
    ("qrels", "run", "said"),
    [
        ({"q1": {"a": "two"}}, {"q1": ["a"]}, "q1/a: found the grade \"'two'\""),
        ({"q1": {"a": 1}}, {"q1": {"a"}}, "q1: found a set, wanted scores by document or ids best first"),
        ({"q1": {"a": 1}}, {"q1": [["a"]]}, "q1: found \"\\['a'\\]\" at rank 1"),
        ({"q1": {"a": 1}}, {"q1": {"a": None}}, "q1/a: found the score 'None'"),
    ],
)
def test_bad_input_names_query_and_document(qrels: Any, run: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plumbline.evaluate(qrels, run)


def test_paths_hold_trec_files_or_json(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q1 0 a 2\nq1 0 b 1\nq2 0 c 1\n", encoding="utf-8")
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")

    assert plumbline.evaluate(tmp_path / "qrels.txt", str(tmp_path / "run.json"), "mrr") == 0.75


def test_runs_are_compared_and_fused() -> None:
    (pair,) = plumbline.compare(QRELS, {"one": RUN, "two": {"q1": ["a"], "q2": ["c"]}}, "mrr")
    fused = plumbline.fuse([RUN, {"q1": ["b"]}], k=10)
    tuned = plumbline.fuse([RUN, {"q1": ["b"], "q2": ["y"]}], "wsum", tune_on=QRELS, measure="mrr", folds=2, step=0.5)

    assert (pair.a, pair.b, pair.diff) == ("one", "two", -0.25)
    assert fused["q1"]["b"] == pytest.approx(1 / 13 + 1 / 11)
    assert set(tuned) == {"q1", "q2"}


def test_what_the_caller_may_not_have_meant_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="no document of the run is judged"):
        plumbline.evaluate({"q1": {"a": 1}}, {"q1": ["z"]})


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels.json").write_text(json.dumps(QRELS), encoding="utf-8")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    return tmp_path


def test_conventions_are_options_of_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(folder / "qrels.json"), str(folder / "one/run.json")]
    options = ["-l", "2", "-J", "--ties", "docno_asc", "--gains", "1=1,2=3", "--no-relevant", "skip", "--seed", "7"]

    found = json.loads(told(["evaluate", *files, "-m", "recip_rank", "-m", "ndcg_gains", "--json", *options], capsys))

    expected = {"rel_level": 2, "judged_only": True, "ties": "docno_asc", "gain_map": {"1": 1.0, "2": 3.0}}
    assert expected.items() <= found["conventions"].items()
    assert found["runs"][0]["measures"]["mrr"]["mean"] == 1.0


def test_runs_of_one_file_name_are_told_apart_by_their_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(folder / "qrels.json"), str(folder / "one/run.json"), str(folder / "two/run.json")]

    assert told(["evaluate", *files, "-m", "mrr"], capsys).splitlines() == [
        "one/run.json\tmrr\tall\t0.7500",
        "two/run.json\tmrr\tall\t0.7500",
    ]


def test_a_comparison_in_csv_is_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["compare", str(folder / "qrels.json"), str(folder / "one/run.json"), str(folder / "two/run.json")]

    pairs = told([*files, "-m", "mrr", "--format", "csv"], capsys).splitlines()
    means = told([*files, "-m", "mrr", "--format", "csv", "--table", "means"], capsys).splitlines()

    assert (len(pairs), pairs[0].split(",")[:3]) == (2, ["measure", "a", "b"])
    assert (len(means), means[0].split(",")[:2]) == (3, ["label", "run"])


def test_a_fusion_is_tuned_and_takes_its_parameters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(folder / "one/run.json"), str(folder / "two/run.json")]

    assert told(["fuse", *runs, "--k", "9", "--missing", "min"], capsys).split()[4] == repr(0.2)
    assert main(["fuse", *runs, "--method", "wsum", "--tune", str(folder / "qrels.json"), "--folds", "2"]) == 0
    assert "held out" in capsys.readouterr().err


def test_the_help_lists_the_measures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])

    shown = " ".join(capsys.readouterr().out.split())
    assert "ndcg[@k]" in shown
    assert "recall_budget" in shown


def test_seed_0_a_reply_is_parsed_and_measured_by_one_call() -> None:
    reply = "1. doc_5：最相关\n2. doc_1"
    measures = ["recall@1,3", "success@1", "mrr"]

    found = plumbline.evaluate({"q1": {"doc_1": 1, "doc_3": 0}}, {"q1": reply}, measures, preset="seed-0")

    assert found == {"recall@1": 0.0, "recall@3": 1.0, "success@1": 0.0, "mrr": 0.5}


def test_seed_0_the_command_reads_replies_and_shows_what_it_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = [
        {"query_id": "q1", "output": "[2] > [1]", "candidates": ["doc_1", "doc_5"]},
        {"query_id": "q2", "output": "抱歉，无法排序。"},
    ]
    (tmp_path / "qrels.txt").write_text("q1 0 doc_1 1\nq2 0 doc_1 1\n", encoding="utf-8")
    (tmp_path / "llm.jsonl").write_text("\n".join(map(json.dumps, replies)), encoding="utf-8")

    code = main(["evaluate", str(tmp_path / "qrels.txt"), str(tmp_path / "llm.jsonl"), "-m", "mrr", "--json"])

    shown = capsys.readouterr()
    run = json.loads(shown.out)["runs"][0]
    assert (code, run["measures"]["mrr"]["mean"]) == (0, 0.25)
    assert run["rankings"]["q1"]["ids"] == ["doc_5", "doc_1"]
    assert "1 of 2 replies hold no ranking (0 of them two): 'q2'; they are missing from the run" in shown.err


def test_seed_1_ndcg_precision_and_f1_at_k() -> None:
    # grades -1, 2 in that order: gain 2 at rank 2 of an ideal 2 at rank 1
    found = plumbline.evaluate(
        {"q": {"a": 2, "b": -1, "c": 1}}, {"q": ["b", "a"]}, ["ndcg@10", "P@2", "f1@2"], preset="seed-1"
    )

    ideal = 2 + 1 / math.log2(3)
    assert found == pytest.approx({"ndcg@10": (2 / math.log2(3)) / ideal, "precision@2": 0.5, "f1@2": 0.5})


def test_seed_1_three_retrievers_are_blended_by_weights() -> None:
    parts = [{"q": {"a": 10.0, "b": 5.0}}, {"q": {"b": 1.0, "a": 0.0}}, {"q": {"b": 0.9, "c": 0.1}}]

    blended = plumbline.fuse(parts, "wsum", norm="min-max", weights=[0.3, 0.4, 0.3])

    assert blended["q"] == pytest.approx({"b": 0.7, "a": 0.3, "c": 0.0})


def test_seed_2_graded_map_and_exponential_gain() -> None:
    measures = ["ndcg_exp@10", "map_graded@10", "precision@1"]

    found = plumbline.evaluate({"q": {"a": 1, "b": 2}}, {"q": ["a", "b"]}, measures, preset="seed-2")

    ndcg = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert found == pytest.approx({"ndcg_exp@10": ndcg, "map_graded@10": (1 * 0.5 + 1 * 1.0) / 2, "precision@1": 1.0})


def test_seed_3_the_python_interface_reads_both_tables(tmp_path: Path) -> None:
    other = UUID.replace("2", "3")
    (tmp_path / "gold.tsv").write_text(f"qid\tdocument_ids\nq1\t['<urn:uuid:{UUID}>']\n", encoding="utf-8")
    chunks = [f"doc-<urn:uuid:{UUID}>::chunk-0", f"doc-<urn:uuid:{UUID}>::chunk-1", f"doc-<urn:uuid:{other}>::chunk-0"]
    (tmp_path / "results.tsv").write_text(f"qid\tdoc_ids\nq1\t{json.dumps(chunks)}\n", encoding="utf-8")

    found = plumbline.evaluate(
        tmp_path / "gold.tsv",
        tmp_path / "results.tsv",
        ["context_recall", "context_precision", "context_f1", "ndcg@10", "num_ret", "num_rel", "num_rel_ret"],
        preset="seed-3",
        file_format="tables",
    )

    assert list(found.values()) == pytest.approx([1.0, 0.5, 2 / 3, 1.0, 2.0, 1.0, 1.0])  # type: ignore[union-attr]


def test_seed_4_chunks_count_as_their_documents() -> None:
    run = {"q": ["A#0", "A#1", "A#2", "B#0"]}

    found = plumbline.evaluate({"q": ["B"]}, run, ["recall@3", "precision_ret@3", "mrr"], preset="seed-4")

    assert found == {"recall@3": 0.0, "precision_ret@3": 0.0, "mrr": 0.5}
