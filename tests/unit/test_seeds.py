"""What the five seeds of this project asked for: a test each, named after the seed, with the seed's own formulas.

Other tests of a seed: `grep -rn seed_1 tests`; keyword rankings worked out by hand are in `test_keyword_rankings.py`.
"""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import plumbline
from plumbline.cli.main import main

# What was counted or left out is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

UUID = "27c682dc-c97b-4c3e-b41c-999c65264a6d"
CUTOFFS = (1, 3, 5, 10, 20, 100)


def test_seed_0_recall_success_and_mrr_are_those_of_its_formulas_at_every_cutoff() -> None:
    chance = random.Random(0)  # noqa: S311
    documents = [f"doc_{number}" for number in range(150)]
    for _ in range(30):
        judged = {doc: chance.choice([0, 1, 2]) for doc in chance.sample(documents, 12)}
        ranking = chance.sample(documents, chance.choice([0, 2, 40, 150]))
        relevant = {doc for doc, grade in judged.items() if grade > 0}
        hits = [rank for rank, doc in enumerate(ranking, start=1) if doc in relevant]

        names = ["recall@1,3,5,10,20,100", "success@1,3,5,10,20,100", "mrr"]
        found = plumbline.retrieval.evaluate({"q": judged}, {"q": ranking}, names, preset="seed-0", allow_disjoint=True)

        expected = {f"recall@{k}": sum(hit <= k for hit in hits) / len(relevant) if relevant else 0.0 for k in CUTOFFS}
        expected |= {f"success@{k}": float(any(hit <= k for hit in hits)) for k in CUTOFFS}
        assert found == pytest.approx({**expected, "mrr": 1 / hits[0] if hits else 0.0})


def test_seed_0_a_reply_is_parsed_and_measured_by_one_call() -> None:
    reply = "1. doc_5：最相关\n2. doc_1"
    measures = ["recall@1,3", "success@1", "mrr"]

    found = plumbline.retrieval.evaluate({"q1": {"doc_1": 1, "doc_3": 0}}, {"q1": reply}, measures, preset="seed-0")

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

    code = main(
        ["retrieval", "evaluate", str(tmp_path / "qrels.txt"), str(tmp_path / "llm.jsonl"), "-m", "mrr", "--json"]
    )

    shown = capsys.readouterr()
    run = json.loads(shown.out)["runs"][0]
    assert (code, run["measures"]["mrr"]["mean"]) == (0, 0.25)
    assert run["rankings"]["q1"]["ids"] == ["doc_5", "doc_1"]
    assert "1 of 2 replies hold no ranking (0 of them two): 'q2'; they are missing from the run" in shown.err


def test_seed_1_ndcg_precision_and_f1_at_k() -> None:
    # grades -1, 2 in that order: gain 2 at rank 2 of an ideal 2 at rank 1
    found = plumbline.retrieval.evaluate(
        {"q": {"a": 2, "b": -1, "c": 1}}, {"q": ["b", "a"]}, ["ndcg@10", "P@2", "f1@2"], preset="seed-1"
    )

    ideal = 2 + 1 / math.log2(3)
    assert found == pytest.approx({"ndcg@10": (2 / math.log2(3)) / ideal, "precision@2": 0.5, "f1@2": 0.5})


def test_seed_1_three_retrievers_are_blended_by_weights() -> None:
    parts = [{"q": {"a": 10.0, "b": 5.0}}, {"q": {"b": 1.0, "a": 0.0}}, {"q": {"b": 0.9, "c": 0.1}}]

    blended = plumbline.retrieval.fuse(parts, "wsum", norm="min-max", weights=[0.3, 0.4, 0.3])

    assert blended["q"] == pytest.approx({"b": 0.7, "a": 0.3, "c": 0.0})


def test_seed_2_graded_map_and_exponential_gain() -> None:
    measures = ["ndcg_exp@10", "map_graded@10", "precision@1"]

    found = plumbline.retrieval.evaluate({"q": {"a": 1, "b": 2}}, {"q": ["a", "b"]}, measures, preset="seed-2")

    ndcg = (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))
    assert found == pytest.approx({"ndcg_exp@10": ndcg, "map_graded@10": (1 * 0.5 + 1 * 1.0) / 2, "precision@1": 1.0})


def test_seed_3_the_python_interface_reads_both_tables(tmp_path: Path) -> None:
    other = UUID.replace("2", "3")
    (tmp_path / "gold.tsv").write_text(f"qid\tdocument_ids\nq1\t['<urn:uuid:{UUID}>']\n", encoding="utf-8")
    chunks = [f"doc-<urn:uuid:{UUID}>::chunk-0", f"doc-<urn:uuid:{UUID}>::chunk-1", f"doc-<urn:uuid:{other}>::chunk-0"]
    (tmp_path / "results.tsv").write_text(f"qid\tdoc_ids\nq1\t{json.dumps(chunks)}\n", encoding="utf-8")

    found = plumbline.retrieval.evaluate(
        tmp_path / "gold.tsv",
        tmp_path / "results.tsv",
        ["context_recall", "context_precision", "context_f1", "ndcg@10", "num_ret", "num_rel", "num_rel_ret"],
        preset="seed-3",
    )

    assert list(found.values()) == pytest.approx([1.0, 0.5, 2 / 3, 1.0, 2.0, 1.0, 1.0])  # type: ignore[union-attr]


def test_seed_4_chunks_count_as_their_documents() -> None:
    run = {"q": ["A#0", "A#1", "A#2", "B#0"]}

    found = plumbline.retrieval.evaluate({"q": ["B"]}, run, ["recall@3", "precision_ret@3", "mrr"], preset="seed-4")

    assert found == {"recall@3": 0.0, "precision_ret@3": 0.0, "mrr": 0.5}


def test_seed_0_a_query_without_relevant_documents_has_a_recall_of_zero() -> None:
    assert plumbline.retrieval.evaluate({"q": {"a": 0}}, {"q": ["a"]}, "recall@1", preset="seed-0") == 0.0


def test_seed_1_raw_scores_are_weighted_as_in_its_blend_and_warned_of() -> None:
    bm25, sparse, dense = {"a": 12.0, "b": 4.0}, {"a": 1.5, "c": 3.0}, {"c": 0.9, "b": 0.2}

    with pytest.warns(UserWarning, match="raw scores of different scales"):
        blended = plumbline.retrieval.fuse([{"q": each} for each in (bm25, sparse, dense)], "wsum", norm="none",
                                 weights=[0.3, 0.4, 0.3])  # fmt: skip

    expected = {
        doc: 0.3 * bm25.get(doc, 0) + 0.4 * sparse.get(doc, 0) + 0.3 * dense.get(doc, 0) for doc in ("a", "c", "b")
    }
    assert blended["q"] == pytest.approx(expected)
    assert list(blended["q"]) == sorted(expected, key=expected.__getitem__, reverse=True)


def test_seed_1_a_part_that_finds_nothing_leaves_its_blend_alone() -> None:
    blended = plumbline.retrieval.fuse([{"q": {"a": 2.0, "b": 1.0}}, {}], "rrf")

    assert list(blended["q"]) == ["a", "b"]


def test_seed_2_grades_0_1_2_weigh_as_its_code_has_them() -> None:
    chance = random.Random(2)  # noqa: S311
    documents = [f"d{number}" for number in range(30)]
    for _ in range(50):
        judged = {doc: chance.choice([0, 1, 2]) for doc in chance.sample(documents, 8)}
        ranking = chance.sample(documents, 15)
        relevant, score = 0, 0.0
        for rank, doc in enumerate(ranking[:10], start=1):
            if judged.get(doc, 0) > 0:
                relevant += 1
                score += relevant / rank * (judged[doc] / 2.0)
        total = sum(grade > 0 for grade in judged.values())

        found = plumbline.retrieval.evaluate(
            {"q": judged}, {"q": ranking}, ["map_graded@10", "P@1"], preset="seed-2", allow_disjoint=True
        )

        first = float(judged.get(ranking[0], 0) > 0)
        assert found == pytest.approx({"map_graded@10": score / total if total else 0.0, "precision@1": first})


def test_seed_3_the_command_reads_both_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gold.tsv").write_text(f"qid\tquestion\tdocument_ids\nq1\tx\t['<urn:uuid:{UUID}>']\n", encoding="utf-8")
    chunks = [f"doc-<urn:uuid:{UUID}>::chunk-{place}" for place in range(2)]
    (tmp_path / "results.tsv").write_text(f"qid\tanswer\tdoc_ids\nq1\ty\t{chunks}\n", encoding="utf-8")
    measures = [
        word for name in ("context_recall", "context_precision", "context_f1", "num_ret") for word in ("-m", name)
    ]
    files = [str(tmp_path / "gold.tsv"), str(tmp_path / "results.tsv")]

    code = main(["retrieval", "evaluate", *files, *measures, "--preset", "seed-3"])

    values = [line.split("\t")[-1] for line in capsys.readouterr().out.splitlines()]
    assert (code, values) == (0, ["1.0000", "1.0000", "1.0000", "1.0000"])


def test_seed_3_repeated_chunks_without_the_preset_are_told_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gold.tsv").write_text("qid\tdocument_ids\nq1\t['a']\n", encoding="utf-8")
    (tmp_path / "results.tsv").write_text("qid\tdoc_ids\nq1\t['a', 'a']\n", encoding="utf-8")
    arguments = [
        "retrieval",
        "evaluate",
        str(tmp_path / "gold.tsv"),
        str(tmp_path / "results.tsv"),
        "-m",
        "context_recall",
    ]

    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "q1/a: the document was retrieved twice" in said
    assert "results.tsv" in said
    assert main([*arguments, "--duplicates", "first"]) == 0


def test_seed_4_recall_precision_and_mrr_are_of_documents_at_every_cutoff() -> None:
    chance = random.Random(4)  # noqa: S311
    documents = [f"file{number}.md" for number in range(12)]
    cutoffs = (1, 3, 5, 10)
    for _ in range(50):
        relevant = set(chance.sample(documents, 4))
        chunks = [f"{chance.choice(documents)}#{place}" for place in range(15)]
        found_by_k = {k: {chunk.partition("#")[0] for chunk in chunks[:k]} for k in cutoffs}
        unique = list(dict.fromkeys(chunk.partition("#")[0] for chunk in chunks))
        ranks = [rank for rank, doc in enumerate(unique, start=1) if doc in relevant]

        names = ["recall@1,3,5,10", "precision_ret@1,3,5,10", "mrr"]
        found = plumbline.retrieval.evaluate(
            {"q": sorted(relevant)}, {"q": chunks}, names, preset="seed-4", allow_disjoint=True
        )

        expected: dict[str, Any] = {f"recall@{k}": len(own & relevant) / 4 for k, own in found_by_k.items()}
        expected |= {f"precision_ret@{k}": len(own & relevant) / len(own) for k, own in found_by_k.items()}
        assert found == pytest.approx({**expected, "mrr": 1 / ranks[0] if ranks else 0.0})
