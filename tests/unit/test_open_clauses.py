"""Sentences that are no copies after all: a condition left out, a denial, an addition."""

import pytest

from plumbline.judging.tiers.lexical import collect_lexical_findings
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases


@pytest.mark.parametrize(("copy", "passage"), load_cases("open_clauses", "under_a_condition"))
def test_a_copy_under_a_condition_or_a_denial_is_none(copy: str, passage: str) -> None:
    (found,) = collect_lexical_findings(case_of(copy, passage)).values()
    assert not found.is_copy
    # All of its words are copied: without that it would pass by their share
    assert "condition_left_out" in found.open_reasons or "属实" in passage


@pytest.mark.parametrize(("copy", "passage"), load_cases("open_clauses", "by_itself"))
def test_a_copy_of_a_plain_statement_is_one(copy: str, passage: str) -> None:
    assert collect_lexical_findings(case_of(copy, passage))[0].is_copy


@pytest.mark.parametrize(("answer", "reasons"), load_cases("open_clauses", "uncovered"))
def test_what_nothing_covers_leaves_a_sentence_open(answer: str, reasons: tuple[str, ...]) -> None:
    context = (
        "The P-3 drill has a two-year warranty, which starts on delivery. It can be returned within 14 days if unused."
    )

    assert collect_lexical_findings(case_of(answer, context))[0].open_reasons == reasons
