"""What the real `openai` client makes of each reply and fault that the judge can be scripted to give.

The tiers are built on this, and it moves with the SDK.
"""

import asyncio
import gzip
import json
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.types.chat import ChatCompletion

from tests.doubles.scripted_faults import (
    bad_chunked,
    close_mid_body,
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
    Reply,
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

_MEGABYTE = 1_048_576


@pytest.fixture
async def judge() -> AsyncIterator[ScriptedJudge]:
    async with ScriptedJudge() as judge:
        yield judge


@pytest.fixture
async def client(judge: ScriptedJudge) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(judge) as client:
        yield client


def client_of(judge: ScriptedJudge) -> AsyncOpenAI:
    # Deaf to HTTP_PROXY; and a bare TLS context, as the default one reads the CA bundle: 30 ms a client.
    http_client = DefaultAsyncHttpxClient(trust_env=False, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    return AsyncOpenAI(base_url=judge.base_url, api_key="test-key", max_retries=0, http_client=http_client)


async def ask(client: AsyncOpenAI, text: str = "Is it so?") -> ChatCompletion:
    return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


async def content_of(client: AsyncOpenAI, text: str = "Is it so?") -> str | None:
    return (await ask(client, text)).choices[0].message.content


# --- replies


async def test_a_completion_reaches_the_client_whole(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("yes", usage=(30, 4), model="qwen-plus"))

    reply = await ask(client)

    assert reply.choices[0].message.content == "yes"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.model == "qwen-plus"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (30, 4, 34)


async def test_text_beyond_ascii_survives(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("是的 — “naïve” 🙂"))

    content = await content_of(client)

    assert content == "是的 — “naïve” 🙂"


async def test_a_truncated_reply_says_so(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion('{"verdicts": [', finish_reason="length"))

    reply = await ask(client)

    assert reply.choices[0].finish_reason == "length"


async def test_a_refusal_has_its_own_field(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion(None, refusal="I cannot help with that."))

    message = (await ask(client)).choices[0].message

    assert (message.content, message.refusal) == (None, "I cannot help with that.")


async def test_content_and_usage_can_be_missing(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion(None, usage=None))

    reply = await ask(client)

    assert reply.choices[0].message.content is None
    assert reply.usage is None
    assert judge.tokens_served == (0, 0)


async def test_choices_can_be_empty(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(status(200, completion_payload([])))

    reply = await ask(client)

    assert reply.choices == []


async def test_an_error_object_with_status_200_passes_for_a_completion_without_choices(
    judge: ScriptedJudge, client: AsyncOpenAI
) -> None:
    judge.reply_with(openai_error(200, "internal_error"))

    reply = await ask(client)

    choices: Any = reply.choices
    assert choices is None


async def test_a_wrong_content_type_is_parsed_all_the_same(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(wrong_content_type(completion("yes"), "text/html"))

    content = await content_of(client)

    assert content == "yes"


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        (html_error_page(200), html_error_page(200).body.decode()),
        (raw_body(b"[1]"), [1]),
        (raw_body(b'"yes"'), "yes"),
        (raw_body(b"null"), None),
        (Reply(204, b""), ""),
    ],
    ids=["page", "array", "string", "null", "no content"],
)
async def test_a_success_that_is_no_object_is_returned_as_it_is(
    judge: ScriptedJudge, client: AsyncOpenAI, step: Step, answer: object
) -> None:
    judge.reply_with(step)

    reply: object = await ask(client)

    assert reply == answer


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"choices": [', json.JSONDecodeError),
        (b"", json.JSONDecodeError),
        (b'{"id": "caf\xe9"}', UnicodeDecodeError),
        (b"[" * 100_000, RecursionError),
    ],
    ids=["cut JSON", "no body", "latin-1", "nested too deep"],
)
async def test_a_body_that_cannot_be_read_is_no_openai_error(
    judge: ScriptedJudge, client: AsyncOpenAI, body: bytes, expected: type[Exception]
) -> None:
    judge.reply_with(raw_body(body))

    with pytest.raises(expected):
        await ask(client)


# --- statuses


async def test_a_rate_limit_carries_its_code_and_retry_after(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(openai_error(429, "insufficient_quota", "pay first", headers={"Retry-After": "7"}))

    with pytest.raises(openai.RateLimitError) as caught:
        await ask(client)

    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (openai_error(400, "data_inspection_failed"), openai.BadRequestError),
        (openai_error(401, "invalid_api_key"), openai.AuthenticationError),
        (openai_error(403, None), openai.PermissionDeniedError),
        (openai_error(404, "model_not_found"), openai.NotFoundError),
        (status(402, {"error": "no money"}), openai.APIStatusError),
        (status(408, "slow"), openai.APIStatusError),
        (status(500, "boom"), openai.InternalServerError),
        (html_error_page(502), openai.InternalServerError),
        (status(529, b"\xff"), openai.InternalServerError),
    ],
)
async def test_an_error_status_raises_its_class(
    judge: ScriptedJudge, client: AsyncOpenAI, step: Reply, expected: type[openai.APIStatusError]
) -> None:
    judge.reply_with(step)

    with pytest.raises(openai.APIStatusError) as caught:
        await ask(client)

    assert type(caught.value) is expected
    assert caught.value.status_code == step.status_code


async def test_a_307_makes_the_client_send_the_prompt_elsewhere(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    async with ScriptedJudge() as elsewhere:
        judge.reply_with(redirect(f"{elsewhere.base_url}/chat/completions"))
        elsewhere.reply_with(completion("from elsewhere"))

        content = await content_of(client, "the passage")

        assert content == "from elsewhere"
        assert elsewhere.requests[0].prompt == "the passage"
        assert "authorization" not in elsewhere.requests[0].headers


async def test_a_redirect_is_an_error_to_a_client_that_follows_none(judge: ScriptedJudge) -> None:
    judge.reply_with(redirect(f"{judge.base_url}/chat/completions"))
    stays = httpx2.AsyncClient(follow_redirects=False, trust_env=False)

    async with AsyncOpenAI(base_url=judge.base_url, api_key="k", max_retries=0, http_client=stays) as client:
        with pytest.raises(openai.APIStatusError, match="307"):
            await ask(client)

    assert judge.calls == 1


# --- faults


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (reset(), httpx2.ReadError),
        (reset_mid_body(completion("yes"), 20), httpx2.ReadError),
        (close_mid_body(completion("yes"), 20), httpx2.RemoteProtocolError),
        (half_close(), httpx2.RemoteProtocolError),
        (bad_chunked(), httpx2.RemoteProtocolError),
        (raw_body(b"not gzip", headers={"content-encoding": "gzip"}), httpx2.DecodingError),
        (Reply(200, b"{}", {"content-length": "many"}), httpx2.RemoteProtocolError),
    ],
    ids=["reset", "reset mid body", "close mid body", "half-close", "bad chunked", "bad gzip", "bad length"],
)
async def test_a_fault_of_the_wire_is_a_connection_error(
    judge: ScriptedJudge, client: AsyncOpenAI, step: Step, cause: type[Exception]
) -> None:
    judge.reply_with(step)

    with pytest.raises(openai.APIConnectionError) as caught:
        await ask(client)

    assert type(caught.value) is openai.APIConnectionError
    assert type(caught.value.__cause__) is cause
    assert judge.calls == 1


async def test_a_reset_comes_before_any_byte(judge: ScriptedJudge) -> None:
    judge.reply_with(reset())

    head, body, error = await raw_answer(judge)

    assert (head, body) == (b"", b"")
    assert isinstance(error, ConnectionResetError)


async def test_a_reset_mid_body_delivers_what_comes_before_it(judge: ScriptedJudge) -> None:
    reply = completion("yes")
    judge.reply_with(reset_mid_body(reply, 20))

    head, body, error = await raw_answer(judge)

    assert b"content-length: %d" % len(reply.body) in head
    assert body == reply.body[:20]
    assert isinstance(error, ConnectionResetError)


async def test_a_close_mid_body_is_orderly(judge: ScriptedJudge) -> None:
    reply = completion("yes")
    judge.reply_with(close_mid_body(reply, 20))

    head, body, error = await raw_answer(judge)

    assert b"content-length: %d" % len(reply.body) in head
    assert (body, error) == (reply.body[:20], None)


async def test_a_hang_ends_when_the_client_gives_up(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(hang())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask(client)
    await judge.wait_until(lambda: judge.in_flight == 0)

    assert (judge.calls, judge.abandoned) == (1, 1)


async def test_a_stall_after_the_head_is_a_read_timeout(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(headers_then_stall(completion("yes")))

    with pytest.raises(openai.APITimeoutError):
        await ask(client.with_options(timeout=0.1))


async def test_a_trickle_outlives_a_read_timeout_but_not_a_deadline(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(trickle(completion("yes"), bytes_per_second=1))
    started_seconds = time.monotonic()

    with pytest.raises(TimeoutError):  # the deadline's own; a read timeout would be an APITimeoutError
        async with asyncio.timeout(2.2):
            await ask(client.with_options(timeout=1.5))

    assert time.monotonic() - started_seconds >= 2.0
    await judge.wait_until(lambda: judge.in_flight == 0)
    assert judge.tokens_served == (0, 0)


async def test_a_fast_trickle_arrives(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(trickle(completion("yes"), bytes_per_second=5_000))

    content = await content_of(client)

    assert content == "yes"
    assert judge.tokens_served == (11, 7)


async def test_a_pooled_connection_gone_stale_is_replaced(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(half_close(completion("first")), completion("second"))

    contents = [await content_of(client), await content_of(client)]

    assert contents == ["first", "second"]
    assert judge.connections == 2


async def test_a_gzip_bomb_is_small_on_the_wire_and_large_in_memory(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    bomb = gzip_bomb(_MEGABYTE)
    judge.reply_with(bomb)

    content = await content_of(client)

    assert len(gzip.decompress(bomb.body)) == _MEGABYTE
    assert len(bomb.body) < 2_000
    assert content is not None
    assert content.isspace()


@pytest.mark.parametrize("declares_length", [True, False])
async def test_a_huge_body_is_streamed_whole(
    judge: ScriptedJudge, client: AsyncOpenAI, *, declares_length: bool
) -> None:
    judge.reply_with(huge(4 * _MEGABYTE, declares_length=declares_length))

    response = await client.chat.completions.with_raw_response.create(model="m", messages=[])

    assert len(response.content) == 4 * _MEGABYTE
    assert response.parse().choices[0].finish_reason == "stop"


async def test_a_huge_body_stops_when_the_client_leaves(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(huge(10_000 * _MEGABYTE))

    async with client.chat.completions.with_streaming_response.create(model="m", messages=[]) as response:
        assert response.status_code == 200
    await judge.wait_until(lambda: judge.in_flight == 0)

    assert judge.abandoned == 1


async def raw_answer(judge: ScriptedJudge) -> tuple[bytes, bytes, BaseException | None]:
    """Head, body and the error at the end of what the judge puts on the wire."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(judge.base_url).port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    received, error = b"", None
    try:
        while block := await reader.read(_MEGABYTE):
            received += block
    except ConnectionError as caught:
        error = caught
    writer.transport.abort()
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body, error
