"""What holds for the fusion of any runs."""

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.retrieval.combination import NORMS, TIE_ORDERS, WEIGHTED, normalise
from plumbline.retrieval.fusion import METHODS, MISSING, fuse, simplex_grid
from plumbline.retrieval.run import Results, Run

_DOC_IDS = st.sampled_from([f"d{place}" for place in range(9)])
# What is divided by a score near zero can be beyond all numbers, which is refused, in a test of its own.
_SCORES = st.one_of(
    st.integers(-4, 4).map(float), st.floats(-1e6, 1e6).filter(lambda score: score == 0 or abs(score) > 1e-9)
)
_SCORED: st.SearchStrategy[Results] = st.dictionaries(_DOC_IDS, _SCORES, max_size=9)
_LISTED: st.SearchStrategy[Results] = st.lists(_DOC_IDS, max_size=9, unique=True)
_RUNS = st.lists(
    st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), st.one_of(_SCORED, _LISTED), max_size=3),
    min_size=1,
    max_size=4,
).map(lambda each: [Run(f"run{place}", results) for place, results in enumerate(each)])
_METHODS = st.sampled_from(METHODS)
_NORMS = st.sampled_from(NORMS)
_MISSING = st.sampled_from(MISSING)


def _scores(run: Run, query_id: str) -> dict[str, float]:
    results = run.results[query_id]
    assert isinstance(results, Mapping)
    return dict(results)


@given(_RUNS, _METHODS, _NORMS, _MISSING, st.sampled_from(TIE_ORDERS))
def test_a_fused_run_has_every_document_once_and_best_first(
    runs: list[Run], method: str, norm: str, missing: str, ties: str
) -> None:
    fused = fuse(runs, method=method, norm=norm, missing=missing, ties=ties).run

    assert set(fused.results) == {query_id for run in runs for query_id in run.results}
    for query_id in fused.results:
        scores = _scores(fused, query_id)
        assert set(scores) == {doc_id for run in runs for doc_id in run.results.get(query_id, ())}
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        assert np.isfinite(list(scores.values())).all()


@given(_RUNS, _METHODS, _NORMS, _MISSING, st.randoms(use_true_random=False))
def test_the_order_of_runs_queries_and_documents_changes_no_bit(
    runs: list[Run], method: str, norm: str, missing: str, random: object
) -> None:
    turned = [
        Run(
            run.name,
            {
                query_id: dict(reversed(list(results.items()))) if isinstance(results, Mapping) else results
                for query_id, results in reversed(list(run.results.items()))
            },
        )
        for run in runs
    ]
    random.shuffle(turned)  # type: ignore[attr-defined]

    one = fuse(runs, method=method, norm=norm, missing=missing).run
    other = fuse(turned, method=method, norm=norm, missing=missing).run

    assert set(one.results) == set(other.results)
    for query_id in one.results:
        assert list(_scores(one, query_id).items()) == list(_scores(other, query_id).items())


@given(_RUNS, st.sampled_from(sorted(WEIGHTED)), _NORMS)
def test_a_run_of_weight_zero_decides_nothing_of_a_sum(runs: list[Run], method: str, norm: str) -> None:
    if method == "borda":
        return
    doubled = [*runs, Run("ignored", {"q1": {"d0": 5.0, "d8": 1.0}})]

    alone = fuse(runs, method=method, norm=norm).run
    beside = fuse(doubled, method=method, norm=norm, weights=[*(1.0,) * len(runs), 0.0]).run

    for query_id in alone.results:
        assert _scores(alone, query_id).items() <= _scores(beside, query_id).items()


@given(_RUNS, st.sampled_from(["rrf", "borda"]))
def test_methods_of_ranks_read_the_ranks_alone(runs: list[Run], method: str) -> None:
    listed = [
        Run(run.name, {query_id: list(fuse([run], method="rrf").run.results[query_id]) for query_id in run.results})
        for run in runs
    ]

    assert fuse(listed, method=method).run == fuse(runs, method=method).run


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), _NORMS)
def test_a_normalisation_never_turns_two_documents_round(scores: list[float], norm: str) -> None:
    best_first = np.array(sorted(scores, reverse=True))

    normalised = normalise(best_first, norm=norm)  # type: ignore[arg-type]

    assert np.isfinite(normalised).all()
    assert (np.diff(normalised) <= 0.0).all()


@given(st.integers(1, 4), st.integers(1, 10))
def test_the_grid_is_the_whole_simplex(run_count: int, parts: int) -> None:
    grid = simplex_grid(run_count, step=1 / parts)

    shares = {tuple(round(weight * parts) for weight in weights) for weights in grid}
    assert len(shares) == len(grid)
    assert all(sum(each) == parts for each in shares)
