"""When a claim and its evidence differ in a negation, and when it only looks like it."""

import pytest

from plumbline.judging.text.negation import differs, is_turned

PLAIN = "The museum opened its new wing to visitors in spring."


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The museum never opened its new wing to visitors in spring.", PLAIN),
        ("The new wing was not opened to visitors.", "The new wing was opened to visitors."),
        ("The firm failed to pay its staff.", "The firm will pay its staff."),
        ("He was convicted without trial.", "He was convicted after a trial."),
        ("The vaccine did reach the children of Oslo.", "The vaccine did not reach the children of Oslo."),
        ("这座桥不对行人开放。", "这座桥对行人开放。"),
        ("他没有参加昨天的会议。", "他参加了昨天的会议。"),
        ("该疗法对患者有效。", "该疗法对患者无有效性。"),
    ],
)
def test_a_negation_on_one_side_only_differs(claim: str, evidence: str) -> None:
    assert differs(claim, evidence)


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        (PLAIN, PLAIN),
        ("The wing is not open.", "The wing is not open to anybody."),
        ("The museum opened not only its new wing but its garden.", "The museum opened its new wing and its garden."),
        ("It must be paid no later than Monday.", "It must be paid by Monday, later is late."),
        ("No fewer than 40 ships left port.", "40 ships left port."),
        ("The plan was not accepted.", "The plan was rejected and accepted by nobody."),
        ("The plan was not approved by the council.", "The council refused that the plan was approved."),
        ("The bridge is closed to cars.", "The bridge, which is not old, is closed to cars."),
        ("The tower was painted red.", "The tower was painted red and not blue."),
        ("It isn't impossible to cross the river.", "It is possible to cross the river."),
        ("There is no doubt that the dam holds.", "The dam holds."),
        ("这座桥不仅对行人开放，也对车辆开放。", "这座桥对行人和车辆开放。"),
        ("非洲的无人机数量不少。", "非洲的无人机数量很多。"),
        ("他未来会参加会议。", "他会参加会议。"),
        ("The bridge is not open.", "这座桥对行人开放。"),
        ("Lamps do not float on the lake.", PLAIN),
        ("", PLAIN),
        (PLAIN, ""),
    ],
)
def test_equal_sense_other_words_and_other_matters_do_not_differ(claim: str, evidence: str) -> None:
    assert not differs(claim, evidence)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("it was closed", "it was not closed"),
        ("prices rose", "prices fell"),
        ("it isn't so", "it is so"),
        ("气温上升", "气温下降"),
    ],
)
def test_a_text_is_turned_by_a_negation_or_an_opposite(one: str, other: str) -> None:
    assert is_turned(one, other)
    assert not is_turned(one, one.upper())
