"""Words of an answer put as the contexts put them."""

import tomllib
from importlib.resources import files

import pytest

from plumbline.judging.text.synonyms import KnownWords


def _reworded(said: str, *passages: str) -> str:
    known = [passage.split() for passage in passages]
    return " ".join(KnownWords(known, frozenset().union(*known)).reword(said.split()))


@pytest.mark.parametrize(
    ("said", "passage", "reworded"),
    [
        ("he purchased a lamp", "ann bought two lamps", "he bought a lamp"),
        ("delivery is free of charge", "the delivery comes at no cost", "delivery is at no cost"),
        ("delivery is free", "the delivery comes at no cost", "delivery is at no cost"),
        ("the staff meets yearly", "employees meet every year", "the employees meets every year"),
        ("the tour commences at nine", "the tour starts at nine", "the tour starts at nine"),
        ("it supplied the lamps", "it provides lamps", "it provides the lamps"),
    ],
)
def test_a_word_that_no_passage_has_is_put_as_its_synonym_there(said: str, passage: str, reworded: str) -> None:
    assert _reworded(said, passage) == reworded


@pytest.mark.parametrize(
    ("said", "passage"),
    [
        # The passages have it themselves.
        ("he bought a lamp", "he bought what they purchase"),
        # "no" and "cost" stand apart.
        ("delivery is free", "there is no rule on the cost of delivery"),
        ("prices fell", "prices rose"),
        ("guests must pay", "guests may pay"),
        ("two lamps", "a pair of lamps"),
        ("it opens at nine", "it closes at nine"),
    ],
)
def test_other_words_stay(said: str, passage: str) -> None:
    assert _reworded(said, passage) == said


def test_a_word_is_in_one_group_alone() -> None:
    table = files("plumbline.judging.text").joinpath("synonyms.toml").read_text(encoding="utf-8")

    forms = [form for line in tomllib.loads(table)["groups"].splitlines() for form in line.split(", ")]

    assert len(forms) == len(set(forms))
