"""Whatever a provider does wrong ends in a reply or in a failure with its reason, in time, after so many calls."""

import asyncio
import json
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from plumbline.judging.ports.exchange import Ledger
from plumbline.models.chat.resilient_endpoint import RetryPolicy
from tests.doubles.scripted_faults import (
    bad_chunked,
    close_mid_body,
    delayed,
    half_close,
    hang,
    headers_then_stall,
    huge,
    reset,
    reset_mid_body,
    trickle,
)
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import (
    RecordedRequest,
    Scripted,
    Step,
    completion,
    completion_payload,
    gzip_bomb,
    html_error_page,
    openai_error,
    raw_body,
    redirect,
    status,
    wrong_content_type,
)
from tests.doubles.scripted_transport import MODEL, PROMPT_RETRIES, REQUEST, ask, failure_of, transport

GOOD = '{"ok": true}'


def with_fields(**fields: Any) -> Step:
    """A good completion with these fields at its top."""
    payload = completion_payload([{"index": 0, "message": {"content": GOOD}, "finish_reason": "stop"}])
    return status(200, {**payload, **fields})


def with_message(**fields: Any) -> Step:
    """A completion whose only message has these fields."""
    return status(200, completion_payload([{"index": 0, "message": fields, "finish_reason": "stop"}]))


def with_error(code: object) -> Step:
    """An error under status 200, as aggregators write it."""
    return status(200, {"error": {"message": "Provider returned error", "code": code}})


STATUSES: dict[str, tuple[Step, str, int]] = {
    "300": (status(300), "rejected", 1),
    "304": (status(304), "rejected", 1),
    "400": (openai_error(400, "invalid_request"), "rejected", 4),
    "400 with a list": (status(400, ["no"]), "rejected", 4),
    "400 context length": (openai_error(400, "context_length_exceeded"), "too_long", 1),
    "400 of vLLM, too long": (
        openai_error(400, None, "This model's maximum context length is 8 tokens"),
        "too_long",
        1,
    ),
    "401": (openai_error(401, "invalid_api_key"), "authentication", 1),
    "402": (openai_error(402, "insufficient_credits"), "rate_limited", 1),
    "403": (openai_error(403, "forbidden"), "authentication", 1),
    "404": (openai_error(404, "model_not_found"), "rejected", 1),
    "405": (status(405), "rejected", 1),
    "408": (openai_error(408, None), "timeout", 3),
    "409": (openai_error(409, None), "rejected", 3),
    "413": (html_error_page(413), "too_long", 1),
    "418": (status(418), "rejected", 1),
    "422": (openai_error(422, None), "rejected", 4),
    "429": (openai_error(429, "rate_limit_exceeded"), "rate_limited", 3),
    "429 of an unpaid account": (openai_error(429, "insufficient_quota"), "rate_limited", 1),
    "499": (status(499), "rejected", 1),
    "500": (openai_error(500, "internal_error"), "upstream_error", 3),
    "502 html": (html_error_page(502), "upstream_error", 3),
    "503": (openai_error(503, "overloaded"), "upstream_error", 3),
    "504 empty": (status(504), "upstream_error", 3),
    "529": (status(529), "upstream_error", 3),
    "500 of 10 MB": (status(500, b"[" * 10_485_760), "upstream_error", 3),
}
WIRE: dict[str, tuple[Step, str, int]] = {
    "reset before a byte": (reset(), "connection", 3),
    "closed before a byte": (half_close(), "connection", 3),
    "reset mid body": (reset_mid_body(completion(GOOD), 120), "connection", 3),
    "closed mid body": (close_mid_body(completion(GOOD), 120), "connection", 3),
    "bad chunked": (bad_chunked(), "connection", 3),
    "bad gzip": (raw_body(b"no gzip", headers={"content-encoding": "gzip"}), "connection", 3),
}
LATE: dict[str, Step] = {
    "hangs": hang(),
    "head then stall": headers_then_stall(completion(GOOD)),
    "one byte a second": trickle(completion(GOOD), bytes_per_second=1),
    "trickle": trickle(completion(GOOD), bytes_per_second=20),
    "late": delayed(completion(GOOD), 5),
    "late 500": delayed(status(500), 5),
}
BODIES: dict[str, tuple[Scripted, str]] = {
    "broken JSON": (raw_body(b'{"id": "x", "choices": ['), "invalid_reply"),
    "empty body": (raw_body(b""), "invalid_reply"),
    "invalid UTF-8": (raw_body(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'), "invalid_reply"),
    "control characters": (raw_body(b'{"choices": [{"message": {"content": "a\x00\x1f\nb"}}]}'), "invalid_reply"),
    "html with 200": (html_error_page(200), "invalid_reply"),
    "204": (status(204), "invalid_reply"),
    "null": (raw_body(b"null"), "invalid_reply"),
    "a number": (raw_body(b"1e999"), "invalid_reply"),
    "no field": (raw_body(b"{}"), "invalid_reply"),
    "deeply nested": (raw_body(b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "invalid_reply"),
    "lone surrogate": (raw_body(rb'{"choices": [{"message": {"content": "\ud800"}}]}'), "invalid_reply"),
    "choices null": (status(200, {"choices": None}), "invalid_reply"),
    "choices an object": (status(200, {"choices": {}}), "invalid_reply"),
    "message null": (status(200, completion_payload([{"index": 0, "message": None}])), "invalid_reply"),
    "content a list": (with_message(content=["x"]), "invalid_reply"),
    "content a number": (with_message(content=7), "invalid_reply"),
    "error with an unknown code": (with_error("oops"), "upstream_error"),
    "error a text": (status(200, {"error": "no"}), "upstream_error"),
    "error with 400": (with_error(400), "rejected"),
    "error with 401": (with_error(401), "authentication"),
    "no choices": (status(200, completion_payload([])), "empty_reply"),
    "content null": (completion(None), "empty_reply"),
    "content missing": (with_message(role="assistant"), "empty_reply"),
    "content empty": (completion(""), "empty_reply"),
    "content blank": (completion(" \n\t"), "empty_reply"),
    "content null, reasoning_content": (with_message(content=None, reasoning_content="So {it} seems"), "empty_reply"),
    "only thought": (completion(f"<think>{GOOD}</think>"), "empty_reply"),
    "thought without end": (completion(f"<think>{GOOD}"), "empty_reply"),
    "cut while it thought": (completion("<think>well", finish_reason="length"), "truncated_reply"),
    "refusal": (completion(None, refusal="I cannot help with that."), "refused"),
    "refusal beside content": (completion(GOOD, refusal="I cannot help with that."), "refused"),
    "content_filter": (completion(GOOD, finish_reason="content_filter"), "content_filtered"),
    "10 MB": (huge(10_485_760), "invalid_reply"),
    "10 MB chunked": (huge(10_485_760, declares_length=False), "invalid_reply"),
    "gzip bomb": (gzip_bomb(100_000_000), "invalid_reply"),
}
FINE: dict[str, Step] = {
    "plain": completion(GOOD),
    "another content type": wrong_content_type(completion(GOOD), "text/html"),
    "usage missing": completion(GOOD, usage=None),
    "usage negative": with_fields(usage={"prompt_tokens": -1, "completion_tokens": 2}),
    "usage text": with_fields(usage={"prompt_tokens": "12", "completion_tokens": "many"}),
    "usage a list": with_fields(usage=[1, 2]),
    "usage huge": with_fields(usage={"prompt_tokens": 10**40, "completion_tokens": 1e300}),
    "usage true": with_fields(usage={"prompt_tokens": True, "completion_tokens": None}),
    "model a number": with_fields(model=7),
    "choices twice": raw_body(
        b'{"choices": [], "choices": [{"message": {"content": "no", "content": %s}}]}' % json.dumps(GOOD).encode()
    ),
    "reasoning beside content": with_message(content=GOOD, reasoning_content="well"),
    "thought before": completion(f"<think>\nwell</think>\n\n{GOOD}"),
    "five thousand blanks": completion(" " * 5_000 + GOOD + "\n" * 5_000),
    "byte order mark": raw_body(b"\xef\xbb\xbf" + completion(GOOD).body),
    "byte order mark in the content": completion("\ufeff" + GOOD),
    "content in parts": with_message(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": "well"}]}]
        + [{"type": "text", "text": part} for part in (GOOD[:4], GOOD[4:])]
    ),
    "1 MB": completion(" " * 1_000_000 + GOOD),
}


@pytest.mark.parametrize(("step", "reason", "calls"), [*STATUSES.values(), *WIRE.values()], ids=[*STATUSES, *WIRE])
async def test_an_error_status_and_a_broken_connection_have_their_reason_and_their_number_of_calls(
    judge: ScriptedJudge, step: Step, reason: str, calls: int
) -> None:
    judge.reply_with(step)
    ledger = Ledger()

    async with transport(judge) as chat:
        failure = await failure_of(chat, ledger=ledger)

    assert (failure.reason, judge.calls, ledger.usage.calls) == (reason, calls, calls)
    assert len(failure.detail) < 200
    assert failure.detail.startswith("connected to 127.0.0.1:") == (reason == "connection")


@pytest.mark.parametrize("step", LATE.values(), ids=LATE)
async def test_the_deadline_holds_whatever_trickles_in(judge: ScriptedJudge, step: Step) -> None:
    judge.reply_with(step)
    ledger = Ledger()

    async with transport(judge) as chat:
        failure = await failure_of(chat, seconds=0.3, ledger=ledger)

    assert (failure.reason, judge.calls, ledger.usage.calls) == ("timeout", 1, 1)
    await judge.wait_until(lambda: judge.in_flight == 0)


# Others are one: the form is refused thrice, a fault of the server may pass, and an empty reply is asked for again.
CALLS = {"rejected": 4, "upstream_error": 3, "empty_reply": 2, "truncated_reply": 2}


@pytest.mark.parametrize(("step", "reason"), BODIES.values(), ids=BODIES)
async def test_a_reply_that_is_none_has_its_reason_and_its_number_of_calls(
    judge: ScriptedJudge, step: Scripted, reason: str
) -> None:
    judge.reply_with(step)
    ledger = Ledger()

    async with transport(judge) as chat:
        failure = await failure_of(chat, ledger=ledger)

    calls = CALLS.get(reason, 1)
    assert (failure.reason, judge.calls, ledger.usage.calls) == (reason, calls, calls)
    assert failure.detail.startswith("127.0.0.1:")
    assert ledger.usage.prompt_tokens == judge.tokens_served.prompt


@pytest.mark.parametrize("step", FINE.values(), ids=FINE)
async def test_a_reply_with_a_flaw_beside_its_content_is_read(judge: ScriptedJudge, step: Step) -> None:
    judge.reply_with(step)
    ledger = Ledger()

    async with transport(judge) as chat:
        reply = await ask(chat, ledger=ledger)

    assert (reply.content, reply.is_truncated) == (GOOD, False)
    assert ledger.usage.calls == 1
    assert ledger.usage.prompt_tokens >= 0


@pytest.mark.parametrize("code", [429, 500, 502, 503, "502", "rate_limit_exceeded"])
async def test_an_error_under_200_is_retried_as_the_status_it_stands_for(judge: ScriptedJudge, code: object) -> None:
    in_choice = status(200, {"choices": [{"error": {"code": code, "message": "no"}, "finish_reason": "error"}]})
    judge.reply_with(with_error(code), in_choice, completion(GOOD))

    async with transport(judge) as chat:
        reply = await ask(chat)

    assert (reply.content, judge.calls) == (GOOD, 3)


@pytest.mark.parametrize(("finish_reason", "is_truncated"), [("length", True), ("stop", False), ("eos", False)])
async def test_a_cut_reply_is_a_reply_that_says_so(
    judge: ScriptedJudge, finish_reason: str, is_truncated: bool
) -> None:
    judge.reply_with(completion('{"ok": tr', finish_reason=finish_reason))

    async with transport(judge) as chat:
        reply = await ask(chat)

    assert (reply.content, reply.is_truncated) == ('{"ok": tr', is_truncated)


@pytest.mark.parametrize(
    ("served", "told"), [("judge-1-2026-11-01", "judge-1-2026-11-01"), ("a b <script>", MODEL), ("x" * 200, MODEL)]
)
async def test_the_model_that_answered_is_named(judge: ScriptedJudge, served: str, told: str) -> None:
    judge.reply_with(completion(GOOD, model=served))

    async with transport(judge) as chat:
        assert (await ask(chat)).model == told


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(judge: ScriptedJudge, code: int) -> None:
    async with ScriptedJudge() as other, transport(judge) as chat:
        judge.reply_with(redirect(f"{other.base_url}/chat/completions", status=code))

        failure = await failure_of(chat)

        assert (failure.reason, judge.calls) == ("rejected", 1)
        assert (other.calls, other.connections) == (0, 0)


async def test_a_bomb_takes_little_memory(judge: ScriptedJudge) -> None:
    judge.reply_with(gzip_bomb(200_000_000))
    async with transport(judge) as chat:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await failure_of(chat)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert after - before < 32 * 1024  # KiB


async def test_the_bound_on_a_reply_is_exact(judge: ScriptedJudge) -> None:
    async with transport(judge, RetryPolicy(max_reply_bytes=10_000, attempts=1)) as chat:
        judge.reply_with(huge(10_000))
        assert (await failure_of(chat)).reason == "empty_reply"
        judge.reply_with(huge(10_001))
        assert "too large" in (await failure_of(chat)).detail


async def test_a_stale_pooled_connection_costs_no_failure(judge: ScriptedJudge) -> None:
    judge.reply_with(half_close(completion(GOOD)), completion(GOOD))

    async with transport(judge) as chat:
        replies = [(await ask(chat)).content for _ in range(3)]

    assert replies == [GOOD] * 3


@pytest.mark.parametrize("fault", [reset, half_close, lambda: status(500), lambda: status(429)])
async def test_the_next_try_is_enough(judge: ScriptedJudge, fault: Callable[[], Step]) -> None:
    judge.reply_with(fault(), fault(), completion(GOOD))
    ledger = Ledger()

    async with transport(judge) as chat:
        reply = await ask(chat, ledger=ledger)

    assert reply.content == GOOD
    assert judge.calls == ledger.usage.calls == 3
    assert ledger.usage.unmetered_calls == 2


# --- nobody there


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def test_a_refused_connection_is_no_call(closed_port: int) -> None:
    ledger = Ledger()

    async with transport(llm_base_url=f"http://127.0.0.1:{closed_port}/v1") as chat:
        failure = await failure_of(chat, ledger=ledger)

    assert (failure.reason, ledger.usage.calls) == ("connection", 0)


async def test_a_server_that_speaks_no_tls_is_no_call() -> None:
    async def answer_in_plain_text(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer_in_plain_text, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ledger = Ledger()
    async with server, transport(llm_base_url=f"https://127.0.0.1:{port}/v1") as chat:
        failure = await failure_of(chat, ledger=ledger)

    assert (failure.reason, ledger.usage.calls) == ("connection", 0)


async def test_no_time_is_no_call(judge: ScriptedJudge) -> None:
    async with transport(judge) as chat:
        failure = await failure_of(chat, seconds=0.0)

    assert (failure.reason, judge.calls) == ("timeout", 0)


# --- keys


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422, 429, 500])
async def test_what_a_provider_echoes_is_not_passed_on(judge: ScriptedJudge, code: int) -> None:
    def echo(request: RecordedRequest) -> Step:
        key = request.headers["authorization"].removeprefix("Bearer ")
        return openai_error(code, f"bad-{key}", f"Incorrect API key provided: {key}. {request.prompt}")

    judge.reply_with(echo)
    async with transport(judge, PROMPT_RETRIES) as chat:
        failure = await failure_of(chat)
        said = f"{failure!r} {failure.detail} {chat.readiness()} {chat.__dict__}"

    assert "sk-transport" not in said
    assert "Is it so?" not in said


async def test_a_server_that_reads_nothing_holds_up_no_other_call() -> None:
    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(read_nothing, "127.0.0.1", 0, limit=1_024)
    port = server.sockets[0].getsockname()[1]
    long = replace(REQUEST, user="x" * 12_000_000)
    async with transport(llm_base_url=f"http://127.0.0.1:{port}/v1", llm_context_tokens=10_000_000) as chat:
        failures = await asyncio.gather(*(failure_of(chat, seconds=0.5, request=long) for _ in range(3)))
    server.close()

    assert {failure.reason for failure in failures} == {"timeout"}
