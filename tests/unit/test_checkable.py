"""Which sentences of an answer are given to a judge."""

import pytest

from plumbline.judging.text.checkable import checkable_positions
from plumbline.judging.text.segmentation import split_sentences
from tests.making.cases import load_cases


def _checkable(answer: str) -> list[str]:
    sentences = split_sentences(answer)
    return [sentences[position].text for position in checkable_positions(sentences)]


@pytest.mark.parametrize(
    ("answer", "checked"), load_cases("checkable", "sentences_that_assert_something_are_checked", inner=list)
)
def test_sentences_that_assert_something_are_checked(answer: str, checked: list[str]) -> None:
    assert _checkable(answer) == checked


@pytest.mark.parametrize(
    ("heading", "is_checked"), [("# 大坝两岸的旧式磨坊", False), ("# 大坝两岸的旧式磨坊闭维修", True)]
)
def test_a_chinese_heading_is_a_label_up_to_eight_pairs_of_characters(heading: str, is_checked: bool) -> None:
    # Nine characters make eight pairs, twelve make eleven; a pair of two stopwords would not count.
    assert (heading in _checkable(f"{heading}\n\n它很古老。")) is is_checked


@pytest.mark.parametrize("heading", load_cases("checkable", "a_heading_with_a_claim_is_checked"))
def test_a_heading_with_a_claim_is_checked(heading: str) -> None:
    assert heading in _checkable(f"{heading}\n\nThe dam is old.")


@pytest.mark.parametrize("heading", load_cases("checkable", "a_heading_that_names_its_part_is_a_label"))
def test_a_heading_that_names_its_part_is_a_label(heading: str) -> None:
    assert heading not in _checkable(f"{heading}\n\nThe dam is old.")
