"""Numbers of claims and of passages: the same amounts in whatever way they are written, and no others."""

import pytest

from plumbline.judging.quantities.comparison import drop_calculated, facts_in, missing, same_numbers
from plumbline.judging.quantities.reader import read_amounts
from tests.making.cases import load_cases


def _is_backed(claim: str, passage: str) -> bool:
    return not drop_calculated(missing(read_amounts(claim), facts_in(passage)), [passage])


# What plainly follows from neighbours is had without a judge's word.
SAME = ("the_same_amount_is_found_however_it_is_written", "what_plainly_follows_from_neighbours_is_found")
OTHER = ("another_amount_is_not", "what_follows_is_no_other_amount")


@pytest.mark.parametrize(("claim", "passage"), [each for name in SAME for each in load_cases("quantities", name)])
def test_the_same_amount_is_found_however_it_is_written(claim: str, passage: str) -> None:
    assert _is_backed(claim, passage)


@pytest.mark.parametrize(("claim", "passage"), [each for name in OTHER for each in load_cases("quantities", name)])
def test_another_amount_is_not(claim: str, passage: str) -> None:
    assert not _is_backed(claim, passage)


@pytest.mark.parametrize("claim", load_cases("quantities", "what_is_no_amount_is_not_asked_for"))
def test_what_is_no_amount_is_not_asked_for(claim: str) -> None:
    assert not read_amounts(claim).asked


@pytest.mark.parametrize(("quote", "passage"), [("five trains", "9 trains"), ("2008", "2009"), ("3万", "3亿")])
def test_a_quote_with_another_number_is_told_from_its_passage(quote: str, passage: str) -> None:
    assert not same_numbers(quote, passage)
    assert same_numbers(quote, f"{passage} and {quote}")


def test_of_a_table_of_numbers_nothing_follows() -> None:
    passage = "Born in 1950, died in 1987. "

    assert _is_backed("He died aged 37.", passage)
    assert not _is_backed("He died aged 37.", passage + " ".join(map(str, range(1_000_000, 1_000_300))))


ENGLISH_UNITS = ["minute", "hour", "day", "week", "fortnight", "month", "year", "decade", "century", "mile", "pound"]
CHINESE_UNITS = load_cases("quantities", "chinese_units")


@pytest.mark.parametrize("unit", ENGLISH_UNITS)
def test_half_of_a_unit_and_one_of_it_are_read(unit: str) -> None:
    assert facts_in(f"a {unit}, half a {unit}, a {unit} and a half, one and a half {unit}s, half {unit}s").values


@pytest.mark.parametrize("unit", CHINESE_UNITS)
def test_half_of_a_chinese_unit_is_read(unit: str) -> None:
    assert facts_in(f"半{unit}，半个{unit}，一个半{unit}，两{unit}半，三个{unit}半，第一{unit}").values
