"""How close tier `llm` comes to the ideal, against a scripted judge in a process of its own.

    python benchmarks/judge_throughput.py [--concurrency 64] [--rounds 5]

By turns the transport alone and whole samples (5 contexts and an answer of 3 sentences through `Scorer.score`), 1,000
each with so many under way against 200 ms of latency; then a batch under a budget of requests a minute whose provider
refuses one call in 20 all the same. The last line is one JSON object. `waited_for_core` says how long our process stood
in line for a processor, on Linux: where that is more than a few hundredths of a second the wall clock says nothing.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.backends.chat_models import FailoverChatModel, build_chat_models
from app.exchange import ChatRequest, Ledger
from app.generation.sample import Sample
from app.main import create_app
from app.scoring import Options
from app.settings import Settings
from tests.scripted_judge import ScriptedJudge
from tests.scripted_replies import RecordedRequest, Step, completion, openai_error

CALLS, LATENCY_SECONDS = 1_000, 0.2
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
                return completion(reply_to(request), delay_seconds=latency_seconds, usage=(2_000, 200))

            judge.reply_with(step)
            pipe.send(judge.base_url)
            await asyncio.to_thread(pipe.recv)
            pipe.send((judge.max_in_flight, [request.arrived_seconds for request in judge.requests]))

    asyncio.run(run())


def reply_to(request: RecordedRequest) -> str:
    """Every sentence of the answer is supported, and quoted from its context."""
    data = re.search(r"^\{.*\}$", request.json["messages"][1]["content"], re.MULTILINE)
    if data is None:
        return REPLY
    contexts = {context["text"]: context["id"] for context in json.loads(data[0])["contexts"]}
    return json.dumps(
        {
            "sentences": [
                {
                    "id": sentence["id"],
                    "claims": [
                        {
                            "claim": sentence["text"],
                            "context_ids": [contexts[sentence["text"]]],
                            "quotes": [sentence["text"]],
                            "derived": False,
                            "reason": "The context says so.",
                            "verdict": "supported",
                        }
                    ],
                }
                for sentence in json.loads(data[0])["answer"]
            ]
        }
    )


def sample(number: int) -> Sample:
    """Five contexts of a sentence each, and an answer that repeats three of them."""
    contexts = tuple(
        f"Fact {number}-{k} is that item {k} weighs {k + number} kilograms and was made in {1900 + k}."
        for k in range(5)
    )
    return Sample("What?", contexts, " ".join(contexts[:3]))


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


async def measured(calls: int, seconds: float, base_url: str, **knobs: int) -> tuple[float, int, Ledger]:
    """As `batch`, after a call that warms it up."""
    settings = Settings.model_validate(
        {"llm_provider": "generic", "llm_base_url": base_url, "llm_model": "judge-1", **knobs}
    )
    chat = build_chat_models(settings)["default"]
    await batch(chat, 1, seconds)
    measured = await batch(chat, calls, seconds)
    await chat.close()
    return measured


def waited_for_core() -> float:
    """Seconds that this thread stood ready to run, and did not."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


async def timed(call: Callable[[int], Awaitable[object]], concurrency: int) -> dict[str, float]:
    """The figures of `CALLS` calls with so many under way."""
    turn = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        async with turn:
            await call(number)

    before, cpu, waited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), waited_for_core()
    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(CALLS)))
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "ratio_to_ideal": seconds / (CALLS / concurrency * LATENCY_SECONDS),
        "cpu_ms_each": (time.process_time() - cpu) / CALLS * 1000,
        "waited_for_core": waited_for_core() - waited,
        "grown_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


async def by_turns(base_url: str, concurrency: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """The rounds of the transport and of whole samples."""
    settings = Settings.model_validate(
        {
            "llm_provider": "generic",
            "llm_base_url": base_url,
            "llm_model": "judge-1",
            "llm_max_concurrency": concurrency,
            "cache_ttl_seconds": 0,
            "warm_up": False,
        }
    )
    chat = build_chat_models(settings)["default"]
    app = create_app(settings)

    async def ask(number: int) -> None:
        await chat.complete(REQUEST, seconds=60.0, ledger=Ledger())

    found: dict[str, list[dict[str, float]]] = {"transport": [], "whole": []}
    async with app.router.lifespan_context(app):
        scorer = app.state.service.scorer

        async def score(number: int) -> None:
            result = await scorer.score(sample(number), Options(None, 0.5, 60.0))
            assert (result.tier, result.scores.faithfulness, result.usage.calls) == ("llm", 1.0, 1)

        # As `plumbline serve` does: what is loaded is not walked again.
        gc.collect()
        gc.freeze()
        for number in range(rounds + 1):
            for name, call in (("transport", ask), ("whole", score)):
                figures = await timed(call, concurrency)
                # The first opens the connections.
                if number:
                    found[name].append(figures)
                    print(number, name, {key: round(value, 3) for key, value in figures.items()})
    await chat.close()
    return found


def throughput(concurrency: int, rounds: int) -> dict[str, object]:
    """The first runs: of each figure the least and the median."""
    with judge_process(LATENCY_SECONDS, 0) as (base_url, pipe):
        found = asyncio.run(by_turns(base_url, concurrency, rounds))
        pipe.send("stop")
        max_in_flight, _ = pipe.recv()
    return {
        "concurrency": concurrency,
        "rounds": rounds,
        "max_in_flight": max_in_flight,
        **{
            name: {
                key: [round(min(values), 3), round(median(values), 3)]
                for key in figures[0]
                if (values := [each[key] for each in figures])
            }
            for name, figures in found.items()
        },
    }


def limited() -> dict[str, float]:
    """The run under a budget."""
    with judge_process(0.05, 20) as (base_url, pipe):
        elapsed, failed, ledger = asyncio.run(measured(RPM_CALLS, 120.0, base_url, llm_rpm=RPM))
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
    parser = argparse.ArgumentParser(description="Throughput of tier llm against a scripted judge.")
    parser.add_argument("--concurrency", type=int, default=64, help="calls under way (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of 1,000 calls each (default: %(default)s)")
    options = parser.parse_args()
    print(json.dumps({"throughput": throughput(options.concurrency, options.rounds), "limited": limited()}))


if __name__ == "__main__":
    main()
