"""When a claim and its evidence differ in a negation, and when it only looks like it."""

import pytest

from plumbline.judging.text.negation import differs, is_denied, is_turned, split_clauses
from tests.making.cases import load_cases


@pytest.mark.parametrize(("claim", "evidence"), load_cases("negation", "a_negation_on_one_side_only_differs"))
def test_a_negation_on_one_side_only_differs(claim: str, evidence: str) -> None:
    assert differs(claim, evidence)


@pytest.mark.parametrize(
    ("claim", "passages", "denied"), load_cases("negation", "a_clause_goes_against_one_that_has_its_words", inner=list)
)
def test_a_clause_goes_against_one_that_has_its_words(claim: str, passages: list[str], denied: bool) -> None:
    known = [clause for passage in passages for clause in split_clauses(passage)]

    assert is_denied(list(split_clauses(claim)), known) is denied


@pytest.mark.parametrize(("claim", "evidence"), load_cases("negation", "endings"))
def test_other_endings_and_an_opening_word_do_not_hide_a_negation(claim: str, evidence: str) -> None:
    assert differs(claim, evidence)


@pytest.mark.parametrize(
    ("claim", "evidence"), load_cases("negation", "equal_sense_other_words_and_other_matters_do_not_differ")
)
def test_equal_sense_other_words_and_other_matters_do_not_differ(claim: str, evidence: str) -> None:
    assert not differs(claim, evidence)


@pytest.mark.parametrize(("one", "other"), load_cases("negation", "a_text_is_turned_by_a_negation_or_an_opposite"))
def test_a_text_is_turned_by_a_negation_or_an_opposite(one: str, other: str) -> None:
    assert is_turned(one, other)
    assert not is_turned(one, one.upper())
