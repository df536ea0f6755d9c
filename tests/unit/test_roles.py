"""When two names of a claim stand in each other's place, and when they only seem to."""

import pytest

from plumbline.judging.text.names import are_swapped
from tests.making.cases import load_cases


@pytest.mark.parametrize(
    ("claim", "passage"), load_cases("roles", "names_that_act_upon_each_other_the_other_way_round_are_swapped")
)
def test_names_that_act_upon_each_other_the_other_way_round_are_swapped(claim: str, passage: str) -> None:
    assert are_swapped(claim, [passage])


@pytest.mark.parametrize(("claim", "passage"), load_cases("roles", "another_voice_or_no_direction_is_no_swap"))
def test_another_voice_or_no_direction_is_no_swap(claim: str, passage: str) -> None:
    assert not are_swapped(claim, [passage])


def test_no_swap_where_another_passage_agrees() -> None:
    passages = ["Castell beat Lindholm in June.", "Lindholm beat Castell in the final."]

    assert not are_swapped("Lindholm beat Castell in the final.", passages)
    assert not are_swapped("红松队战胜了蓝鲸队。", ["蓝鲸队战胜了红松队。", "后来红松队战胜了蓝鲸队。"])
