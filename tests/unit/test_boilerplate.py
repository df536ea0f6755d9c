"""Sentences and parts of sentences that assert nothing, and what must not pass for them."""

import pytest

from plumbline.judging.text.boilerplate import introduces, is_boilerplate, strip_boilerplate
from tests.making.cases import load_cases

_NOTHING = load_cases("boilerplate", "nothing")
_ASSERTING = load_cases("boilerplate", "asserting")


@pytest.mark.parametrize("text", _NOTHING)
def test_a_frame_around_the_answer_is_boilerplate(text: str) -> None:
    assert is_boilerplate(text)


@pytest.mark.parametrize("text", _ASSERTING)
def test_what_asserts_something_behind_a_frame_is_none(text: str) -> None:
    assert not is_boilerplate(text)


def test_an_offer_may_name_what_the_question_is_about() -> None:
    offer = "Let me know if you have more questions about the Marlow dam."

    assert is_boilerplate(offer, {"marlo", "dam"})
    assert not is_boilerplate(offer, {"dam"})


def test_words_of_the_question_make_no_frame_of_an_assertion() -> None:
    # "Is it safe to use the kettle outdoors?"
    stems = {"is", "it", "safe", "to", "use", "the", "kettl", "outdo"}

    assert not is_boilerplate("If you want to use the kettle outdoors it is safe.", stems)
    assert not is_boilerplate("I hope this helps, the kettle is safe outdoors.", stems)


@pytest.mark.parametrize("text", load_cases("boilerplate", "a_line_before_a_list_introduces_it"))
def test_a_line_before_a_list_introduces_it(text: str) -> None:
    assert introduces(text, {"reset", "route", "has"}, frozenset())


@pytest.mark.parametrize("text", load_cases("boilerplate", "a_line_with_words_of_its_own_introduces_nothing"))
def test_a_line_with_words_of_its_own_introduces_nothing(text: str) -> None:
    assert not introduces(text, {"reset", "route", "has"}, frozenset())


@pytest.mark.parametrize("text", ["以下是水壶的主要特点：", "重置水壶的步骤如下：", "水壶的特点有："])
def test_a_chinese_line_before_a_list_introduces_it(text: str) -> None:
    assert introduces(text, set("重置水壶特点"), frozenset())


@pytest.mark.parametrize(
    ("text", "assertion"), load_cases("boilerplate", "only_the_boilerplate_of_a_sentence_is_cut_off")
)
def test_only_the_boilerplate_of_a_sentence_is_cut_off(text: str, assertion: str) -> None:
    assert strip_boilerplate(text.replace("**", "")).strip() == assertion


@pytest.mark.parametrize("text", load_cases("boilerplate", "what_is_asserted_is_not_cut_off"))
def test_what_is_asserted_is_not_cut_off(text: str) -> None:
    assert strip_boilerplate(text) == text
