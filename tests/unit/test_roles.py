"""When two names of a claim stand in each other's place, and when they only seem to."""

import pytest

from plumbline.judging.text.names import are_swapped

LOAN = "In 1911 the miller Josef Brandl lent his neighbour Alois Huber two thousand crowns."


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Alois Huber lent Josef Brandl two thousand crowns.", LOAN),
        ("Huber lent Brandl two thousand crowns.", LOAN),
        ("Lindholm beat Castell in the final.", "In the final Petra Castell beat Anna Lindholm 6:4."),
        ("Castell was beaten by Lindholm.", "Petra Castell had beaten Lindholm before."),
        ("Oldenwood bought Kassim in 2016.", "In 2016 Oldenwood was bought by its smaller rival Kassim."),
        ("红松队战胜了蓝鲸队。", "决赛中，蓝鲸队以三比一战胜红松队。"),
        ("云岭食品收购了晨光乳业的股份", "晨光乳业以三亿元收购了云岭食品的股份。"),
        ("紅松隊戰勝了藍鯨隊。", "蓝鲸队战胜了红松队。"),
    ],
)
def test_names_that_act_upon_each_other_the_other_way_round_are_swapped(claim: str, passage: str) -> None:
    assert are_swapped(claim, [passage])


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Josef Brandl lent Alois Huber two thousand crowns.", LOAN),
        ("Huber was lent the crowns by Brandl.", LOAN),
        ("Kassim bought Oldenwood in 2016.", "In 2016 Oldenwood was bought by its smaller rival Kassim."),
        ("Lindholm met Castell in the final.", "In the final Castell met Lindholm."),
        ("Lindholm and Castell reached the final.", "Castell and Lindholm reached the final."),
        ("Brandl's neighbour Huber had a barn.", "Huber, neighbour of Brandl, had a barn."),
        ("It opened in March and Huber left.", "Huber left in March."),
        ("The Honey Band recorded Blue Night.", "Blue Night | recorded by | Honey Band"),
        ("红松队战胜了蓝鲸队。", "决赛中，红松队以三比一战胜蓝鲸队。"),
        ("蓝鲸队被红松队战胜。", "红松队战胜了蓝鲸队。"),
        ("不合格样品26批次", "共26批次样品不合格"),
        ("红松队赢了。", "蓝鲸队输给红松队。"),
    ],
)
def test_another_voice_or_no_direction_is_no_swap(claim: str, passage: str) -> None:
    assert not are_swapped(claim, [passage])


def test_no_swap_where_another_passage_agrees() -> None:
    passages = ["Castell beat Lindholm in June.", "Lindholm beat Castell in the final."]

    assert not are_swapped("Lindholm beat Castell in the final.", passages)
    assert not are_swapped("红松队战胜了蓝鲸队。", ["蓝鲸队战胜了红松队。", "后来红松队战胜了蓝鲸队。"])
