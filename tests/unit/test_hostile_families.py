"""Every parser reads every family of hostile texts, and growth is measured as its exponent."""

import pytest

from benchmarks.growth import PARSERS, exponent
from benchmarks.hostile_families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parser_reads_every_family(family: str) -> None:
    text = FAMILIES[family](400)

    for parse in PARSERS.values():
        parse(text)


def test_twice_the_size_in_four_times_the_time_is_the_square() -> None:
    assert exponent([1, 2, 4], [1.0, 2.0, 8.0]) == pytest.approx(2.0)
    assert exponent([1, 2, 4], [1.0]) == 1.0
