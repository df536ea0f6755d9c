"""Parity with the tools that others compare with: pytrec_eval (trec_eval 9) and ranx, on random judgments and runs."""

import importlib.util
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluation import Evaluation, evaluate
from plumbline.retrieval.run import Run

_Qrels = dict[str, dict[str, int]]
_Scores = dict[str, dict[str, float]]
_TREC_NAME_BY_MEASURE = {
    **{f"{ours}@{k}": f"{theirs}_{k}" for k in (1, 3, 5, 10, 20, 100) for ours, theirs in (
        ("recall", "recall"), ("precision", "P"), ("success", "success"), ("ndcg", "ndcg_cut"), ("map", "map_cut"))},
    "mrr": "recip_rank",
    "ndcg": "ndcg",
    "map": "map",
    "r_precision": "Rprec",
    "bpref": "bpref",
    "context_recall": "set_recall",
    "context_precision": "set_P",
    "context_f1": "set_F",
    "num_rel": "num_rel", "num_rel_ret": "num_rel_ret", "num_ret": "num_ret",
    **{f"iprec(r={place / 10!r})": f"iprec_at_recall_{place / 10:.2f}" for place in range(11)},
}  # fmt: skip
_TREC_NAMES = {
    "recall.1,3,5,10,20,100", "P.1,3,5,10,20,100", "success.1,3,5,10,20,100", "ndcg_cut.1,3,5,10,20,100",
    "map_cut.1,3,5,10,20,100", "recip_rank", "ndcg", "map", "Rprec", "bpref", "set_recall", "set_P", "set_F",
    "num_rel", "num_rel_ret", "num_ret", "iprec_at_recall",
}  # fmt: skip


def _scores(chance: random.Random, documents: list[str]) -> dict[str, float]:
    """Distinct, tied and float32-tied scores; short and empty lists."""
    retrieved = chance.sample(documents, chance.choice([0, 1, 2, 5, 20, len(documents)]))
    kind = chance.choice(["distinct", "tied", "near"])
    if kind == "distinct":
        return {document: chance.gauss(0, 10) for document in retrieved}
    if kind == "tied":
        return {document: float(chance.randint(0, 3)) for document in retrieved}
    return {document: 1 + chance.randint(0, 9) * 1e-8 for document in retrieved}


def _judgments(chance: random.Random, documents: list[str]) -> dict[str, int]:
    """Graded, negative and zero grades; never negatives alone, on which pytrec_eval may hang."""
    judged = chance.sample(documents, chance.choice([1, 3, 10, 30]))
    grades = {document: chance.choice([-2, -1, 0, 0, 1, 1, 2, 3]) for document in judged}
    grades[judged[0]] = max(0, grades[judged[0]])
    return grades


def _pair(seed: int, *, queries: int = 3) -> tuple[_Qrels, _Scores]:
    chance = random.Random(seed)  # noqa: S311
    documents = [f"d{number}" for number in range(40)] + ["é", "z", "Ａ", "😀", "ﬀ"]
    names = [f"q{number}" for number in range(queries)]
    qrels = {name: _judgments(chance, documents) for name in names if chance.random() < 0.8}
    run = {name: _scores(chance, documents) for name in names if chance.random() < 0.8}
    return qrels, run


def _trec(module: ModuleType, qrels: _Qrels, run: _Scores, **options: Any) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = module.RelevanceEvaluator(qrels, _TREC_NAMES, **options).evaluate(run)
    # with nothing retrieved, trec_eval divides 0 by 0 for interpolated precision
    return {
        query_id: {name: 0.0 if math.isnan(each) else each for name, each in own.items()}
        for query_id, own in values.items()
    }


@pytest.mark.parametrize(
    ("options", "overrides", "seeds"),
    [
        pytest.param({}, {}, range(250), id="default"),
        pytest.param({}, {}, range(250, 1_000), id="default_more", marks=pytest.mark.nightly),
        pytest.param({"relevance_level": 2}, {"rel_level": 2}, range(100), id="level_2"),
        pytest.param({"judged_docs_only_flag": True}, {"judged_only": True}, range(100), id="judged_only"),
    ],
)
def test_every_value_and_mean_is_pytrec_evals(
    options: dict[str, Any], overrides: Mapping[str, object], seeds: range
) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    conventions = build_conventions("pytrec_eval", **overrides)
    names = _TREC_NAME_BY_MEASURE

    for seed in seeds:
        qrels, run = _pair(seed)
        expected = _trec(pytrec_eval, qrels, run, **options) if qrels else {}
        ours = evaluate(qrels, Run("run", run), names, conventions=conventions)

        assert set(ours.query_ids) == set(expected), seed
        for measure, name in names.items():
            theirs = [expected[query_id][name] for query_id in ours.query_ids]
            assert _distance(ours, measure, theirs) < 1e-9, (seed, measure)
            total = math.fsum(theirs)
            mean = (total if measure.startswith("num_") else total / len(theirs)) if theirs else None
            assert (ours.means[measure] is None) == (mean is None), (seed, measure)
            assert abs((ours.means[measure] or 0.0) - (mean or 0.0)) < 1e-9, (seed, measure)


def test_id_lists_give_what_the_same_order_by_scores_gives() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names = _TREC_NAME_BY_MEASURE
    with_cutoff = [measure for measure in names if "@" in measure]

    for seed in range(100):
        qrels, run = _pair(seed)
        lists = {query_id: list(scores) for query_id, scores in run.items()}
        descending = {query_id: {doc: -float(at) for at, doc in enumerate(ids)} for query_id, ids in lists.items()}
        expected = _trec(pytrec_eval, qrels, descending) if qrels else {}

        for measures in (list(names), with_cutoff):  # the second stops reading at the largest cutoff
            ours = evaluate(qrels, Run("run", lists), measures, conventions=build_conventions("pytrec_eval"))

            for measure in measures:
                theirs = [expected[query_id][names[measure]] for query_id in ours.query_ids]
                assert _distance(ours, measure, theirs) < 1e-9, (seed, measure)


# In a process of its own, where numba does not compile (a minute, and warnings), and without the package's own
# __init__, which imports pandas, matplotlib and seaborn. ranx takes arrays of (document number, grade or score).
_ASK_RANX = """
import importlib.util, json, sys, types
package = types.ModuleType("ranx")
package.__path__ = importlib.util.find_spec("ranx").submodule_search_locations
sys.modules["ranx"] = package
import numpy as np
from ranx.metrics.f1 import f1
from ranx.metrics.ndcg import ndcg, ndcg_burges
from ranx.metrics.rank_biased_precision import rank_biased_precision
judged, scored = (
    [np.array(sorted(rows, key=lambda row: -row[1]), dtype=float) for rows in side] for side in json.load(sys.stdin)
)
answers = {
    "ndcg_exp@10": ndcg_burges(judged, scored, 10),
    "ndcg@10": ndcg(judged, scored, 10),
    "f1@5": f1(judged, scored, 5),
    "rbp(p=0.8)": rank_biased_precision(judged, scored, 0.8),
}
print(json.dumps({measure: values.tolist() for measure, values in answers.items()}))
"""


def _ranx(qrels: _Qrels, run: _Scores) -> dict[str, list[float]]:
    """Values by our name of the measure, in the order of the judgments; ids are d and a number."""
    sides = [[[(int(doc[1:]), value) for doc, value in side[q].items()] for q in qrels] for side in (qrels, run)]
    answer = subprocess.run(
        [sys.executable, "-c", _ASK_RANX],
        input=json.dumps(sides),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    values: dict[str, list[float]] = json.loads(answer.stdout)
    return values


@pytest.mark.skipif(importlib.util.find_spec("ranx") is None, reason="ranx is not installed")
def test_exponential_gains_and_rank_biased_precision_are_ranxs() -> None:
    chance = random.Random(1)  # noqa: S311
    documents = [f"d{number}" for number in range(40)]
    # ranx multiplies each term of rbp by the grade, so that is compared where the only grade is 1.
    grades = {f"q{number}": [0, 1, 2, 3] if number < 100 else [1] for number in range(200)}
    qrels = {q: {doc: chance.choice(grades[q]) for doc in chance.sample(documents, 8)} for q in grades}
    run = {q: {doc: chance.random() for doc in chance.sample(documents, 20)} for q in grades}

    theirs = _ranx(qrels, run)
    ours = evaluate(qrels, Run("run", run), theirs)

    for measure, values in theirs.items():
        start = 100 if measure.startswith("rbp") else 0
        assert ours.values[measure][start:] == pytest.approx(values[start:], abs=1e-9), measure


def _distance(ours: Evaluation, measure: str, theirs: list[float]) -> float:
    """The largest difference from a value of theirs; 0 without queries."""
    return float(np.abs(ours.values[measure] - np.array(theirs)).max(initial=0.0))
