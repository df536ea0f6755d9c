"""Windows over the contexts and pieces of long sentences."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.tiers.token_alignment import (
    SentenceWindow,
    pieces,
    plan_comparison,
    split_windows,
)
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases


def _windows(*contexts: str) -> list[SentenceWindow]:
    return split_windows(contexts, [split_sentences(context) for context in contexts])


def test_windows_follow_the_order_of_the_contexts() -> None:
    windows = _windows("The dam is old. It holds.", "The dam is old.")

    assert [(window.context, window.text) for window in windows] == [
        (0, "The dam is old."),
        (0, "It holds."),
        (1, "The dam is old."),
    ]


def test_markup_has_no_window() -> None:
    texts = [window.text for window in _windows("The dam is old.\n\n---\n\nIt holds.")]

    assert texts == ["The dam is old.", "It holds."]


def test_without_contexts_or_words_there_are_no_windows() -> None:
    assert _windows() == []
    assert _windows("", "---") == []


def test_a_sentence_without_a_break_is_cut_at_the_limit() -> None:
    assert pieces("x" * 2_000, 0, 2_000) == [(0, 800), (800, 1_600), (1_600, 2_000)]


def test_a_sentence_at_the_limit_is_left_whole() -> None:
    assert pieces("x" * 900, 50, 850) == [(50, 850)]


@pytest.mark.parametrize("mark", [" ", ",", "，", "；", "、", "："])
def test_a_cut_lies_behind_the_last_break_before_the_limit(mark: str) -> None:
    text = "坝" * 600 + mark + "湖" * 600

    assert pieces(text, 0, len(text)) == [(0, 601), (601, 1_201)]


def test_a_break_in_the_first_half_is_too_early_to_cut_at() -> None:
    text = "a " + "b" * 1_200

    assert pieces(text, 0, len(text))[0] == (0, 800)


_COLOURS = ["amber", "beige", "blue", "brown", "coral", "green", "grey", "ivory", "lilac", "pink", "red", "teal"]
_TWELVE = " ".join(f"The {colour} lamp hangs in the hall." for colour in _COLOURS)


@pytest.mark.parametrize(
    ("answer", "colours"), load_cases("windows", "a_sentence_is_compared_with_the_windows_nearest_to_it")
)
def test_a_sentence_is_compared_with_the_windows_nearest_to_it(answer: str, colours: str) -> None:
    windows = plan_comparison(case_of(answer, _TWELVE)).windows

    assert [window.text.split()[1] for window in windows] == colours.split()


def test_an_inflected_word_names_a_near_window() -> None:
    plan = plan_comparison(case_of("The torch hangs in the hall.", f"{_TWELVE} Torches burned all night."))

    assert "Torches burned all night." in [window.text for window in plan.windows]
