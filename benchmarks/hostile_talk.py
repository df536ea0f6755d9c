"""One attack over a connection of its own, and what is wrong with what came back."""

import asyncio
import json
import socket
import struct
from typing import NamedTuple

from benchmarks.hostile_requests import CUT, Attack

_SECONDS = 60.0
# With SO_LINGER on and 0 seconds, close() sends a RST in place of a FIN: socket(7).
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Answer(NamedTuple):
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


async def attacked(port: int, attack: Attack) -> str:
    """What is wrong with the answers; empty where nothing is."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await _attacked(port, attack)
    except TimeoutError:
        return f"no end in {_SECONDS:g} s"


async def _attacked(port: int, attack: Attack) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        if attack.leaves_after is not None:
            await _send(writer, attack)
            begun = await reader.readexactly(attack.leaves_after)
            sent: socket.socket = writer.get_extra_info("socket")
            sent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
            return "" if not begun or begun.startswith(b"HTTP/1.1 200 ") else f"began with {begun[:40]!r}"
        sending = asyncio.create_task(_send(writer, attack))
        try:
            wrongs = [_wrong(attack, await _answer(reader)) for _ in range(attack.answers)]
        finally:
            # Whoever has an answer sends no more of the request.
            sending.cancel()
        return next(filter(None, wrongs), "")
    finally:
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, attack: Attack) -> None:
    try:
        for number, piece in enumerate(attack.pieces):
            if number:
                await asyncio.sleep(attack.pause)
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        # It was answered and closed meanwhile; the answer may still be read.
        return


async def _answer(reader: asyncio.StreamReader) -> Answer:
    status = 100
    try:
        while status == 100:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            status = int(first.split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "content-length" in headers:
            return Answer(status, headers, await reader.readexactly(int(headers["content-length"])))
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, await reader.readuntil(b"0\r\n\r\n"))
        return Answer(status, headers, await reader.read())
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer(CUT, {}, b"")


def _wrong(attack: Attack, answer: Answer) -> str:
    if answer.status not in attack.statuses:
        return f"{answer.status} for {sorted(attack.statuses)}: {answer.body[:200]!r}"
    if "set-cookie" in answer.headers:
        return "a header of the caller's in the answer"
    if answer.status >= 400 and attack.is_ours:
        return wrong_problem(answer.status, answer.headers, answer.body)
    return ""


def wrong_problem(status: int, headers: dict[str, str], body: bytes) -> str:
    """What keeps a refusal from being a problem as RFC 9457 has it; empty where nothing does."""
    if headers.get("content-type") != "application/problem+json":
        return f"{status} as {headers.get('content-type')}"
    problem = json.loads(body)
    if problem["status"] != status or not problem["type"].startswith("urn:plumbline:problem:"):
        return f"{status} with a problem of {problem['status']} {problem['type']}"
    return "" if problem["request_id"] == headers.get("x-request-id") else "another request id"
