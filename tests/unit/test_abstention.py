"""Which sentences decline to answer and say no more."""

import pytest

from plumbline.judging.text.checkable import abstains
from tests.making.cases import load_cases

_ABSTAINING = ("abstaining_en", "abstaining_zh")
# What the answer asserts may hide behind the words of an abstention, or begin like one.
_ASSERTING = ("asserting_en", "asserting_zh", "asserting_beside", "asserting_like")


@pytest.mark.parametrize("sentence", [each for name in _ABSTAINING for each in load_cases("abstention", name)])
def test_a_sentence_that_declines_to_answer_abstains(sentence: str) -> None:
    assert abstains(sentence)


@pytest.mark.parametrize("sentence", [each for name in _ASSERTING for each in load_cases("abstention", name)])
def test_a_sentence_that_asserts_something_does_not_abstain(sentence: str) -> None:
    assert not abstains(sentence)


@pytest.mark.parametrize("sentence", ["", " ", "。", "😀"])
def test_nothing_said_is_no_abstention(sentence: str) -> None:
    assert not abstains(sentence)


def test_a_long_sentence_asserts_something_beside_its_abstention() -> None:
    assert not abstains("The context does not mention " + "the old bridge " * 20)
