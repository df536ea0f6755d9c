"""Rankings parsed out of an LLM's text; the cases were worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.retrieval.llm_rankings import parse_ranking
from tests.making.cases import load_cases

CASES = json.loads((Path(__file__).parents[1] / "data/retrieval_inputs.json").read_text("utf-8"))["rankings"]
CANDIDATES = ["doc_1", "doc_5", "doc_3", "doc_10"]


@pytest.mark.parametrize("case", CASES, ids=[case["behaviour"] for case in CASES])
def test_each_shared_case_is_read(case: dict[str, Any]) -> None:
    parsed = parse_ranking(case["text"], candidates=case["candidates"])

    assert (list(parsed.ids), list(parsed.unknown), parsed.parse_ok) == (
        case["ids"],
        case["unknown"],
        bool(case["ids"]),
    )


@pytest.mark.parametrize(("text", "ids", "form"), load_cases("llm_rankings", "a_form_is_recognized"))
def test_a_form_is_recognized(text: str, ids: tuple[str, ...], form: str) -> None:
    parsed = parse_ranking(text, candidates=CANDIDATES)

    assert (parsed.ids, parsed.form) == (ids, form)


def test_later_mentions_are_counted_as_duplicates() -> None:
    assert parse_ranking("doc_1, doc_5, doc_1", candidates=CANDIDATES).duplicates_removed == 1


@pytest.mark.parametrize("text", ["", "<think>doc_1 is", "[]", '["doc_99"]'])
def test_an_empty_ranking_is_never_silent(text: str) -> None:
    parsed = parse_ranking(text, candidates=CANDIDATES)

    assert (parsed.ids, parsed.parse_ok) == ((), False)


def test_a_number_is_an_id_when_a_candidate_is_a_number() -> None:
    assert parse_ranking("[2] > [7]", candidates=["7", "2", "a"]).ids == ("2", "7")


def test_without_candidates_lists_are_read_and_prose_is_not() -> None:
    assert parse_ranking("1. a-1\n2. b-2").ids == ("a-1", "b-2")
    assert not parse_ranking("a-1 is better than b-2").parse_ok
