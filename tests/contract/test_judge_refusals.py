"""Refusals and odd replies of servers: asked again in a form that they take, read, or refused by their true name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from plumbline.ground.waits import parse_wait
from plumbline.judging.ports.exchange import Ledger
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion, raw_body
from tests.doubles.scripted_transport import REQUEST, ask, failure_of, transport
from tests.making.cases import load_cases

REPLY = '{"ok": true}'
GOOD = completion(REPLY)
ASKED = replace(
    REQUEST,
    max_output_tokens=4_096,
    ids={"id": [1, 2]},
    schema={"type": "object", "properties": {"id": {"type": "integer"}, "ok": {"type": "boolean"}}},
)


def has(request: RecordedRequest, thing: str) -> bool:
    """Return True if the request has a field, a kind of reply, a role, or a limit beyond a number."""
    body: dict[str, Any] = request.json
    name, _, bound = thing.partition(">")
    if bound:
        return int(body.get(name, 0)) > int(bound)
    if absent := thing.removeprefix("no ") if thing.startswith("no ") else "":
        return absent not in body
    kind = body.get("response_format", {}).get("type")
    roles = [message["role"] for message in body["messages"]]
    return thing in body or thing == kind or thing in roles or (thing == "enum" and '"enum"' in json.dumps(body))


def case_id(case: dict[str, Any]) -> str:
    return str(case["server"])


def error(case: dict[str, Any], status: int = 400) -> Step:
    return raw_body(case["body"].encode(), status=case.get("status", status))


@pytest.mark.parametrize("case", load_cases("judge_refusals", "refused"), ids=case_id)
async def test_a_refused_field_is_left_out_and_so_from_then_on(judge: ScriptedJudge, case: dict[str, Any]) -> None:
    judge.reply_with(lambda request: error(case) if any(has(request, thing) for thing in case["has"]) else GOOD)
    ledger = Ledger()

    async with transport(judge, llm_provider=case["provider"]) as chat:
        first = await ask(chat, ledger=ledger, request=ASKED)
        calls = judge.calls
        second = await ask(chat, request=ASKED)

    assert (first.content, second.content) == (REPLY, REPLY)
    assert (calls <= 7, judge.calls - calls, ledger.usage.calls) == (True, 1, calls)


@pytest.mark.parametrize("case", load_cases("judge_refusals", "odd"), ids=case_id)
async def test_an_odd_reply_is_read_or_asked_for_again(judge: ScriptedJudge, case: dict[str, Any]) -> None:
    quoted = json.dumps(REPLY)

    def step(text: str) -> Step:
        for name, value in (("reply", REPLY), ("quoted", quoted), ("twice", json.dumps(quoted))):
            text = text.replace(f"{{{name}}}", value)
        return GOOD if text == "good" else raw_body(text.encode())

    judge.reply_with(*map(step, case["bodies"]))

    async with transport(judge) as chat:
        reply = await ask(chat, request=ASKED)

    assert (reply.content, reply.is_truncated, judge.calls) == (REPLY, False, len(case["bodies"]))


@pytest.mark.parametrize("case", load_cases("judge_refusals", "final"), ids=case_id)
async def test_what_no_form_changes_is_refused_in_the_providers_word(
    judge: ScriptedJudge, case: dict[str, Any]
) -> None:
    judge.reply_with(error(case))

    async with transport(judge, llm_provider=case["provider"]) as chat:
        failure = await failure_of(chat, request=ASKED)

    assert (failure.reason, case["shows"] in failure.detail) == (case["reason"], True)


@pytest.mark.parametrize("case", load_cases("judge_refusals", "filters"), ids=case_id)
async def test_a_filter_is_told_by_its_name_after_one_call(judge: ScriptedJudge, case: dict[str, Any]) -> None:
    judge.reply_with(error(case))

    async with transport(judge, llm_provider="openai") as chat:
        failure = await failure_of(chat, request=ASKED)

    assert (failure.reason, judge.calls) == ("content_filtered", 1)


WAITS = load_cases("judge_refusals", "waits")


@pytest.mark.parametrize(("headers", "body", "seconds"), WAITS["told"])
def test_a_wait_is_read_from_headers_and_bodies(headers: dict[str, str], body: str, seconds: float) -> None:
    assert parse_wait(headers, body.lower()) == pytest.approx(seconds)


@pytest.mark.parametrize(("headers", "body"), WAITS["untold"])
def test_what_is_no_time_to_come_is_no_wait(headers: dict[str, str], body: str) -> None:
    assert parse_wait(headers, body) is None
