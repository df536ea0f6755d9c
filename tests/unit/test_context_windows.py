"""Contexts that are too long for a model are cut between sentences, and nothing of them is lost."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.judge.context_windows import Window, context_windows
from plumbline.judging.ports.exchange import estimate_tokens
from plumbline.judging.text.segmentation import split_sentences


def fit_windows(*contexts: str, tokens: int) -> tuple[Window, ...]:
    return context_windows(contexts, [split_sentences(text) for text in contexts], tokens=tokens)


def test_contexts_that_fit_are_one_window() -> None:
    (window,) = fit_windows("First text.", "Second text.", tokens=100)

    assert [(piece.number, piece.text) for piece in window] == [(1, "First text."), (2, "Second text.")]


SENTENCES = st.sampled_from(["The dam was built in 1987. ", "水库建成。", "Yes! ", "x" * 90 + " "])


@given(st.lists(st.lists(SENTENCES, max_size=20), min_size=1, max_size=5), st.integers(40, 120))
def test_every_character_is_in_some_window_and_none_is_too_full(parts: list[list[str]], tokens: int) -> None:
    contexts = ["".join(part) for part in parts]

    windows = fit_windows(*contexts, tokens=tokens)

    for number, context in enumerate(contexts, start=1):
        pieces = [piece.text for window in windows for piece in window if piece.number == number]
        end = 0
        for piece in pieces:
            start = max(place for place in _places(context, piece) if place <= end)
            end = max(end, start + len(piece))
        assert end == len(context)
    for window in windows:
        assert sum(estimate_tokens(piece.text) + 16 for piece in window) <= tokens + 16


def test_a_cut_piece_begins_with_the_last_sentence_of_the_one_before() -> None:
    sentences = [f"Sentence number {number} stands here. " for number in range(12)]

    pieces = [piece.text for window in fit_windows("".join(sentences), tokens=60) for piece in window]

    assert len(pieces) > 2
    for before, after in itertools.pairwise(pieces):
        assert after.lstrip().startswith(split_sentences(before)[-1].text)


def test_half_a_megabyte_is_cut_into_few_windows_for_a_small_model() -> None:
    text = "The dam was built in 1987 and holds much water. 水库建成于1987年。 " * 8_000
    sentences = [split_sentences(text)]

    windows = context_windows([text], sentences, tokens=24_000)

    assert 8 < len(windows) < 20


def test_a_text_beyond_all_windows_is_refused() -> None:
    with pytest.raises(TierFailure) as caught:
        fit_windows("word " * 100_000, tokens=100)

    assert caught.value.reason is FailureReason.TOO_LONG


def _places(text: str, part: str) -> list[int]:
    return [place for place in range(len(text) - len(part) + 1) if text.startswith(part, place)]
