"""How close the transport of tier `llm` comes to the ideal, against a scripted judge in a process of its own.

    python benchmarks/judge_throughput.py

Two runs: 1,000 calls with at most 64 under way against 200 ms of latency; and a batch under a budget of requests a
minute whose provider refuses one call in 20 all the same. The last line is one JSON object.
"""

import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.backends.chat_models import FailoverChatModel, build_chat_models
from app.exchange import ChatRequest, Ledger
from app.settings import Settings
from tests.scripted_judge import ScriptedJudge
from tests.scripted_replies import RecordedRequest, Step, completion, openai_error

CALLS, CONCURRENCY, LATENCY_SECONDS = 1_000, 64, 0.2
RPM, RPM_CALLS = 3_000, 500
REQUEST = ChatRequest(
    system="You check whether sentences are supported. Answer in JSON. " * 40,
    user="The Marlow Bridge was opened in 1931. " * 200,
    schema_name="verdict",
    schema={},
    max_output_tokens=1024,
)
REPLY = json.dumps({"sentences": [{"id": i, "claims": [{"verdict": "supported"}]} for i in range(20)]})


def serve(pipe: Connection, latency_seconds: float, refused_every: int) -> None:
    """A scripted judge until the pipe says so; sends its address, then the times at which requests arrived."""

    async def run() -> None:
        async with ScriptedJudge() as judge:

            def step(request: RecordedRequest) -> Step:
                if refused_every and judge.calls % refused_every == 0:
                    return openai_error(429, "limit_requests")
                return completion(REPLY, delay_seconds=latency_seconds, usage=(2_000, 200))

            judge.reply_with(step)
            pipe.send(judge.base_url)
            await asyncio.to_thread(pipe.recv)
            pipe.send((judge.max_in_flight, [request.arrived_seconds for request in judge.requests]))

    asyncio.run(run())


@contextmanager
def judge_process(latency_seconds: float, refused_every: int) -> Iterator[tuple[str, Connection]]:
    """The address of a judge, and the pipe to ask it what it saw."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, latency_seconds, refused_every))
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        process.join(5)
        process.terminate()


async def batch(chat: FailoverChatModel, calls: int, seconds: float) -> tuple[float, int, Ledger]:
    """Seconds that the calls took together, how many failed, and what they used."""
    ledger = Ledger()
    started = time.perf_counter()
    results = await asyncio.gather(
        *(chat.complete(REQUEST, seconds=seconds, ledger=ledger) for _ in range(calls)), return_exceptions=True
    )
    return time.perf_counter() - started, sum(isinstance(result, BaseException) for result in results), ledger


async def measured(calls: int, seconds: float, base_url: str, **knobs: int) -> tuple[float, int, Ledger, float]:
    """As `batch`, and how many MiB the process grew, after a few calls that warm it up."""
    settings = Settings.model_validate(
        {"llm_provider": "generic", "llm_base_url": base_url, "llm_model": "judge-1", **knobs}
    )
    chat = build_chat_models(settings)["default"]
    await batch(chat, 1, seconds)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    elapsed, failed, ledger = await batch(chat, calls, seconds)
    await chat.close()
    return elapsed, failed, ledger, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def throughput() -> dict[str, float]:
    """The first run."""
    with judge_process(LATENCY_SECONDS, 0) as (base_url, pipe):
        elapsed, failed, ledger, grown = asyncio.run(measured(CALLS, 60.0, base_url, llm_max_concurrency=CONCURRENCY))
        pipe.send("stop")
        max_in_flight, times = pipe.recv()
    ideal = CALLS / CONCURRENCY * LATENCY_SECONDS
    assert (failed, ledger.usage.calls, len(times)) == (0, CALLS, CALLS + 1)
    return {
        "seconds": round(elapsed, 3),
        "ratio_to_ideal": round(elapsed / ideal, 3),
        "max_in_flight": max_in_flight,
        "grown_mib": round(grown, 1),
    }


def limited() -> dict[str, float]:
    """The second run."""
    with judge_process(0.05, 20) as (base_url, pipe):
        elapsed, failed, ledger, _ = asyncio.run(measured(RPM_CALLS, 120.0, base_url, llm_rpm=RPM))
        pipe.send("stop")
        _, times = pipe.recv()
    most = max(sum(first <= time < first + 1 for time in times) for first in times)
    return {
        "calls": RPM_CALLS,
        "lost": failed,
        "requests": len(times),
        "seconds": round(elapsed, 2),
        "mean_rpm_seen": round((len(times) - 1) / (times[-1] - times[0]) * 60, 1),
        "budget_rpm": RPM,
        "most_in_one_second": most,
        "unmetered": ledger.usage.unmetered_calls,
    }


def main() -> None:
    print(json.dumps({"throughput": throughput(), "limited": limited()}))


if __name__ == "__main__":
    main()
