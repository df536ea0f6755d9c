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
    **{
        name: (body.replace("PLANTED", PLANTED).encode(), *said)
        for name, (body, *said) in load_cases("bad_inputs", "fields").items()
    },
    "id too long": (raw(id="x" * 201), "/id", "200"),
    "201 contexts": (raw(contexts=["a"] * 201), "/contexts", "200"),
    "10,000 contexts": (raw(contexts=["a"] * 10_000), "/contexts", "200"),
    "10,000 wrong contexts": (raw(contexts=[1] * 10_000), "/contexts", "200"),
    "a context over the limit": (raw(contexts=["a" * 1_000_001]), "/contexts/0", "1000000"),
    "answer over the limit": (raw(answer="a" * 50_001), "/answer", "50000"),
    "answer of a megabyte without a full stop": (raw(answer="word " * 200_000), "/answer", "50000"),
    "reference over the limit": (raw(reference="a" * 50_001), "/reference", "50000"),
    "question over the limit": (raw(question="a" * 10_001), "/question", "10000"),
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
