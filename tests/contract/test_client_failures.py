"""What the client makes of a service that is away, busy, slow, cut off or another one."""

import asyncio
import gzip
import json
import re
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.client import (
    AccessRefused,
    AnswerUnreadable,
    AsyncPlumbline,
    Busy,
    ClientClosed,
    NotReached,
    NotThere,
    Plumbline,
    Refused,
    RequestRefused,
    Retries,
    ServiceFailed,
    TimedOut,
)
from plumbline.ground.errors import ConfigurationError, InvalidInput
from plumbline.ground.version import VERSION
from plumbline.schemas.result_parts import NO_USAGE
from tests.doubles.scripted_service import (
    NDJSON,
    Answer,
    ScriptedService,
    in_turn,
    json_answer,
    problem,
    result_of,
    scripted,
)

SAMPLE: dict[str, Any] = {"contexts": ["It is so."], "answer": "It is so."}
AT_ONCE = Retries(attempts=3, backoff_seconds=0.0)
GOOD = json_answer(result_of("q1"))


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    async with ScriptedService(in_turn(GOOD)) as service:
        yield service


async def test_only_what_was_given_is_sent(service: ScriptedService, client: AsyncPlumbline) -> None:
    result = await client.evaluate(id="q1", **SAMPLE, tiers=["lexical"])

    assert result.id == "q1"
    [asked] = service.asked
    assert (asked.method, asked.path) == ("POST", "/v1/evaluations")
    assert asked.json == {"id": "q1", **SAMPLE, "tiers": ["lexical"]}
    assert "authorization" not in asked.headers


async def test_the_key_is_the_callers_or_the_environments(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_API_KEY", "key-of-the-environment")
    for key in (None, "key-of-the-caller", ""):
        async with AsyncPlumbline(service.url, key) as client:
            await client.evaluate(**SAMPLE)

    sent = [asked.headers.get("authorization") for asked in service.asked]
    assert sent == ["Bearer key-of-the-environment", "Bearer key-of-the-caller", None]


async def test_the_address_is_the_callers_or_the_environments(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_URL", f"{service.url}/of-the-environment")
    for url in (None, f"{service.url}/of-the-caller"):
        async with AsyncPlumbline(url) as client:
            await client.evaluate(**SAMPLE)

    sent = [asked.path for asked in service.asked]
    assert sent == ["/of-the-environment/v1/evaluations", "/of-the-caller/v1/evaluations"]


@pytest.mark.parametrize("client", [Plumbline, AsyncPlumbline])
@pytest.mark.parametrize("empty", ["", "  "])
def test_without_an_address_both_ways_to_give_it_are_named(
    client: type[Plumbline | AsyncPlumbline], empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_URL", empty)

    with pytest.raises(ConfigurationError, match=r"base_url.* or set PLUMBLINE_URL"):
        client()


def test_one_client_serves_two_event_loops() -> None:
    with scripted(in_turn(GOOD)) as service:
        client = AsyncPlumbline(service.url)

        async def ask() -> str | None:
            return (await client.evaluate(**SAMPLE)).id

        async def ask_and_close() -> str | None:
            async with client:
                return await ask()

        assert [asyncio.run(work()) for work in (ask, ask, ask_and_close, ask_and_close)] == ["q1"] * 4


async def test_a_compressed_answer_is_read(service: ScriptedService, client: AsyncPlumbline) -> None:
    service.script = in_turn(Answer([gzip.compress(GOOD.pieces[0])], headers={"content-encoding": "gzip"}))

    assert (await client.evaluate(**SAMPLE)).id == "q1"
    assert "gzip" in service.asked[0].headers["accept-encoding"]


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
async def test_what_may_pass_is_asked_again(service: ScriptedService, client: AsyncPlumbline, status: int) -> None:
    service.script = in_turn(problem(status, headers={"retry-after": "0"}), Answer(status=status), GOOD)

    assert (await client.evaluate(**SAMPLE)).id == "q1"
    assert len(service.asked) == 3
    assert len({asked.body for asked in service.asked}) == 1


@pytest.mark.parametrize("is_begun", [True, False])
async def test_a_cut_answer_is_asked_for_again(
    service: ScriptedService, client: AsyncPlumbline, is_begun: bool
) -> None:
    service.script = in_turn(Answer([GOOD.pieces[0][:40]], status=200 * is_begun, is_cut=True), GOOD)

    assert (await client.evaluate(**SAMPLE)).id == "q1"
    assert len(service.asked) == 2


async def test_attempts_are_bounded_and_the_last_failure_is_told(
    service: ScriptedService, client: AsyncPlumbline
) -> None:
    service.script = in_turn(problem(503, "store-unavailable", "the disk is full", headers={"retry-after": "0"}))

    with pytest.raises(Busy) as caught:
        await client.evaluate(**SAMPLE)

    assert len(service.asked) == AT_ONCE.attempts
    assert (caught.value.status, caught.value.retry_after) == (503, None)


async def test_a_limit_that_holds_for_hours_is_told_at_once(service: ScriptedService) -> None:
    service.script = in_turn(problem(429, "concurrency-exceeded", "until midnight", headers={"retry-after": "40000"}))
    async with AsyncPlumbline(service.url) as client:
        with pytest.raises(Busy) as caught:
            await client.evaluate(**SAMPLE)

    assert len(service.asked) == 1
    assert (caught.value.type, caught.value.retry_after) == ("urn:plumbline:problem:concurrency-exceeded", 40_000.0)


async def test_a_problem_is_told_in_all_its_parts(service: ScriptedService, client: AsyncPlumbline) -> None:
    wrong = {"pointer": "/answer", "detail": "Field required"}
    service.script = in_turn(problem(422, "validation", "1 problem in the request", errors=[wrong]))

    with pytest.raises(RequestRefused) as caught:
        await client.evaluate(**SAMPLE)

    error = caught.value
    assert len(service.asked) == 1
    assert (error.status, error.type, error.title) == (422, "urn:plumbline:problem:validation", "A title")
    assert (error.detail, error.request_id) == ("1 problem in the request", "r-1")
    assert [each.model_dump() for each in error.errors] == [wrong]
    assert str(error) == "422 A title: 1 problem in the request [/answer: Field required] (request r-1)"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestRefused),
        (401, AccessRefused),
        (403, AccessRefused),
        (404, NotThere),
        (413, RequestRefused),
        (500, ServiceFailed),
        (501, ServiceFailed),
    ],
)
async def test_what_will_not_pass_is_asked_once(
    service: ScriptedService, client: AsyncPlumbline, status: int, kind: type[Refused]
) -> None:
    service.script = in_turn(problem(status))

    with pytest.raises(Refused) as caught:
        await client.evaluate(**SAMPLE)

    assert type(caught.value) is kind
    assert len(service.asked) == 1


async def test_something_in_between_is_told_from_the_service(service: ScriptedService, client: AsyncPlumbline) -> None:
    service.script = in_turn(Answer([b"<h1>No</h1>"], 403, "text/html"))

    with pytest.raises(AccessRefused, match=r"403 Forbidden: .*something in between") as caught:
        await client.evaluate(**SAMPLE)

    assert caught.value.type == "about:blank"
    assert not caught.value.is_ours


async def test_a_redirect_is_not_followed_and_the_key_goes_nowhere(service: ScriptedService) -> None:
    async with ScriptedService(in_turn(GOOD)) as other:
        service.script = in_turn(Answer(status=307, headers={"location": f"{other.url}/v1/evaluations"}))
        async with AsyncPlumbline(service.url, "key-of-the-caller") as client:
            with pytest.raises(Refused, match="give that one as base_url"):
                await client.evaluate(**SAMPLE)

    assert other.asked == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"id": null}', b"\xff", b'{"id": NaN}'])
async def test_garbage_is_no_result(service: ScriptedService, client: AsyncPlumbline, body: bytes) -> None:
    service.script = in_turn(Answer([body] if body else []))

    with pytest.raises(AnswerUnreadable, match="no EvaluationResult of this service"):
        await client.evaluate(**SAMPLE)

    assert len(service.asked) == 1


OLD_RESULTS = [json.loads(line)["result"] for line in Path("tests/data/old_results.jsonl").read_text().splitlines()]
BOTH_VERSIONS = rf"the service is Plumbline 0\.2 or older, and this client {re.escape(VERSION)} .*pip install"


@pytest.mark.parametrize("result", OLD_RESULTS)
async def test_a_service_of_an_older_shape_is_named_once(
    service: ScriptedService, client: AsyncPlumbline, result: dict[str, Any]
) -> None:
    row = json.dumps({"custom_id": "q0", "index": 0, "result": result}).encode()
    service.script = in_turn(json_answer(result), Answer([row + b"\n"], media_type=NDJSON))

    with pytest.raises(AnswerUnreadable, match=BOTH_VERSIONS):
        await client.evaluate(**SAMPLE)
    with pytest.raises(AnswerUnreadable, match=BOTH_VERSIONS):
        [row async for row in client.evaluate_many([{"custom_id": "q0", **SAMPLE}])]

    assert len(service.asked) == 2


async def test_what_a_newer_service_adds_is_left_out(service: ScriptedService, client: AsyncPlumbline) -> None:
    usage = {**NO_USAGE.model_dump(), "joules": 3}
    service.script = in_turn(json_answer({**result_of("q1"), "mood": "good", "trace": {"usage": usage}}))

    assert (await client.evaluate(**SAMPLE)).id == "q1"


async def test_a_service_that_is_slow_is_given_up(service: ScriptedService) -> None:
    service.script = in_turn(Answer(status=0, is_held=True))
    async with AsyncPlumbline(service.url, timeout=0.05, retries=AT_ONCE) as client:
        with pytest.raises(TimedOut, match=r"127\.0\.0\.1:[0-9]+ did not answer in time"):
            await client.evaluate(**SAMPLE)

    assert len(service.asked) == AT_ONCE.attempts


async def test_a_service_that_is_away_is_named(service: ScriptedService) -> None:
    async with ScriptedService(in_turn(GOOD)) as gone:
        url = gone.url
    async with AsyncPlumbline(url, retries=AT_ONCE) as client:
        with pytest.raises(NotReached, match=r"127\.0\.0\.1:[0-9]+ cannot be reached"):
            await client.evaluate(**SAMPLE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"contexts": "one text"}, "/contexts: "),
        ({"answer": 5}, "/answer: "),
        ({"tiers": ["vector"]}, "/tiers/0: "),
        ({"threshold": 2.0}, "/threshold: "),
        ({"colour": "red"}, "/colour: "),
        ({"answer": "\ud800"}, "surrogate"),
    ],
)
async def test_what_cannot_be_asked_is_named_and_not_sent(
    service: ScriptedService, client: AsyncPlumbline, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await client.evaluate(**{**SAMPLE, **fields})

    assert service.asked == []


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://u:p@host", "http://h/?a=1", "ht tp:"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        AsyncPlumbline(url)


def test_a_key_that_no_header_can_hold_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        AsyncPlumbline("http://127.0.0.1", "geheim\nx: y")

    assert "geheim" not in str(caught.value)


def test_without_asyncio_it_is_the_same() -> None:
    with scripted(in_turn(problem(503), GOOD)) as service, Plumbline(service.url, retries=AT_ONCE) as client:
        assert client.evaluate(**SAMPLE).id == "q1"
        service.script = in_turn(problem(404))
        with pytest.raises(NotThere):
            client.evaluate(**SAMPLE)


async def test_without_asyncio_it_works_where_a_loop_runs(service: ScriptedService) -> None:
    with scripted(in_turn(GOOD)) as other, Plumbline(other.url) as client:
        assert client.evaluate(**SAMPLE).id == "q1"


def test_a_closed_client_says_so() -> None:
    client = Plumbline("http://127.0.0.1")
    client.close()
    client.close()

    with pytest.raises(ClientClosed):
        client.evaluate(**SAMPLE)
    with pytest.raises(ClientClosed):
        next(client.evaluate_many([SAMPLE]))


def test_a_closed_client_is_opened_again_by_a_context() -> None:
    with scripted(in_turn(GOOD)) as service:
        client = Plumbline(service.url)
        for _ in range(2):
            with client:
                assert client.evaluate(**SAMPLE).id == "q1"


@pytest.mark.parametrize("is_many", [True, False])
def test_closing_a_client_ends_those_that_wait_for_it(is_many: bool) -> None:
    with scripted(in_turn(Answer(status=0, is_held=True))) as service:
        client = Plumbline(service.url)
        closing = threading.Thread(target=_close_when_asked, args=(client, service))
        closing.start()
        with pytest.raises(ClientClosed):
            next(client.evaluate_many([SAMPLE])) if is_many else client.evaluate(**SAMPLE)
        closing.join()


def _close_when_asked(client: Plumbline, service: ScriptedService) -> None:
    while not service.asked:
        time.sleep(0.002)
    client.close()
