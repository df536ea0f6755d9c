"""What holds for intervals, tests and corrections of any values."""

import math

from hypothesis import given
from hypothesis import strategies as st

from plumbline.ground.uncertainty import (
    benjamini_hochberg,
    bootstrap_intervals,
    holm,
    paired_differences,
    paired_t_test,
    sign_flip_test,
    win_tie_loss,
)

_MEASURES = st.floats(0, 1)
_VALUES = st.lists(_MEASURES, min_size=2, max_size=40)
_DIFFERENCES = st.lists(st.one_of(st.just(0.0), st.floats(-1, 1)), max_size=30)
_P_VALUES = st.lists(st.floats(0, 1), max_size=12)


@given(_VALUES, st.integers(0, 99))
def test_an_interval_lies_within_the_values(values: list[float], seed: int) -> None:
    low, high = bootstrap_intervals([values], resamples=200, seed=seed)[0] or (math.nan, math.nan)

    assert min(values) <= low <= high <= max(values)


@given(_DIFFERENCES)
def test_every_p_is_a_probability(differences: list[float]) -> None:
    t, p = paired_t_test(differences)

    assert 0.0 <= p <= 1.0
    assert t is None or math.isfinite(t)
    assert 0.0 < sign_flip_test(differences, resamples=100) <= 1.0


@given(_DIFFERENCES)
def test_turning_every_difference_round_changes_no_p(differences: list[float]) -> None:
    turned = [-each for each in differences]

    assert paired_t_test(turned).p == paired_t_test(differences).p
    if len(differences) <= 20:
        assert sign_flip_test(turned) == sign_flip_test(differences)


@given(_DIFFERENCES, st.integers(-20, 20))
def test_the_unit_of_the_differences_changes_no_p(differences: list[float], power: int) -> None:
    rounded = [round(each, 6) for each in differences]
    scaled = [math.ldexp(each, power) for each in rounded]

    assert sign_flip_test(scaled, resamples=100) == sign_flip_test(rounded, resamples=100)
    assert math.isclose(paired_t_test(scaled).p, paired_t_test(rounded).p, rel_tol=1e-9, abs_tol=1e-12)


@given(_DIFFERENCES)
def test_wins_ties_and_losses_are_all_of_them(differences: list[float]) -> None:
    assert sum(win_tie_loss(differences)) == len(differences)


@given(st.lists(_MEASURES, min_size=2, max_size=30))
def test_a_run_never_differs_from_itself(values: list[float]) -> None:
    differences = paired_differences(values, values)

    assert paired_t_test(differences).p == sign_flip_test(differences) == 1.0


@given(_P_VALUES)
def test_corrections_keep_the_order_only_raise_and_differ_in_how_far(p_values: list[float]) -> None:
    families = [adjust(p_values) for adjust in (benjamini_hochberg, holm)]

    for adjusted in families:
        assert all(p * (1 - 1e-12) <= q <= 1.0 for p, q in zip(p_values, adjusted, strict=True))
        ordered = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
        assert ordered == sorted(ordered)
    for less, more in zip(*families, strict=True):
        assert less <= more * (1 + 1e-12)
