"""Names of measures: what parses, to what, and what the refusal says."""

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.measure import Measure, parse_measure, parse_measures


@pytest.mark.parametrize(
    "text",
    [
        "recall@5",
        "recall",
        "capped_recall@5",
        "precision@5",
        "precision_ret@5",
        "precision_ret",
        "success@1",
        "mrr",
        "mrr@10",
        "ndcg",
        "ndcg@10",
        "ndcg_exp@10",
        "ndcg_gains@10",
        "map",
        "map@10",
        "map_graded@10",
        "f1@5",
        "f1_ret@5",
        "r_precision",
        "bpref",
        "rbp(p=0.8)",
        "rbp(p=0.95)@20",
        "context_recall",
        "context_precision",
        "context_f1",
        "judged@10",
        "rbp_graded(p=0.9)@20",
        "rbp_resid(p=0.9)",
        "rbp_max(p=0.9)",
        "precision_max@5",
        "iprec(r=0.1)",
        "f_beta(beta=2)@5",
        "f_beta(beta=0.5)@5",
        "all_gold@10",
        "recall_budget(tokens=2000)",
        "num_q",
        "num_rel_ret",
    ],
)
def test_a_canonical_text_is_its_own_measure(text: str) -> None:
    assert str(parse_measure(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("hit_rate@3", "success@3"),
        ("P@5", "precision@5"),
        ("R@100", "recall@100"),
        ("rr", "mrr"),
        ("RR@10", "mrr@10"),
        ("reciprocal_rank", "mrr"),
        ("AP", "map"),
        (" nDCG@10 ", "ndcg@10"),
        ("rbp", "rbp_graded(p=0.9)"),
        ("P_10", "precision@10"),
        ("recall.100", "recall@100"),
        ("ndcg_cut_10", "ndcg@10"),
        ("map_cut.5", "map@5"),
        ("recip_rank", "mrr"),
        ("Rprec", "r_precision"),
        ("set_F", "f1_ret"),
        ("success_1", "success@1"),
        ("iprec_at_recall_0.10", "iprec(r=0.1)"),
        ("rbp(p=.5)@3", "rbp(p=0.5)@3"),
    ],
)
def test_other_names_of_a_measure_are_understood(text: str, canonical: str) -> None:
    assert str(parse_measure(text)) == canonical


def test_cutoffs_of_trec_eval_stand_for_many_measures() -> None:
    assert [str(measure) for measure in parse_measures(["P.5,10", "ndcg_cut_3"])] == [
        "precision@5",
        "precision@10",
        "ndcg@3",
    ]


def test_many_cutoffs_stand_for_many_measures_each_once() -> None:
    measures = parse_measures(["recall@1,3, 5", "mrr", "r@3", "rbp(p=0.5)@1,2"])

    assert [str(measure) for measure in measures] == [
        "recall@1",
        "recall@3",
        "recall@5",
        "mrr",
        "rbp(p=0.5)@1",
        "rbp(p=0.5)@2",
    ]
    assert measures[0] == Measure("recall", 1)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("ndgc@10", "unknown measure 'ndgc@10'; did you mean 'ndcg@10'?"),
        ("recal", "unknown measure 'recal'; did you mean 'recall'?"),
        ("sucess", "unknown measure 'sucess'; did you mean 'success@10'?"),
        ("context_recal@5", "unknown measure 'context_recal@5'; did you mean 'context_recall'?"),
        ("precision", "measure 'precision' needs a cutoff; did you mean 'precision@10'?"),
        ("bpref@10", "measure 'bpref@10' takes no cutoff; did you mean 'bpref'?"),
        ("recall(p=1)@5", "measure 'recall(p=1)@5' takes no parameters; did you mean 'recall'?"),
        ("rbp(p=1.0)", "measure 'rbp(p=1.0)' has wrong parameters; wanted 0 < p < 1, as in 'rbp(p=0.8)'"),
        ("rbp(q=0.5)", "measure 'rbp(q=0.5)' has wrong parameters; wanted 0 < p < 1, as in 'rbp(p=0.8)'"),
        ("rbp(p=1e-e)", "measure 'rbp(p=1e-e)' has wrong parameters; wanted 0 < p < 1, as in 'rbp(p=0.8)'"),
        ("ndcg 10", "unknown measure 'ndcg 10'; wanted a name and a cutoff, as in 'ndcg@10'"),
    ],
)
def test_a_wrong_measure_is_refused_with_the_nearest(text: str, detail: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_measure(text)

    assert refusal.value.detail == detail


@pytest.mark.parametrize("cutoff", ["0", "-1", "1.5", "ten", "", "٣", "1" * 5000, "1,3"])
def test_a_cutoff_that_is_no_whole_number_from_one_is_refused(cutoff: str) -> None:
    with pytest.raises(InvalidInput, match=r"wanted a whole number from 1; did you mean 'recall@10'\?") as refusal:
        parse_measure(f"recall@{cutoff}")

    assert len(refusal.value.detail) < 200


def test_a_word_like_no_measure_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidInput, match="known are recall, capped_recall"):
        parse_measure("zzzzzz")
