"""A judge that sends a share of its replies twice over kept connections, and samples told apart by ids alone."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from plumbline.judging.text.sample import Sample

LATENCY_SECONDS = (0.045, 0.055)
FACTS = tuple(
    f"Crate {letter} weighs {weight} kilograms." for letter, weight in zip("ABCDE", range(41, 46), strict=True)
)
_BODY_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"Question (\d+)")
_DATA = re.compile(r"^BEGIN (\w+)\n(\{.*\})$", re.MULTILINE)


def sample(number: int) -> Sample:
    """One to five of the facts, under a question of its own."""
    return Sample(f"Question {number}: what do the crates weigh?", FACTS, " ".join(FACTS[: 1 + number % len(FACTS)]))


@asynccontextmanager
async def repeating_judge(late_seconds: float | None, share: float) -> AsyncIterator[str]:
    """The address of a judge that sends this share of its replies twice: so late, or (None) with the next request."""
    draw = Random(42)  # noqa: S311 - which replies are sent twice

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept_back = b""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _BODY_LENGTH.search(head)
                body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
                reply = _reply(body["messages"][-1]["content"])
                writer.write(kept_back)
                kept_back = b""
                await asyncio.sleep(draw.uniform(*LATENCY_SECONDS))
                is_sent_twice = draw.random() < share
                writer.write(reply * 2 if is_sent_twice and late_seconds == 0 else reply)
                if is_sent_twice and late_seconds is None:
                    kept_back = reply
                elif is_sent_twice and late_seconds:
                    asyncio.get_running_loop().call_later(late_seconds, _send_again, writer, reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512, limit=1_048_576)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def _send_again(writer: asyncio.StreamWriter, reply: bytes) -> None:
    if not writer.is_closing():
        writer.write(reply)


def _reply(user: str) -> bytes:
    """The verdicts on what the request shows, under its mark and ids; for the reason of each, whose reply it is."""
    found, number = _DATA.search(user), _NUMBER.search(user)
    mark, data = (found[1], json.loads(found[2])) if found else ("", {})
    reason = f"of sample {number[1]}" if number else "of nothing"

    def verdict(text: str) -> dict[str, object]:
        return {"quotes": [text], "reason": reason, "verdict": "supported"}

    name, asked = ("claims", data["claims"]) if "claims" in data else ("sentences", data["answer"])
    said = {"mark": mark, name: [{"id": each["id"], **verdict(each["text"])} for each in asked if "id" in each]}
    message = {"role": "assistant", "content": json.dumps(said)}
    usage = {"prompt_tokens": 2_000, "completion_tokens": 200, "total_tokens": 2_200}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps(
        {"id": "1", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage}
    )
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    return f"{head}{len(body.encode())}\r\n\r\n{body}".encode()
