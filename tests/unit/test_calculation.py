"""Amounts that the wording of a claim says are calculated, and amounts that only happen to be a sum."""

import pytest

from plumbline.judging.quantities.comparison import drop_calculated, facts_in, missing
from plumbline.judging.quantities.reader import read_amounts
from tests.making.cases import load_cases


def _is_calculated(claim: str, passage: str) -> bool:
    lacking = missing(read_amounts(claim), facts_in(passage))
    assert lacking
    return not drop_calculated(lacking, [passage])


@pytest.mark.parametrize(
    ("claim", "passage"),
    load_cases("calculation", "an_amount_that_its_wording_says_is_calculated_needs_no_source")
)  # fmt: skip
def test_an_amount_that_its_wording_says_is_calculated_needs_no_source(claim: str, passage: str) -> None:
    assert _is_calculated(claim, passage)


@pytest.mark.parametrize(
    ("claim", "passage"), load_cases("calculation", "an_amount_that_only_happens_to_be_a_sum_or_a_mean_does")
)
def test_an_amount_that_only_happens_to_be_a_sum_or_a_mean_does(claim: str, passage: str) -> None:
    assert not _is_calculated(claim, passage)
