"""Readings of texts: some of them, and how much of them a model does not know."""

import pytest

from plumbline.judging.ports.token_vectors import TokenizedTexts

READING = TokenizedTexts(
    tokens=[[1, 2, 3], [4], [5, 6]], counts=[4, 0, 2], unknown=[1, 0, 2], is_overlong=[True, False, False]
)


def test_some_texts_are_picked_in_the_order_asked_for() -> None:
    assert READING.pick([2, 0, 2]) == TokenizedTexts(
        tokens=[[5, 6], [1, 2, 3], [5, 6]], counts=[2, 4, 2], unknown=[2, 1, 2], is_overlong=[False, True, False]
    )
    assert READING.pick([]) == TokenizedTexts([], [], [], [])


@pytest.mark.parametrize(
    ("rows", "share"),
    [([0], 0.25), ([0, 2], 0.5), ([0, 1, 2], 0.5), ([1], 0.0), ([], 0.0)],
)
def test_the_unknown_share_is_over_all_tokens_of_the_texts(rows: list[int], share: float) -> None:
    assert READING.unknown_share(rows) == share
