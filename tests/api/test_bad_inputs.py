"""Whatever cannot be judged is a 4xx problem that is small, quick, names the field or the limit and repeats nothing."""

import json
from typing import Any

import httpx2
import pytest

from tests.doubles.scripted_judge import ScriptedJudge
from tests.making.cases import load_cases
from tests.running.edge_app import read_problem
from tests.running.service import URL, evaluate, judge_settings, plain_settings, running

JSON = {"content-type": "application/json"}
PLANTED = "Confidential passage 4711"


def sample(**fields: Any) -> dict[str, Any]:
    return {"contexts": [PLANTED], "answer": PLANTED, **fields}


def raw(**fields: Any) -> bytes:
    return json.dumps(sample(**fields)).encode()


# The body, and what the problem names: the pointer to the field, and a word of its detail.
FIELDS: dict[str, tuple[bytes, str, str]] = {
    "no field at all": (b"{}", "/contexts", "required"),
    "no contexts": (b'{"answer": "a"}', "/contexts", "required"),
    "no answer": (b'{"contexts": []}', "/answer", "required"),
    "unknown field": (raw(context="x"), "/context", "did you mean 'contexts'"),
    "unknown field like no other": (raw(zzz=1), "/zzz", "unknown field 'zzz'"),
    "settings in the request": (raw(llm_api_key="x"), "/llm_api_key", "unknown field"),
    "contexts a string": (raw(contexts="x"), "/contexts", "list"),
    "contexts an object": (raw(contexts={"0": "x"}), "/contexts", "list"),
    "contexts null": (raw(contexts=None), "/contexts", "list"),
    "a context null": (raw(contexts=["a", None]), "/contexts/1", "string"),
    "a context an object": (raw(contexts=[{"id": "a"}]), "/contexts/0/text", "required"),
    "a context a number": (raw(contexts=[1]), "/contexts/0", "string"),
    "answer null": (raw(answer=None), "/answer", "string"),
    "answer a number": (raw(answer=42), "/answer", "string"),
    "answer a list": (raw(answer=["a"]), "/answer", "string"),
    "question null": (raw(question=None), "/question", "string"),
    "reference a number": (raw(reference=1), "/reference", "string"),
    "id a number": (raw(id=7), "/id", "string"),
    "id too long": (raw(id="x" * 201), "/id", "200"),
    "tiers a string": (raw(tiers="llm"), "/tiers", "list"),
    "tiers empty": (raw(tiers=[]), "/tiers", "at least 1"),
    "tiers too many": (raw(tiers=["llm", "embedding", "lexical", "llm", "llm"]), "/tiers", "at most 4"),
    "tiers repeated": (raw(tiers=["llm", "llm"]), "/tiers", "once"),
    "tier unknown": (raw(tiers=["gpt"]), "/tiers/0", "'llm', 'detector', 'embedding' or 'lexical'"),
    "tier empty": (raw(tiers=[""]), "/tiers/0", "'llm', 'detector', 'embedding' or 'lexical'"),
    "threshold over 1": (raw(threshold=1.01), "/threshold", "less than or equal to 1"),
    "threshold under 0": (raw(threshold=-0.01), "/threshold", "greater than or equal to 0"),
    "threshold a word": (raw(threshold="high"), "/threshold", "number"),
    "threshold beyond floats": (raw().replace(b"{", b'{"threshold": 1e999, ', 1), "/threshold", "finite"),
    "deadline zero": (raw(deadline_seconds=0), "/deadline_seconds", "greater than 0"),
    "deadline negative": (raw(deadline_seconds=-1), "/deadline_seconds", "greater than 0"),
    "deadline too far": (raw(deadline_seconds=601), "/deadline_seconds", "600"),
    "unit unknown": (raw(offset_unit="bytes"), "/offset_unit", "'code_point' or 'utf16'"),
    "unit empty": (raw(offset_unit=""), "/offset_unit", "'code_point' or 'utf16'"),
    "201 contexts": (raw(contexts=["a"] * 201), "/contexts", "200"),
    "10,000 contexts": (raw(contexts=["a"] * 10_000), "/contexts", "200"),
    "10,000 wrong contexts": (raw(contexts=[1] * 10_000), "/contexts", "200"),
    "a context over the limit": (raw(contexts=["a" * 1_000_001]), "/contexts/0", "1000000"),
    "answer over the limit": (raw(answer="a" * 50_001), "/answer", "50000"),
    "answer of a megabyte without a full stop": (raw(answer="word " * 200_000), "/answer", "50000"),
    "reference over the limit": (raw(reference="a" * 50_001), "/reference", "50000"),
    "question over the limit": (raw(question="a" * 10_001), "/question", "10000"),
    "lone surrogate": (raw(answer="a\ud800b"), "/answer", "surrogate"),
    "lone surrogate in a context": (raw(contexts=["a", "\udfff"]), "/contexts/1", "surrogate"),
    "NUL": (raw(question="a\0b"), "/question", "NUL"),
    "NUL in a key": (raw(**{"a\0b": 1}), "", "NUL"),
    "a list": (b"[]", "", "object"),
    "a string": (b'"a"', "", "object"),
    "null": (b"null", "", "object"),
    "65 keys": (json.dumps({f"key{number}": 1 for number in range(65)}).encode(), "", "65 keys"),
}


async def refused(client: httpx2.AsyncClient, body: bytes, status: int) -> Any:
    """The problem that a body makes, once it is proven to hold nothing that was sent."""
    response = await client.post(URL, content=body, headers=JSON)
    problem = read_problem(response, status)
    assert PLANTED not in response.text
    return problem


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("body", "pointer", "word"), FIELDS.values(), ids=FIELDS)
async def test_a_field_that_cannot_be_taken_is_named(
    shared_client: httpx2.AsyncClient, body: bytes, pointer: str, word: str
) -> None:
    problem = await refused(shared_client, body, 422)

    assert problem.type == "urn:plumbline:problem:validation"
    assert 1 <= len(problem.errors) <= 20
    assert any(each.pointer == pointer and word in each.detail for each in problem.errors), problem.errors


@pytest.mark.asyncio(loop_scope="module")
async def test_every_wrong_field_is_named_at_once(shared_client: httpx2.AsyncClient) -> None:
    problem = await refused(shared_client, raw(answer=1, threshold=2, tiers=["gpt"], zzz=1), 422)

    assert {each.pointer for each in problem.errors} == {"/answer", "/threshold", "/tiers/0", "/zzz"}
    assert problem.detail == "4 problems in the request"


async def test_what_is_refused_costs_no_call(judge: ScriptedJudge) -> None:
    async with running(judge_settings(judge)) as client:
        response = await client.post(URL, json=sample(threshold=2))

    read_problem(response, 422)
    assert judge.calls == 0


# --- limits are settings

LIMITS = {"max_contexts": 3, "max_context_characters": 40, "max_answer_characters": 30, "max_question_characters": 20}


@pytest.mark.parametrize(("fields", "pointer", "limit"), load_cases("bad_inputs", "limits", inner=list))
async def test_the_limits_of_the_settings_stand_in_the_problems(
    fields: dict[str, Any], pointer: str, limit: str
) -> None:
    async with running(plain_settings(**LIMITS)) as client:
        response = await client.post(URL, json=sample(**fields))

    problem = read_problem(response, 422)
    assert [each.pointer for each in problem.errors] == [pointer]
    assert f"at most {limit} " in problem.errors[0].detail


async def test_contexts_that_are_too_long_together_are_refused_with_both_numbers() -> None:
    async with running(plain_settings(**LIMITS)) as client:
        response = await client.post(URL, json=sample(contexts=["b" * 21, "b" * 20]))

    problem = read_problem(response, 422)
    assert [each.pointer for each in problem.errors] == ["/contexts"]
    assert problem.errors[0].detail == "the contexts have 41 characters together; at most 40 are read"


@pytest.mark.parametrize("field", [{"threshold": True}, {"threshold": "0.5"}, {"deadline_seconds": "1"}, {"id": ""}])
async def test_a_value_that_only_resembles_its_type_is_refused(field: dict[str, Any]) -> None:
    async with running(plain_settings()) as client:
        response = await client.post(URL, json=sample(**field))

    assert [each.pointer for each in read_problem(response, 422).errors] == [f"/{next(iter(field))}"]


async def test_what_just_fits_the_limits_is_judged() -> None:
    fields = {
        "contexts": ["b" * 20, "b" * 10, "b" * 10],
        "answer": "a" * 30,
        "reference": "a" * 30,
        "question": "a" * 20,
    }

    async with running(plain_settings(**LIMITS)) as client:
        result = await evaluate(client, **fields)

    assert result["status"] == "judged"


async def test_characters_are_counted_and_not_bytes() -> None:
    async with running(plain_settings(**LIMITS)) as client:
        result = await evaluate(client, contexts=["汉" * 40], answer="汉" * 30, question="😀" * 20)

    assert result["status"] == "judged"


async def test_the_bytes_of_a_body_are_a_setting() -> None:
    async with running(plain_settings(max_body_bytes=1024)) as client:
        response = await client.post(URL, json=sample(question="a" * 1024))

    assert "1024" in read_problem(response, 413).detail
