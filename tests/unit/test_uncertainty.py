"""Intervals, paired tests and corrections: worked by hand, and against scipy where it is installed."""

import math
from itertools import product

import numpy as np
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.ground.uncertainty import (
    benjamini_hochberg,
    bootstrap_intervals,
    holm,
    paired_differences,
    paired_t_test,
    sign_flip_test,
    student_t_two_sided,
    win_tie_loss,
)
from tests.making.cases import load_cases


def test_holm_and_benjamini_hochberg_of_four_by_hand() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005]

    # Holm: 0.005 * 4, 0.01 * 3, 0.03 * 2, max(0.06, 0.04 * 1). BH: 0.005 * 4, 0.01 * 2, 0.03 * 4/3, 0.04.
    assert holm(p_values) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert benjamini_hochberg(p_values) == pytest.approx((0.02, 0.04, 0.04, 0.02))


def test_a_family_of_none_is_adjusted_to_none() -> None:
    assert holm([]) == benjamini_hochberg([]) == ()


def test_students_t_has_its_closed_forms() -> None:
    # One degree of freedom is Cauchy: P(|T| >= t) = 1 - 2/pi * atan t. Two: 1 - t / sqrt(2 + t²).
    for t in (1e-8, 0.3, 1.0, 7.0, 1e6):
        assert student_t_two_sided(t, 1) == pytest.approx(2 / math.pi * math.atan(1 / t), rel=1e-11)
        assert student_t_two_sided(t, 2) == pytest.approx(2 / (2 + t * t + t * math.sqrt(2 + t * t)), rel=1e-9)
    assert student_t_two_sided(0.0, 5) == 1.0
    assert student_t_two_sided(1e200, 5) == 0.0


def test_a_paired_t_test_by_hand() -> None:
    # Mean 2, variance (4 + 1 + 0 + 1 + 4) / 4 = 5/2, n 5: t = 2 / sqrt(2.5 / 5) = sqrt 8.
    differences = [0.0, 1.0, 2.0, 3.0, 4.0]

    assert paired_t_test(differences).t == pytest.approx(math.sqrt(8.0))


def test_tail_probabilities_equal_scipys_relatively() -> None:
    stats = pytest.importorskip("scipy.stats")

    for degrees, t in product((1, 2, 9, 999, 1999, 2001, 100_000), (0.01, 1.0, 3.0, 12.0, 35.0)):
        assert student_t_two_sided(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-9)


def test_a_sampled_sign_flip_test_comes_near_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    differences = np.random.default_rng(7).normal(0.3, 1.0, 40)

    ours = sign_flip_test(differences, resamples=20_000, seed=1)
    theirs = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=20_000, vectorized=True, rng=2
    )

    # Four standard errors of the difference of two such estimates.
    assert ours == pytest.approx(theirs.pvalue, abs=4 * math.sqrt(2 * theirs.pvalue / 20_000))


@pytest.mark.parametrize("differences", [[], [0.4]])
def test_too_few_differences_say_nothing_against_equality(differences: list[float]) -> None:
    assert paired_t_test(differences) == (None, 1.0)
    assert sign_flip_test(differences) == 1.0
    assert bootstrap_intervals([differences])[0] is None


def test_an_unvarying_difference_is_certain_to_t_but_not_to_sign_flips() -> None:
    differences = paired_differences([0.3, 0.5, 0.8, 0.9], [0.2, 0.4, 0.7, 0.8])

    assert paired_t_test(differences) == (None, 0.0)
    assert sign_flip_test(differences) == 2 ** (1 - 4)


def test_a_difference_that_rounding_makes_is_a_tie() -> None:
    differences = paired_differences([0.1 + 0.2, 0.5], [0.3, 0.4])

    assert win_tie_loss(differences) == (1, 1, 0)


def test_sign_flips_count_sums_that_only_rounding_tells_apart() -> None:
    differences = [0.1, 0.2, 0.3]

    # |±0.1 ± 0.2 ± 0.3| >= 0.6 in two of eight; of -0.3 + 0.1 + 0.2, the sum is 0 and all eight are as far out.
    assert sign_flip_test(differences) == 2 / 8
    assert sign_flip_test([0.1, 0.2, -0.3]) == 1.0


def test_a_sampled_p_is_never_zero() -> None:
    found = sign_flip_test(np.ones(200), resamples=99, seed=0)

    assert found == 1 / 100


def test_the_interval_of_two_values_has_its_three_possible_means() -> None:
    # Means 0, 1/2, 1 with probability 1/4, 1/2, 1/4: the 10th percentile is 0 and the 90th 1; the 30th to 70th 1/2.
    assert bootstrap_intervals([[0.0, 1.0]], level=0.8, seed=1)[0] == (0.0, 1.0)
    assert bootstrap_intervals([[0.0, 1.0]], level=0.4, seed=1)[0] == (0.5, 0.5)


def test_the_interval_is_near_the_normal_one_for_many_values() -> None:
    values = np.random.default_rng(0).normal(5.0, 2.0, 2000)
    half = 1.96 * values.std() / math.sqrt(2000)

    low, high = bootstrap_intervals([values], resamples=4000)[0] or (0.0, 0.0)

    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).random(30)

    assert bootstrap_intervals([values], seed=4)[0] == bootstrap_intervals([values], seed=4)[0]
    assert bootstrap_intervals([values], seed=4)[0] != bootstrap_intervals([values], seed=5)[0]


@pytest.mark.parametrize(
    ("arguments", "message"), load_cases("uncertainty", "what_cannot_be_resampled_is_refused", inner=list)
)
def test_what_cannot_be_resampled_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bootstrap_intervals(**arguments)  # type: ignore[arg-type]
