"""Which sentences decline to answer and say no more."""

import pytest

from plumbline.judging.text.checkable import abstains
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases

_ABSTAINING = ("abstaining_en", "abstaining_zh", "abstaining_defaults")
# What the answer asserts may hide behind the words of an abstention, or begin like one.
_ASSERTING = ("asserting_en", "asserting_zh", "asserting_beside", "asserting_like", "asserting_like_defaults")


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


@pytest.mark.parametrize(("question", "answer"), load_cases("abstention", "answered_refusals"))
def test_a_refusal_whose_contexts_answer_is_checked(question: str, answer: str) -> None:
    case = case_of(answer, *load_cases("abstention", "answering"), question=question)

    assert case.answered_refusals == frozenset(case.checkable) == {0}


@pytest.mark.parametrize(("question", "answer"), load_cases("abstention", "unanswered_refusals"))
def test_a_refusal_whose_contexts_do_not_answer_is_no_claim(question: str, answer: str) -> None:
    case = case_of(answer, *load_cases("abstention", "answering"), question=question)

    assert (case.checkable, case.answered_refusals) == ((), frozenset())
