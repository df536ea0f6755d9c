"""POST /v1/evaluations/batch under way: a bounded number of rows, no further than the reader, none without a reader."""

import asyncio
import json
import socket
from typing import Any

import pytest
import structlog

from plumbline.main import create_app
from tests.running.batch_service import (
    BATCH_URL,
    BUGGY,
    CONTEXT,
    SLOW,
    GatedEncoder,
    Reader,
    post,
    read_lines,
    row,
    settled,
)
from tests.running.service import plain_settings, running, served

EMBEDDING = {"tiers": ["embedding"]}


def slow_rows(count: int) -> list[dict[str, Any]]:
    return [row(f"slow {number}", f"{SLOW} {number} {CONTEXT}") for number in range(count)]


def rows(count: int) -> list[dict[str, Any]]:
    return [row(str(number)) for number in range(count)]


# --- how many at one time


async def test_no_more_rows_are_judged_at_one_time_than_the_setting_says() -> None:
    encoder = GatedEncoder()
    app = create_app(plain_settings(batch_concurrency=4), encoder=encoder)
    async with app.router.lifespan_context(app):
        reader = Reader(app, *slow_rows(20), options=EMBEDDING)
        async with reader.reading():
            assert await settled(encoder) == 4
            encoder.gate.set()
            await reader.take(21)

    assert encoder.most == 4
    assert reader.rows[20]["summary"]["judged"] == 20


async def test_a_reader_that_waits_holds_up_no_other_batch() -> None:
    encoder = GatedEncoder()
    app = create_app(plain_settings(batch_concurrency=2), encoder=encoder)
    async with app.router.lifespan_context(app):
        waiting, quick = (Reader(app, *rows(6), options=EMBEDDING) for _ in range(2))
        async with waiting.reading():
            await settled(encoder)
            async with quick.reading():
                await quick.take(7)

    assert quick.rows[6]["summary"]["judged"] == 6
    assert waiting.pieces == []


# --- the reader's pace


@pytest.mark.parametrize("form", ["ndjson", "array"])
async def test_rows_are_judged_no_further_ahead_than_is_read(form: str) -> None:
    encoder = GatedEncoder()
    app = create_app(plain_settings(batch_concurrency=3), encoder=encoder)
    async with app.router.lifespan_context(app):
        reader = Reader(app, *rows(20), options=EMBEDDING, format=form)
        async with reader.reading():
            # what opens the array, and then three ahead of the row that is being sent
            begun = [await settled(encoder)]
            for _ in range(3):
                await reader.take()
                begun.append(await settled(encoder))

    assert begun == ([3, 4, 5, 6] if form == "ndjson" else [0, 3, 4, 5])


def test_a_socket_that_is_not_read_stops_the_judging() -> None:
    # each result has some 80 kB: the two ends keep a few of them, not all
    answer, buffer = "- ab cd\n" * 200, 65_536
    encoder = GatedEncoder()
    app = create_app(plain_settings(batch_concurrency=2), encoder=encoder)
    sent = {"samples": [row(str(index), answer) for index in range(20)], "options": EMBEDDING, "format": "ndjson"}
    body = json.dumps(sent).encode()
    head = f"POST {BATCH_URL} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with served(app, send_buffer_bytes=buffer) as url, socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        caller.settimeout(20)
        caller.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        caller.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)

        begun = asyncio.run(settled(encoder, pauses=30))
        received = b"".join(iter(lambda: caller.recv(1_048_576), b""))

    assert begun < 20
    assert encoder.begun == 20
    assert b'"rows":20' in received[-2000:]


# --- a caller who leaves


async def test_a_caller_who_leaves_cancels_what_is_under_way() -> None:
    encoder = GatedEncoder()
    app = create_app(plain_settings(batch_concurrency=4), encoder=encoder)
    async with app.router.lifespan_context(app):
        reader = Reader(app, *slow_rows(20), options=EMBEDDING)
        async with reader.reading() as request:
            await settled(encoder)
            reader.leave()
            await request
            assert (encoder.in_flight, encoder.cancelled) == (0, 4)

        assert await settled(encoder) == 4
    assert not reader.is_complete


async def test_what_became_of_a_batch_is_logged_with_its_request() -> None:
    app = create_app(plain_settings(batch_concurrency=4), encoder=GatedEncoder())
    processors = [structlog.contextvars.merge_contextvars]
    async with app.router.lifespan_context(app):
        with structlog.testing.capture_logs(processors) as events:
            whole, cut = Reader(app, *rows(1), 7), Reader(app, *rows(5))
            async with whole.reading():
                await whole.take(3)
            async with cut.reading():
                await cut.take(1)

    ended = [event for event in events if event["event"] == "batch_ended"]
    completed = [event["request_id"] for event in events if event["event"] == "request_completed"]
    assert [(event["is_complete"], event["errors"]) for event in ended] == [(True, 1), (False, 0)]
    assert ended[0]["rows"] == 2
    assert [event["request_id"] for event in ended] == completed


# --- a bug in one row


async def test_a_bug_in_one_row_is_its_own_and_is_logged_without_its_text() -> None:
    encoder = GatedEncoder()
    samples = [row("a"), row("bug", f"{BUGGY} {CONTEXT}"), row("c")]
    with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as events:
        response = await post(*samples, options=EMBEDDING, encoder=encoder)

    rows, summary = read_lines(response)
    by_id = {each["custom_id"]: each for each in rows}
    assert (summary["judged"], summary["errors"]) == (2, 1)
    error = by_id["bug"]["error"]
    assert (error["type"], error["status"]) == ("urn:plumbline:problem:internal", 500)
    (logged,) = [event for event in events if event["event"] == "row_failed"]
    assert logged["error"] == "builtins.ZeroDivisionError"
    assert logged["row"] == 1
    assert logged["request_id"] == response.headers["x-request-id"]
    assert "GatedEncoder.read" in logged["frames"][-1]
    assert "PLANTED" not in response.text + str(events)


async def test_a_row_that_takes_too_long_falls_to_the_next_tier_alone() -> None:
    options = {"tiers": ["embedding", "lexical"], "deadline_seconds": 1.5}
    async with running(plain_settings(), encoder=GatedEncoder()) as client:
        body = {"samples": [*slow_rows(1), *rows(2)], "options": options, "format": "ndjson"}
        response = await client.post(BATCH_URL, json=body)

    answered, summary = read_lines(response)
    assert {each["custom_id"]: each["result"]["tier"] for each in answered} == {
        "slow 0": "lexical",
        "0": "embedding",
        "1": "embedding",
    }
    assert summary["degraded"] == 1
