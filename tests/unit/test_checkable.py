"""Which sentences of an answer are given to a judge."""

import pytest

from plumbline.judging.text.checkable import checkable_positions
from plumbline.judging.text.segmentation import split_sentences
from tests.making.cases import load_cases


def _checkable(answer: str) -> list[str]:
    sentences = split_sentences(answer)
    return [sentences[position].text for position in checkable_positions(sentences)]


def test_sentences_that_assert_something_are_checked() -> None:
    assert _checkable("The dam is safe. It was built in 1932.") == ["The dam is safe.", "It was built in 1932."]


@pytest.mark.parametrize("signature", load_cases("checkable", "a_signature_is_left_out"))
def test_a_signature_is_left_out(signature: str) -> None:
    assert _checkable(f"The dam is safe.\n\n{signature}") == ["The dam is safe."]


@pytest.mark.parametrize("line", load_cases("checkable", "a_line_behind_a_sign_off_that_asserts_something_is_checked"))
def test_a_line_behind_a_sign_off_that_asserts_something_is_checked(line: str) -> None:
    assert _checkable(f"The dam is safe.\n\nBest regards,\n{line}") == ["The dam is safe.", line]
    assert _checkable(f"Best regards,\n{line}") == [line]


def test_names_without_a_sign_off_are_checked() -> None:
    assert _checkable("It was built by two people:\n\nTom Baker\n\nAnna Smith")[-2:] == ["Tom Baker", "Anna Smith"]


def test_markup_is_left_out() -> None:
    assert _checkable("The dam is safe.\n\n---\n\nIt holds.") == ["The dam is safe.", "It holds."]


def test_a_sentence_that_abstains_is_left_out() -> None:
    assert _checkable("I don't know the year. The dam is safe.") == ["The dam is safe."]


def test_a_short_heading_over_sentences_is_left_out() -> None:
    assert _checkable("# The dam\n\nIt was built in 1932.") == ["It was built in 1932."]


def test_a_heading_that_says_more_than_a_label_is_checked() -> None:
    # bridge, closed, cars, 2008, mayor: five content words.
    heading = "# The bridge was closed to cars in 2008 by the mayor"

    assert _checkable(f"{heading}\n\nIt is old.") == [heading, "It is old."]


@pytest.mark.parametrize(
    ("heading", "is_checked"), [("# 大坝于二零零八年关", False), ("# 大坝于二零零八年关闭维修", True)]
)
def test_a_chinese_heading_is_a_label_up_to_eight_pairs_of_characters(heading: str, is_checked: bool) -> None:
    # Nine characters make eight pairs, twelve make eleven; a pair of two stopwords would not count.
    assert (heading in _checkable(f"{heading}\n\n它很古老。")) is is_checked


@pytest.mark.parametrize("answer", ["**Paris**", "# Paris"])
def test_a_heading_alone_is_the_answer(answer: str) -> None:
    assert _checkable(answer) == [answer]


@pytest.mark.parametrize("answer", ["", "---", "😀"])
def test_an_answer_without_words_has_nothing_to_check(answer: str) -> None:
    assert _checkable(answer) == []


@pytest.mark.parametrize("answer", ["I don't know.", "# Height\n\nThe context does not mention it.", "我不知道。"])
def test_an_answer_that_only_abstains_has_nothing_to_check(answer: str) -> None:
    assert _checkable(answer) == []


@pytest.mark.parametrize("answer", ["**I don't know**", "# 无法回答", "**Not mentioned**"])
def test_an_abstention_in_bold_or_as_a_heading_has_nothing_to_check(answer: str) -> None:
    assert _checkable(answer) == []


def test_list_items_and_table_rows_are_checked() -> None:
    assert _checkable("- The rope is long.\n- The knot is old.") == ["- The rope is long.", "- The knot is old."]


def test_a_field_whose_value_is_unknown_is_left_out() -> None:
    assert _checkable("- Price: not mentioned\n- Length: 9 km") == ["- Length: 9 km"]


def test_an_answer_of_boilerplate_alone_has_nothing_to_check() -> None:
    assert _checkable("Sure! I hope this helps.") == []
