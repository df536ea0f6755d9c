"""Texts side by side in rows: each whole, apart from the others, with little room lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from plumbline.models.encoder.packing import (
    PackedBatch,
    RowSlot,
    forward_in_rows,
    pack_batch,
    places_in_rows,
    row_length,
)

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("longest", "length"),
    [(1, 16), (16, 16), (33, 48), (96, 96), (97, 112), (128, 128), (129, 256), (257, 512), (600, 1024)],
)
def test_rows_have_few_lengths(longest: int, length: int) -> None:
    assert row_length(longest) == length


def placed(lengths: list[int], *, budget: int = 256, shares: bool = True) -> list[tuple[int, int] | None]:
    found = places_in_rows(lengths, budget=budget, shares=shares)
    assert [place.length for place in found if place] == [
        length for length, place in zip(lengths, found, strict=True) if place
    ]
    return [(place.row, place.start) if place else None for place in found]


def test_a_text_lies_in_the_first_row_with_room() -> None:
    assert placed([100, 100, 28, 29, 28, 1]) == [(0, 0), (1, 0), (0, 100), None, (1, 100), None]


def test_rows_are_as_long_as_fills_them_best() -> None:
    # Twice 24 are 48, twice 28 are 56 of 64, four times 28 are 112.
    assert placed([24] * 12)[:4] == [(0, 0), (0, 24), (1, 0), (1, 24)]
    assert placed([28] * 8) == [(row, start) for row in range(2) for start in (0, 28, 56, 84)]


def test_a_text_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    assert placed([300, 300, 40]) == [(0, 0), None, (0, 300)]


def test_a_text_that_must_not_share_has_a_row_of_its_own() -> None:
    assert placed([60, 2, 64, 3, 3], shares=False) == [(0, 0), (1, 0), (2, 0), (3, 0), None]


def test_a_batch_tells_texts_apart() -> None:
    batch = pack_batch([[7, 8], [9], [5, 6, 4]], [RowSlot(0, 0, 2), RowSlot(0, 2, 1), RowSlot(1, 0, 3)])

    assert batch.tokens[:, :4].tolist() == [[7, 8, 9, 0], [5, 6, 4, 0]]
    assert batch.positions[:, :4].tolist() == [[0, 1, 0, 0], [0, 1, 2, 0]]
    assert batch.owners[:, :4].tolist() == [[0, 0, 1, -1], [2, 2, 2, -1]]
    seen = batch.may_see()
    assert seen.shape == (2, 1, 16, 16)
    assert (seen[0, 0, :4, :4] == 0.0).tolist() == [
        [True, True, False, False], [True, True, False, False], [False, False, True, False],
        [False, False, False, True],
    ]  # fmt: skip


@given(LENGTHS, st.booleans())
def test_every_text_comes_back_as_it_went_in(lengths: list[int], shares: bool) -> None:
    texts = [[number * 1_000 + place for place in range(length)] for number, length in enumerate(lengths)]
    batches: list[PackedBatch] = []

    def forward(batch: PackedBatch) -> NDArray[np.float32]:
        batches.append(batch)
        return batch.tokens[..., None].astype(np.float32)

    found = forward_in_rows(texts, forward, budget=256, shares=shares)

    assert [vectors[:, 0].tolist() for vectors in found] == texts
    for batch in batches:
        assert sum(place.length for place in batch.places) == int((batch.owners >= 0).sum())
        assert shares or len({place.row for place in batch.places}) == len(batch.places)


def test_rows_of_sentences_are_nearly_full() -> None:
    lengths = np.random.default_rng(1).integers(8, 60, size=400)
    padding = []

    def forward(batch: PackedBatch) -> NDArray[np.float32]:
        padding.append(float((batch.owners < 0).mean()))
        return batch.tokens[..., None].astype(np.float32)

    forward_in_rows([[1] * int(length) for length in lengths], forward, budget=256, shares=True)

    assert float(np.mean(padding)) < 0.05
