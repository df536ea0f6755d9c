"""How many replies of other samples a judge's reader accepts where the judge sends some of its replies twice.

    python benchmarks/foreign_replies.py [--calls 1000] [--concurrency 64]

The judge, in a process of its own, speaks HTTP/1.1 on kept connections and sends 6 % of its replies a second time: in
one run at once, in one 10 ms later, in one as soon as it has read the next request on the connection, which on a slow
machine comes after those 10 ms. Samples differ in nothing that a reply could be told by but the request's
ids: one text, one to five sentences of it, and the number of the sample in the question, which the judge repeats as the
reason of every verdict. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.main import create_app
from tests.running.judge_process import served_apart

SENT_TWICE = 0.06
LATE_SECONDS = {"at once": 0.0, "10 ms late": 0.01, "with the next request": None}
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


async def figures(base_url: str, calls: int, concurrency: int) -> dict[str, object]:
    """Score so many samples, and count by their reasons whose replies they were scored by."""
    settings = Settings.model_validate(
        {
            "llm_provider": "generic", "llm_base_url": base_url, "llm_model": "judge-1", "cache_ttl_seconds": 0,
            "warm_up": False, "llm_controls": False, "llm_max_concurrency": concurrency,
        }
    )  # fmt: skip
    app = create_app(settings)
    counts: Counter[str] = Counter()
    turn = asyncio.Semaphore(concurrency)

    async with app.router.lifespan_context(app):
        scorer = app.state.service.scorer

        async def score(number: int) -> None:
            async with turn:
                result = await scorer.score(sample(number), JudgeOptions(tiers=(TierName.LLM,)))
            counts["calls"] += result.usage.calls
            if result.tier != "llm":
                counts[f"failed: {result.attempts[0].detail}"] += 1
                return
            foreign = [claim.reason != f"of sample {number}" for claim in result.claims]
            counts["right" if not any(foreign) else "whole_of_another" if all(foreign) else "part_of_another"] += 1

        # The first call imports and connects.
        await score(0)
        started = time.perf_counter()
        await asyncio.gather(*map(score, range(1, calls)))
    return {**counts, "seconds": round(time.perf_counter() - started, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000, help="samples of each run")
    parser.add_argument("--concurrency", type=int, default=64)
    options = parser.parse_args()
    configure_logging("ERROR")
    found = {}
    for name, late_seconds in LATE_SECONDS.items():
        with served_apart(_serve, late_seconds) as pipe:
            found[name] = asyncio.run(figures(pipe.recv(), options.calls, options.concurrency))
    print(json.dumps(found))


@asynccontextmanager
async def repeating_judge(late_seconds: float | None, share: float = SENT_TWICE) -> AsyncIterator[str]:
    """The address of a judge that sends this share of its replies twice, the second time so late; None: see above."""
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


def _serve(pipe: Connection, late_seconds: float | None) -> None:
    async def run() -> None:
        async with repeating_judge(late_seconds) as base_url:
            pipe.send(base_url)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


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


if __name__ == "__main__":
    main()
