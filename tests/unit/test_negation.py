"""When a claim and its evidence differ in a negation, and when it only looks like it."""

import pytest

from plumbline.judging.text.negation import differs, is_denied, is_turned, split_clauses
from tests.making.cases import load_cases

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
        ("他沒有參加昨天的會議。", "他参加了昨天的会议。"),
        ("It needs a gas connection.", "It does not need a gas connection, not even in winter."),
        ("可以携带食物和饮料", "读者可以使用电脑，不得携带食物和饮料入内。"),
        ("Sydney is not the capital of Australia.", "Sydney is the capital of Australia."),
        ("上海不是中国的首都", "上海是中国的首都。"),
        ("The refund does not require a receipt.", "The refund requires a receipt."),
        ("退款无需收据", "退款需要收据"),
        ("员工不得带宠物", "员工可以带宠物"),
        ("门票未包含早餐", "门票包含早餐"),
        ("酒店没有游泳池", "酒店有游泳池"),
        ("Dogs are not allowed on the beach.", "Dogs are allowed on the beach."),
        ("The bridge isn't open to cars.", "The bridge is open to cars."),
        ("The warranty covers water damage.", "The warranty does not cover water damage."),
        ("保修包括进水", "保修不包括进水"),
        ("The filter must not be washed.", "The filter must be washed every week."),
        ("The drug is not approved for children.", "The drug is approved for children over six."),
    ],
)
def test_a_negation_on_one_side_only_differs(claim: str, evidence: str) -> None:
    assert differs(claim, evidence)


@pytest.mark.parametrize(
    ("claim", "passages", "denied"),
    load_cases("negation", "a_clause_goes_against_one_that_has_its_words", inner=list),
)
def test_a_clause_goes_against_one_that_has_its_words(claim: str, passages: list[str], denied: bool) -> None:
    known = [clause for passage in passages for clause in split_clauses(passage)]

    assert is_denied(list(split_clauses(claim)), known) is denied


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Fortunately, the name on a ticket can be changed.", "The name on a ticket cannot be changed, but returned."),
        ("The ferry to Skarn is not running on Sundays.", "The ferry to Skarn runs every day, Sundays included."),
    ],
)
def test_other_endings_and_an_opening_word_do_not_hide_a_negation(claim: str, evidence: str) -> None:
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
        (
            "Sydney is not the capital of Australia.",
            "Canberra is the capital of Australia and Sydney its largest city.",
        ),
        ("上海不是中国的首都", "北京是中国的首都，上海是中国最大的城市。"),
        ("上海不是中国的首都。", "上海是中国最大的城市，首都是北京。"),
        ("Whales are not fish.", "Whales are mammals, although they look like fish."),
        ("Whales are not fish.", "Whales live among fish and are mammals."),
        ("It was not Sun who founded the republic.", "Mao founded the republic after Sun."),
        ("The founder was not Sun.", "The founder of the republic was Mao, who came after Sun."),
        ("不是孙中山建立了中华人民共和国", "毛泽东在孙中山之后建立了中华人民共和国"),
        ("Canberra is the capital of Australia.", "Sydney is not the capital of Australia, Canberra is."),
        ("北京是中国的首都", "上海不是中国的首都，北京才是。"),
        ("Mao founded the republic.", "Mao, not Sun, founded the republic."),
        ("Penguins cannot fly.", "Penguins are flightless birds; most other birds fly."),
        ("Venus has no moons.", "Earth has one moon and Mars two, Venus zero."),
        ("The bridge is not in Paris.", "The bridge is in London, the tower in Paris."),
        ("He did not attend Oxford.", "He attended Cambridge; his brother attended Oxford."),
        ("Pluto is not a planet.", "Pluto is a dwarf body, and Neptune a planet."),
        ("铁不是贵金属", "金是贵金属，铁是普通金属。"),
        ("老年人不得入内", "儿童和老年人禁止入内"),
        ("", PLAIN),
        (PLAIN, ""),
    ],
)
def test_equal_sense_other_words_and_other_matters_do_not_differ(claim: str, evidence: str) -> None:
    assert not differs(claim, evidence)


@pytest.mark.parametrize(
    ("one", "other"),
    load_cases("negation", "a_text_is_turned_by_a_negation_or_an_opposite"),
)
def test_a_text_is_turned_by_a_negation_or_an_opposite(one: str, other: str) -> None:
    assert is_turned(one, other)
    assert not is_turned(one, one.upper())
