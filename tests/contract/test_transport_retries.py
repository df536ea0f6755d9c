"""When a call is made again, how long that waits, when nothing is asked at all, and who is asked instead."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from plumbline.ground.waits import parse_wait
from plumbline.judging.ports.exchange import Ledger
from plumbline.judging.ports.observation import State
from plumbline.models.chat.resilient_endpoint import RetryPolicy
from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion, openai_error, status
from tests.doubles.scripted_transport import KEY, PROMPT_RETRIES, ask, entry, failure_of, transport

GOOD = completion('{"ok": true}')


def throttled(**headers: str) -> Step:
    """A 429 with these headers; underscores stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return openai_error(429, "rate_limit_exceeded", headers=named)


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


# --- waits


def test_a_date_is_a_wait_if_it_is_to_come() -> None:
    assert parse_wait({"retry-after": http_date(86_400)}) == pytest.approx(86_400, rel=0.1)
    assert parse_wait({"retry-after": http_date(-60)}) is None


@pytest.mark.parametrize("value", ["60", "3600", "1e9", "a date to come"])
async def test_a_wait_beyond_the_deadline_ends_at_once(judge: ScriptedJudge, value: str) -> None:
    judge.reply_with(throttled(retry_after=http_date(3600) if value.startswith("a date") else value), GOOD)

    async with transport(judge) as chat:
        failure = await failure_of(chat, seconds=30.0)

    assert (failure.reason, judge.calls) == ("rate_limited", 1)


async def test_others_leave_a_provider_alone_that_asks_for_it(judge: ScriptedJudge) -> None:
    judge.reply_with(throttled(retry_after="30"), GOOD)

    async with transport(judge) as chat:
        await failure_of(chat)
        second = await failure_of(chat)
        assert (second.reason, judge.calls) == ("rate_limited", 1)
        assert "left alone" in second.detail


async def test_waits_double_and_are_drawn_from_zero_up_to_them(judge: ScriptedJudge) -> None:
    judge.reply_with(status(409))
    bounds: list[float] = []

    def jitter(longest: float) -> float:
        bounds.append(longest)
        return 0.0

    async with transport(judge, RetryPolicy(attempts=7, jitter=jitter)) as chat:
        await failure_of(chat, seconds=30)

    assert bounds[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


# --- breakers


async def test_five_failures_in_a_row_shut_an_endpoint(judge: ScriptedJudge) -> None:
    judge.reply_with(status(500))
    ledger = Ledger()

    async with transport(judge) as chat:
        reasons = [(await failure_of(chat, ledger=ledger)).reason for _ in range(4)]
        readiness = chat.readiness()

    assert reasons == ["upstream_error", "upstream_error", "circuit_open", "circuit_open"]
    assert judge.calls == ledger.usage.calls == 5
    assert readiness.state is State.UNAVAILABLE
    assert "not asked for 10 seconds: HTTP 500" in readiness.detail


async def test_a_sample_that_can_wait_is_told_how_long_an_endpoint_rests_that_answered(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD, status(500))
    patient = Ledger(can_wait=True)

    async with transport(judge) as chat:
        await ask(chat)
        failures = [await failure_of(chat, seconds=30.0, ledger=each) for each in (patient, patient, patient, Ledger())]

    assert [each.reason for each in failures] == ["upstream_error", "upstream_error", "circuit_open", "circuit_open"]
    waits = [each.wait_seconds for each in failures]
    assert waits == [None, None, pytest.approx(10.0, abs=5.0), None]


@pytest.mark.parametrize("code", [400, 408, 409, 413, 422, 429])
async def test_a_fault_of_ours_shuts_nothing(judge: ScriptedJudge, code: int) -> None:
    judge.reply_with(status(code))

    async with transport(judge) as chat:
        for _ in range(8):
            assert (await failure_of(chat)).reason != "circuit_open"
        assert chat.readiness().state is State.READY


@pytest.mark.parametrize("code", [401, 402, 403, 404])
async def test_a_wrong_key_or_model_costs_one_call(judge: ScriptedJudge, code: int) -> None:
    judge.reply_with(status(code))

    async with transport(judge) as chat:
        await failure_of(chat)
        second = await failure_of(chat)
        readiness = chat.readiness()

    assert (second.reason, judge.calls) == ("circuit_open", 1)
    assert f"HTTP {code}" in second.detail
    assert readiness.state is State.UNAVAILABLE
    assert KEY not in readiness.detail


async def test_a_hurried_caller_shuts_nothing_for_others(judge: ScriptedJudge) -> None:
    judge.reply_with(hang())

    async with transport(judge) as chat:
        for _ in range(6):
            assert (await failure_of(chat, seconds=0.02)).reason == "timeout"
        assert chat.readiness().state is State.READY


async def test_a_server_that_hangs_is_shut(judge: ScriptedJudge) -> None:
    judge.reply_with(hang())

    async with transport(judge) as chat:
        failures = await asyncio.gather(*(failure_of(chat, seconds=1.1) for _ in range(5)))
        assert {failure.reason for failure in failures} == {"timeout"}
        assert (await failure_of(chat)).reason == "circuit_open"


async def test_after_a_while_one_probe_decides(judge: ScriptedJudge) -> None:
    judge.reply_with(*[status(500)] * 5, GOOD)

    async with transport(judge) as chat:
        await failure_of(chat)
        await failure_of(chat)
        breaker = chat._endpoints[0].guard._health.breaker
        breaker._open_until = time.monotonic()
        results = await asyncio.gather(*(chat_result(chat) for _ in range(8)))
        assert sorted(results) == ["answered", *["circuit_open"] * 7]
        assert (await ask(chat)).content == '{"ok": true}'


async def chat_result(chat: Any) -> str:
    """`answered`, or the reason of the failure."""
    from plumbline.ground.errors import TierFailure

    try:
        await ask(chat)
    except TierFailure as failure:
        return str(failure.reason)
    return "answered"


# --- others in place of it


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (status(401), 1),
        (status(404), 1),
        (status(400), 4),
        (status(500), 3),
        (openai_error(400, "data_inspection_failed"), 1),
        (throttled(retry_after="60"), 1),
        (completion(""), 2),
        (completion(None, refusal="no"), 1),
    ],
)
async def test_the_next_endpoint_answers_what_the_first_cannot(judge: ScriptedJudge, fault: Step, calls: int) -> None:
    judge.reply_with(fault)
    ledger = Ledger()
    async with ScriptedJudge() as other:
        other.reply_with(GOOD)
        async with transport(judge, llm_fallbacks=(entry(other, model="judge-2"),)) as chat:
            reply = await ask(chat, ledger=ledger)

        assert (reply.content, judge.calls, other.calls) == ('{"ok": true}', calls, 1)
        assert ledger.usage.calls == calls + 1
        assert other.requests[0].json["model"] == "judge-2"


async def test_an_endpoint_that_hangs_leaves_time_for_the_next(judge: ScriptedJudge) -> None:
    judge.reply_with(hang())
    async with ScriptedJudge() as other:
        other.reply_with(GOOD)
        async with transport(judge, llm_fallbacks=(entry(other),)) as chat:
            assert (await ask(chat, seconds=1.0)).content == '{"ok": true}'


async def test_when_nobody_answers_all_are_named(judge: ScriptedJudge) -> None:
    judge.reply_with(status(401))
    async with ScriptedJudge() as other:
        other.reply_with(status(503))
        async with transport(judge, llm_fallbacks=(entry(other),)) as chat:
            failure = await failure_of(chat)
            readiness = chat.readiness()

    assert failure.reason == "upstream_error"
    first, second = failure.detail.split("; ")
    assert (first.endswith(": HTTP 401"), second.endswith(": HTTP 503")) == (True, True)
    assert first.startswith("127.0.0.1:")
    assert readiness.state is State.READY
    assert "; then generic: judge-1 at 127.0.0.1:" in readiness.detail


async def test_a_second_key_for_one_address_is_an_endpoint_of_its_own(judge: ScriptedJudge) -> None:
    def by_key(request: RecordedRequest) -> Step:
        return GOOD if request.headers["authorization"] == "Bearer sk-second-key-0002" else status(401)

    judge.reply_with(by_key)
    async with transport(judge, llm_fallbacks=(entry(judge, api_key="sk-second-key-0002"),)) as chat:
        for _ in range(3):
            await ask(chat)
        assert judge.calls == 4
        assert "second-key" not in f"{chat.readiness()}"


async def test_a_fallback_that_reads_less_is_passed_over(judge: ScriptedJudge) -> None:
    from dataclasses import replace

    from tests.doubles.scripted_transport import REQUEST

    judge.reply_with(status(500))
    async with ScriptedJudge() as other:
        async with transport(judge, llm_fallbacks=(entry(other, context_tokens=1024),)) as chat:
            failure = await failure_of(chat, request=replace(REQUEST, user="word " * 2_000))

        assert (failure.reason, other.calls) == ("too_long", 0)


async def test_judges_by_name_share_what_is_known_of_an_endpoint(judge: ScriptedJudge) -> None:
    from plumbline.models.chat.chat_models import build_chat_models
    from tests.doubles.scripted_transport import transport_settings

    judge.reply_with(status(401))
    chats = build_chat_models(transport_settings(judge, llm_judges={"other": (entry(judge),)}), PROMPT_RETRIES)

    assert list(chats) == ["default", "other"]
    assert [chat.name for chat in chats.values()] == ["default", "other"]
    await failure_of(chats["other"])
    assert (await failure_of(chats["default"])).reason == "circuit_open"
    for chat in chats.values():
        await chat.close()
