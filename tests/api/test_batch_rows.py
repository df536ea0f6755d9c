"""POST /v1/evaluations/batch: a bad row gets an error and costs no other row; a bad envelope costs the batch."""

import json
from typing import Any

import pytest

from plumbline.service.api.responses import NDJSON
from tests.making.cases import load_cases
from tests.running.batch_service import BATCH_URL, CONTEXT, post, read_lines, row
from tests.running.edge_app import read_problem
from tests.running.service import plain_settings, running

JSON_TYPE = {"content-type": "application/json", "accept": NDJSON}
LEXICAL = {"tiers": ["lexical"]}
LIMITS = {"max_contexts": 3, "max_context_characters": 40, "max_answer_characters": 40, "max_question_characters": 20}
PLANTED = "Confidential passage 4711"
NESTED: list[Any] = []
for _ in range(40):
    NESTED = [NESTED]

# The row, and of its error: the pointer below the row, a word of the problem there, the name that is repeated.
ROWS: dict[str, tuple[Any, str, str, str | None]] = {
    **{
        which: (json.loads(bad.replace("PLANTED", PLANTED)), *said, name or None)
        for which, (bad, *said, name) in load_cases("batch_rows", "rows").items()
    },
    "65 keys": ({f"key{number}": 1 for number in range(65)}, "", "65 keys", None),
    "too many values": (row("x", contexts=["a"] * 30_001), "/contexts", "30000", "x"),
}


# --- rows


async def test_bad_rows_are_told_so_and_cost_no_other_row() -> None:
    response = await post(
        row("first"), *(bad for bad, *_ in ROWS.values()), row("last"), options=LEXICAL, settings=LIMITS
    )

    rows, summary = read_lines(response)
    by_index = {each["index"]: each for each in rows}
    assert [by_index[index]["result"]["status"] for index in (0, len(ROWS) + 1)] == ["judged", "judged"]
    assert (summary["rows"], summary["judged"], summary["errors"]) == (len(ROWS) + 2, 2, len(ROWS))
    for index, (which, (_, pointer, word, name)) in enumerate(ROWS.items(), start=1):
        error = by_index[index]["error"]
        assert by_index[index]["custom_id"] == name, which
        assert (error["type"], error["status"]) == ("urn:plumbline:problem:validation", 422)
        problems = {each["pointer"]: each["detail"] for each in error["errors"]}
        assert word in problems[f"/samples/{index}{pointer}"], which
    assert PLANTED not in response.text


async def test_a_row_that_a_single_evaluation_could_not_read_costs_no_other_row() -> None:
    bad = json.dumps(row("x", contexts=NESTED))
    body = f'{{"samples": [{json.dumps(row("first"))}, {bad}], "options": {{"tiers": ["lexical"]}}}}'
    async with running(plain_settings()) as client:
        response = await client.post(BATCH_URL, content=body, headers=JSON_TYPE)

    rows, summary = read_lines(response)
    (error,) = [each["error"] for each in rows if "error" in each]
    assert (error["type"], error["status"]) == ("urn:plumbline:problem:malformed-body", 400)
    assert "32 levels" in error["detail"]
    assert summary["judged"] == 1


async def test_of_rows_with_one_name_the_first_has_it() -> None:
    response = await post(row("a"), row("b"), row("a", "It is red."), row("a"), options=LEXICAL)

    rows, summary = read_lines(response)
    by_index = {each["index"]: each for each in rows}
    assert by_index[0]["result"]["id"] == "a"
    assert by_index[1]["result"]["id"] == "b"
    for index in (2, 3):
        assert by_index[index]["custom_id"] == "a"
        (problem,) = by_index[index]["error"]["errors"]
        assert problem["pointer"] == f"/samples/{index}/custom_id"
        assert problem["detail"] == "is that of sample 0 too, counted from 0; each may be used once"
    assert (summary["judged"], summary["errors"]) == (2, 2)


# --- the envelope


@pytest.mark.parametrize(("body", "pointer", "word"), load_cases("batch_rows", "envelopes"))
async def test_a_bad_envelope_is_refused_with_its_place(body: str, pointer: str, word: str) -> None:
    async with running(plain_settings(max_batch_samples=3)) as client:
        response = await client.post(BATCH_URL, content=body, headers=JSON_TYPE)

    problem = read_problem(response, 422)
    problems = {each.pointer: each.detail for each in problem.errors}
    assert word in problems.get(pointer, ""), problems


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "empty"),
        (b'{"samples": [', "line 1"),
        (b'{"samples": ["\xff"]}', "byte 14"),
        (b'{"samples": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"samples": [' + b"{}," * 100_001 + b"{}]}", "100000 lists and objects"),
    ],
)
async def test_a_body_that_cannot_be_read_says_why(body: bytes, word: str) -> None:
    async with running(plain_settings()) as client:
        response = await client.post(BATCH_URL, content=body, headers=JSON_TYPE)

    assert word in read_problem(response, 400).detail


async def test_the_bytes_of_a_batch_are_a_setting_of_its_own() -> None:
    samples = [row(str(number)) for number in range(20)]
    small, large = {"max_body_bytes": 1024}, {"max_batch_body_bytes": 1024}

    taken = await post(*samples, settings=small, options=LEXICAL)
    refused = await post(*samples, settings=large, options=LEXICAL)

    assert read_lines(taken)[1]["judged"] == 20
    assert "1024" in read_problem(refused, 413).detail


async def test_a_thousand_samples_are_taken_and_one_more_is_not() -> None:
    empty = [{"contexts": [CONTEXT], "answer": ""}] * 1000

    taken = await post(*empty)
    refused = await post(*empty, {})

    assert read_lines(taken)[1]["empty_answer"] == 1000
    problem = read_problem(refused, 422)
    assert [(each.pointer, "at most 1000 items" in each.detail) for each in problem.errors] == [("/samples", True)]
