"""What holds for the measures of any judgments and runs."""

import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluation import Evaluation, evaluate
from plumbline.retrieval.measure import CUTOFF_BY_NAME, Cutoff, Measure, parse_measure
from plumbline.retrieval.run import Qrels, Results, Run
from tests.making.cases import load_cases

_DOCUMENTS = [f"d{number}" for number in range(8)]
_QUERIES = ["q1", "q2", "q3"]
_GRADES = st.dictionaries(st.sampled_from(_DOCUMENTS), st.integers(-1, 3), max_size=8)
_SCORES = st.dictionaries(st.sampled_from(_DOCUMENTS), st.integers(0, 3).map(float), max_size=8)
_LISTS = st.lists(st.sampled_from(_DOCUMENTS), unique=True)
_QRELS = st.dictionaries(st.sampled_from(_QUERIES), _GRADES, max_size=3)
_RESULTS = st.dictionaries(st.sampled_from(_QUERIES), st.one_of(_SCORES, _LISTS), max_size=3)
_OVERRIDES = st.fixed_dictionaries(
    {
        "rel_level": st.sampled_from([1, 2]),
        "ndcg_rel_level": st.sampled_from(["ignore", "drop_below"]),
        "map_normaliser": st.sampled_from(["R", "min_R_k", "retrieved_relevant", "sum_of_weights"]),
        "judged_only": st.booleans(),
        "no_relevant": st.sampled_from(["zero", "skip"]),
    }
)
_CUTOFFS = st.integers(1, 12)


_PARAMETERS = load_cases("retrieval_properties", "parameters")
_NO_SHARES = {"num_q", "num_ret", "num_rel", "num_rel_ret", "recall_budget"}


@st.composite
def _measures(draw: st.DrawFn) -> Measure:
    name = draw(st.sampled_from(sorted(CUTOFF_BY_NAME.keys() - _NO_SHARES)))
    takes = CUTOFF_BY_NAME[name]
    k = None if takes is Cutoff.NONE else draw(_CUTOFFS if takes is Cutoff.REQUIRED else st.none() | _CUTOFFS)
    parameter = _PARAMETERS.get(name)
    params = ((parameter, draw(st.floats(0.001, 0.999))),) if parameter else ()
    return Measure(name, k, params)


def _evaluated(
    qrels: Qrels, results: Mapping[str, Results], *measures: Measure | str, **overrides: object
) -> Evaluation:
    conventions = build_conventions("trec_eval", **{"gain_map": {1: 1, 2: 3, 3: 4}, **overrides})
    return evaluate(qrels, Run("run", results), measures, conventions=conventions)


@given(_measures())
def test_a_measure_parses_back_from_its_text(measure: Measure) -> None:
    assert parse_measure(str(measure)) == measure


@given(_QRELS, _RESULTS, _measures(), _OVERRIDES)
def test_every_value_lies_between_zero_and_one(
    qrels: Qrels, results: Mapping[str, Results], measure: Measure, overrides: dict[str, object]
) -> None:
    evaluation = _evaluated(qrels, results, measure, **overrides)

    values = evaluation.values[str(measure)]
    assert values.shape == (len(evaluation.query_ids),)
    assert ((values >= 0) & (values <= 1 + 1e-12)).all()


@given(_QRELS, _RESULTS, _measures(), st.randoms())
def test_the_order_of_queries_changes_no_value(
    qrels: Qrels, results: Mapping[str, Results], measure: Measure, chance: random.Random
) -> None:
    shuffled = list(qrels)
    chance.shuffle(shuffled)

    first = _evaluated(qrels, results, measure)
    second = _evaluated({query: qrels[query] for query in shuffled}, dict(reversed(list(results.items()))), measure)

    by_query = dict(zip(second.query_ids, second.values[str(measure)].tolist(), strict=True))
    assert by_query == dict(zip(first.query_ids, first.values[str(measure)].tolist(), strict=True))


@given(_GRADES, _LISTS.filter(lambda ids: len(ids) > 1), st.data())
def test_moving_a_relevant_document_up_never_lowers_a_value(
    grades: Mapping[str, int], ids: list[str], data: st.DataObject
) -> None:
    place = data.draw(st.integers(1, len(ids) - 1))
    # Past a document of a grade no higher: past a higher one nDCG may fall, and rightly.
    if grades.get(ids[place], 0) < max(1, grades.get(ids[place - 1], 0)):
        return
    better = [*ids[: place - 1], ids[place], ids[place - 1], *ids[place + 1 :]]
    measures = ("ndcg", "ndcg@3", "ndcg_exp@3", "mrr", "mrr@2", "map", "map@3", "rbp(p=0.5)", "bpref", "recall@3")

    before = _evaluated({"q": grades}, {"q": ids}, *measures)
    after = _evaluated({"q": grades}, {"q": better}, *measures)

    for measure in measures:
        assert after.values[measure][0] >= before.values[measure][0] - 1e-12, measure


@given(_QRELS, _RESULTS, _CUTOFFS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(qrels: Qrels, results: Mapping[str, Results], k: int) -> None:
    values = _evaluated(
        qrels, results, f"recall@{k}", f"precision@{k}", f"precision_ret@{k}", f"f1@{k}", f"f1_ret@{k}"
    ).values

    recall = values[f"recall@{k}"]
    for precision, f1 in ((f"precision@{k}", f"f1@{k}"), (f"precision_ret@{k}", f"f1_ret@{k}")):
        both = values[precision] + recall
        expected = np.divide(2 * values[precision] * recall, both, out=np.zeros(len(both)), where=both > 0)
        assert values[f1] == pytest.approx(expected)


@given(_QRELS, _RESULTS, _CUTOFFS)
def test_success_is_whether_anything_was_recalled(qrels: Qrels, results: Mapping[str, Results], k: int) -> None:
    values = _evaluated(qrels, results, f"recall@{k}", f"success@{k}", f"precision@{k}", f"precision_ret@{k}").values

    assert (values[f"success@{k}"] == (values[f"recall@{k}"] > 0)).all()
    assert (values[f"precision_ret@{k}"] >= values[f"precision@{k}"]).all()


@given(_GRADES)
def test_the_best_possible_ranking_scores_one(grades: Mapping[str, int]) -> None:
    ids = sorted(grades, key=lambda document: -grades[document])

    means = _evaluated({"q": grades}, {"q": ids}, "ndcg", "ndcg_exp@3", "map", "mrr", "r_precision", "bpref").means

    best = 1.0 if any(grade > 0 for grade in grades.values()) else 0.0
    assert list(means.values()) == pytest.approx([best] * 6)


@given(_QRELS, _RESULTS)
def test_a_list_is_read_no_further_than_the_largest_cutoff_to_the_same_values(
    qrels: Qrels, results: Mapping[str, Results]
) -> None:
    shallow = _evaluated(qrels, results, "recall@2", "ndcg@3")
    deep = _evaluated(qrels, results, "recall@2", "ndcg@3", "map")

    for measure in ("recall@2", "ndcg@3"):
        assert shallow.values[measure].tolist() == deep.values[measure].tolist()
