"""Agreement with a reference answer, after SQuAD."""

import pytest

from plumbline.judging.text.scores import exact_match, token_f1


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("The Eiffel Tower", "eiffel tower"),
        ("Eiffel Tower!", "the “Eiffel” Tower"),
        ("an apple, a day", "apple day"),
        ("1,000", "1000"),
        ("ＡＢＣ", "abc"),
        ("大坝。", "大坝"),
        ("大 坝", "大坝"),
        ("", "the"),
    ],
)
def test_case_articles_punctuation_width_and_white_space_do_not_matter_to_an_exact_match(
    answer: str, reference: str
) -> None:
    assert exact_match(answer, reference) == 1.0


@pytest.mark.parametrize(
    ("answer", "reference"), [("Eiffel Tower", "Tower Eiffel"), ("Paris", "Paris France"), ("大坝", "坝大"), ("", "x")]
)
def test_other_words_or_another_order_are_no_exact_match(answer: str, reference: str) -> None:
    assert exact_match(answer, reference) == 0.0


@pytest.mark.parametrize(
    ("answer", "reference", "f1"),
    [
        # Common 2 (eiffel, tower); precision 2/4, recall 2/2: 2 * .5 * 1 / 1.5 = 2/3.
        ("the Eiffel Tower in Paris", "Eiffel Tower", 2 / 3),
        # Common 1 (1932); precision 1/2, recall 1/3: 2 * (1/6) / (5/6) = 0.4.
        ("in 1932", "May 1933, 1932", 0.4),
        # Equal as multisets, whatever the order.
        ("tower Eiffel", "Eiffel tower", 1.0),
        # Nothing in common.
        ("Paris", "Rome", 0.0),
        # Both are empty once articles and marks are gone.
        ("The.", "a", 1.0),
        ("", "", 1.0),
        # One is.
        ("", "Paris", 0.0),
        ("Paris", "the", 0.0),
    ],
)
def test_token_f1_equals_the_hand_calculation(answer: str, reference: str, f1: float) -> None:
    assert token_f1(answer, reference) == pytest.approx(f1)


def test_a_repeated_word_counts_as_often_as_the_other_text_has_it() -> None:
    # dam dam dam / dam dam lake: common min(3, 2) = 2; precision 2/3, recall 2/3, F1 2/3. Sets would give 2 * .5 / 1.5.
    assert token_f1("dam dam dam", "dam dam lake") == pytest.approx(2 / 3)


def test_chinese_is_compared_by_character() -> None:
    # 北京市 / 北京: common 2; precision 2/3, recall 2/2: 2 * (2/3) / (5/3) = 0.8.
    assert token_f1("北京市", "北京。") == pytest.approx(0.8)


def test_latin_words_beside_han_are_words() -> None:
    # gpt4 是 模 型 / gpt4 模 型: common 3; precision 3/4, recall 1: 2 * .75 / 1.75 = 6/7.
    assert token_f1("GPT-4是模型", "GPT4 模型") == pytest.approx(6 / 7)


def test_an_article_within_a_word_stays() -> None:
    assert exact_match("theatre", "atre") == 0.0
