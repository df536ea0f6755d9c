"""Which sentences decline to answer and say no more."""

import pytest

from plumbline.judging.text.checkable import abstains
from tests.making.cases import load_cases

_ABSTAINING_EN = load_cases("abstention", "abstaining_en")
_ABSTAINING_ZH = load_cases("abstention", "abstaining_zh")
_ASSERTING_EN = load_cases("abstention", "asserting_en")
_ASSERTING_ZH = load_cases("abstention", "asserting_zh")
# What the answer asserts hides behind the words of an abstention.
_ASSERTING_BESIDE = load_cases("abstention", "asserting_beside")
# Plain assertions that begin like an abstention.
_ASSERTING_LIKE = load_cases("abstention", "asserting_like")


@pytest.mark.parametrize("sentence", _ABSTAINING_EN)
def test_an_english_sentence_that_declines_to_answer_abstains(sentence: str) -> None:
    assert abstains(sentence)


@pytest.mark.parametrize("sentence", _ABSTAINING_ZH)
def test_a_chinese_sentence_that_declines_to_answer_abstains(sentence: str) -> None:
    assert abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_EN)
def test_an_english_sentence_that_asserts_something_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_ZH)
def test_a_chinese_sentence_that_asserts_something_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_BESIDE)
def test_a_sentence_that_abstains_and_then_asserts_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", _ASSERTING_LIKE)
def test_a_sentence_that_only_begins_like_an_abstention_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", ["", " ", "。", "😀"])
def test_nothing_said_is_no_abstention(sentence: str) -> None:
    assert not abstains(sentence)


def test_a_long_sentence_asserts_something_beside_its_abstention() -> None:
    assert not abstains("The context does not mention " + "the old bridge " * 20)
