"""Alignment of token vectors, against a double loop over all of them."""

import time
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.token_vectors import TokenVectors
from plumbline.judging.tiers import token_alignment
from plumbline.judging.tiers.token_alignment import TokenAlignment, measure_unrelated

_LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=6)
EAST, NORTH, WEST = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)


def _vectors(*texts: Sequence[tuple[float, float]]) -> TokenVectors:
    rows = np.array([row for text in texts for row in text], dtype=np.float32)
    return TokenVectors(rows, np.cumsum([0, *map(len, texts)]))


def _drawn(lengths: Sequence[int], generator: np.random.Generator) -> TokenVectors:
    rows = generator.normal(size=(sum(lengths), 3)).astype(np.float32)
    return TokenVectors(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.cumsum([0, *lengths]))


def _texts(vectors: TokenVectors) -> list[NDArray[np.float32]]:
    return [vectors.vectors[start:end] for start, end in zip(vectors.bounds[:-1], vectors.bounds[1:], strict=True)]


def _naive_share(sentence: NDArray[np.float32], texts: Sequence[NDArray[np.float32]]) -> float:
    best = [max(float(token @ other) for text in texts for other in text) for token in sentence]
    return sum(best) / len(best)


def _align(sentences: TokenVectors, *contexts: TokenVectors) -> TokenAlignment:
    found = TokenAlignment(sentences)
    for each in contexts:
        found.add(each, until=time.monotonic() + 60)
    return found


def test_of_texts_as_near_the_first_is_the_nearest() -> None:
    found = _align(_vectors([EAST]), _vectors([NORTH], [EAST]), _vectors([EAST]))

    assert found.nearest().tolist() == [1]


def test_a_deadline_that_has_passed_is_a_timeout() -> None:
    found = TokenAlignment(_vectors([EAST]))

    with pytest.raises(TierFailure) as failed:
        found.add(_vectors([EAST]), until=time.monotonic() - 1)

    assert failed.value.reason is FailureReason.TIMEOUT


def test_the_clock_is_looked_at_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_alignment, "_BLOCK", 1)
    ticks = iter(range(100))
    monkeypatch.setattr(token_alignment, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    found = TokenAlignment(_vectors([EAST], [EAST], [EAST], [EAST]))

    with pytest.raises(TierFailure):
        found.add(_vectors([EAST]), until=2)

    assert next(ticks) == 3


@given(_LENGTHS, st.lists(_LENGTHS, min_size=1, max_size=3), st.integers(0, 1_000), st.integers(1, 12))
def test_shares_and_nearest_are_those_of_a_double_loop_whatever_the_blocks(
    lengths: list[int], parts: list[list[int]], seed: int, block: int
) -> None:
    generator = np.random.default_rng(seed)
    sentences, contexts = _drawn(lengths, generator), [_drawn(part, generator) for part in parts]
    texts = [text for part in contexts for text in _texts(part)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_alignment, "_BLOCK", block)
        found = _align(sentences, *contexts)

    assert found.shares() == pytest.approx([_naive_share(each, texts) for each in _texts(sentences)], abs=1e-5)
    for sentence, nearest in zip(_texts(sentences), found.nearest(), strict=True):
        alone = [_naive_share(sentence, [text]) for text in texts]
        assert alone[nearest] == pytest.approx(max(alone), abs=1e-5)


def test_unrelated_texts_are_measured_each_against_all_others() -> None:
    # The first and the last are one text, the second stands across both: (1 + 0 + 1) / 3.
    assert measure_unrelated(_vectors([EAST], [NORTH], [EAST])) == pytest.approx(2 / 3)


def test_a_model_that_tells_nothing_apart_leaves_room_to_one() -> None:
    assert measure_unrelated(_vectors([EAST], [EAST])) == 0.99
