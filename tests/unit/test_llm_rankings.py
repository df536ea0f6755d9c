"""Rankings parsed out of an LLM's text; the cases were worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.retrieval.inputs import read_run
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


def test_what_a_reply_leaves_out_is_appended_where_that_is_asked_for() -> None:
    text = '{"ranking": ["doc_3", "doc_1"], "excluded": ["doc_5"]}'

    parsed = parse_ranking(text, candidates=CANDIDATES, append_missing=True)

    assert parsed.ids == ("doc_3", "doc_1", "doc_10")
    assert not parse_ranking("no idea", candidates=CANDIDATES, append_missing=True).parse_ok


def test_replies_that_name_unknown_ids_are_counted_and_warned_of() -> None:
    replies = {"q1": "doc_1 > doc_99 > doc_3", "q2": "doc_3 > doc_1", "q3": "doc_1 > nothing at all > doc_3"}

    read = read_run(replies, name="llm", candidates=dict.fromkeys(replies, CANDIDATES))

    assert read.run.results == {"q1": ("doc_1", "doc_3"), "q2": ("doc_3", "doc_1")}
    assert [line.partition(":")[0] for line in read.warnings] == [
        "1 of 3 replies hold no ranking (1 of them two)",
        "2 of 3 replies name ids that are no candidates, first 'doc_99'",
    ]


def test_a_number_is_an_id_when_a_candidate_is_a_number() -> None:
    assert parse_ranking("[2] > [7]", candidates=["7", "2", "a"]).ids == ("2", "7")


def test_without_candidates_lists_are_read_and_prose_is_not() -> None:
    assert parse_ranking("1. a-1\n2. b-2").ids == ("a-1", "b-2")
    assert not parse_ranking("a-1 is better than b-2").parse_ok
