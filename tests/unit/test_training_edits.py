"""Edits of claims for training: what breaks a claim changes it, what keeps it says nothing new."""

import random

import pytest

from training.edits import BREAKING, KEEPING, Claim, change_number, negate, swap_name, swap_roles

DOCUMENT = (
    "Ada Lovelace wrote to Charles Babbage in 1843 about some notes, which he (a mathematician) often praised.",
    "Mary Somerville has introduced them in London before the summer of 1833.",
)
CLAIM = Claim(
    "Ada Lovelace was praised by Charles Babbage in 1843.",
    DOCUMENT[:1],
    DOCUMENT,
    ("The ferry leaves at six.",),
    lambda word: ("thanked", "visited"),
)


@pytest.mark.parametrize("name", [*BREAKING, *KEEPING])
def test_an_edit_gives_another_text_or_none_and_the_same_for_a_seed(name: str) -> None:
    edit = {**BREAKING, **KEEPING}[name]

    made = [edit(CLAIM, random.Random(seed)) for seed in range(20)]

    assert made == [edit(CLAIM, random.Random(seed)) for seed in range(20)]
    assert all(text is None or text.strip() for text in made)
    if name in BREAKING:
        assert CLAIM.text not in made


def test_edits_take_what_they_put_in_from_the_document() -> None:
    draw = random.Random(1)

    assert swap_roles(CLAIM, draw) == "Charles Babbage was praised by Ada Lovelace in 1843."
    assert negate(CLAIM, draw) in {
        "Ada Lovelace was not praised by Charles Babbage in 1843.",
        "Ada Lovelace was never praised by Charles Babbage in 1843.",
    }
    assert any(name in str(swap_name(CLAIM, draw)) for name in ("Mary Somerville", "London"))
    assert "1843" not in str(change_number(CLAIM, draw))
