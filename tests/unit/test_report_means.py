"""Means of rows, and intervals near those that drawing the rows themselves gives."""

import numpy as np
import pytest

from plumbline.ground.uncertainty import bootstrap_intervals
from plumbline.rows.report.comparison import compare_pairs
from plumbline.rows.report.tallies import MeanTally, complement


def tally_of(values: list[float]) -> MeanTally:
    tally = MeanTally()
    for value in values:
        tally.add(value)
    return tally


@pytest.mark.parametrize("shape", [(0.4, 0.4), (8.0, 2.0), (2.0, 30.0)])
def test_the_interval_is_that_of_drawing_rows(shape: tuple[float, float]) -> None:
    values = np.random.default_rng(5).beta(*shape, size=400).tolist()
    expected = bootstrap_intervals([values])[0]

    found = tally_of(values).mean()

    assert expected is not None
    assert found.mean == pytest.approx(float(np.mean(values)), abs=1e-12)
    width = expected[1] - expected[0]
    assert found.low == pytest.approx(expected[0], abs=0.1 * width)
    assert found.high == pytest.approx(expected[1], abs=0.1 * width)


def test_differences_have_an_interval_too() -> None:
    values = np.random.default_rng(5).uniform(-1.0, 1.0, size=400).tolist()
    expected = bootstrap_intervals([values])[0]

    found, _ = compare_pairs(len(values), len(values), sum(values), sum(each * each for each in values))

    assert expected is not None
    assert found.low == pytest.approx(expected[0], abs=0.006)
    assert found.high == pytest.approx(expected[1], abs=0.006)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    # 81 of 263, 15 of 148 and 1 of 29 as in Newcombe (1998), table I; of 10 alike 1.96^2 / (10 + 1.96^2) is left
    [
        ([1.0] * 81 + [0.0] * 182, 0.2553, 0.3662),
        ([1.0] * 15 + [0.0] * 133, 0.0624, 0.1605),
        ([1.0] + [0.0] * 28, 0.0061, 0.1718),
        ([1.0] * 10, 0.7225, 1.0),
        ([0.0] * 10, 0.0, 0.2775),
    ],
)
def test_a_share_has_wilsons_interval(values: list[float], low: float, high: float) -> None:
    found = tally_of(values).mean()

    assert [found.low, found.high] == pytest.approx([low, high], abs=5e-5)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.97])
def test_equal_values_between_the_ends_have_no_width(value: float) -> None:
    found = tally_of([value] * 7).mean()

    assert [found.mean, found.low, found.high] == pytest.approx([value] * 3)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert tally_of([0.3]).mean().model_dump() == {"mean": 0.3, "low": None, "high": None, "rows": 1}
    assert tally_of([]).mean().model_dump() == {"mean": None, "low": None, "high": None, "rows": 0}


def test_merged_tallies_hold_all_values() -> None:
    merged = tally_of([0.1, 0.2])
    merged.take_in(tally_of([0.6]))

    assert merged.mean() == tally_of([0.1, 0.2, 0.6]).mean()


def test_the_complement_turns_the_interval_round() -> None:
    mean = tally_of([0.2, 0.4, 0.9]).mean()

    turned = complement(mean)

    assert mean.mean is not None
    assert mean.low is not None
    assert mean.high is not None
    assert (turned.mean, turned.low, turned.high) == (1 - mean.mean, 1 - mean.high, 1 - mean.low)
    assert complement(tally_of([]).mean()).mean is None
