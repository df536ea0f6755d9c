"""How close tier `llm` comes to the ideal, against a judge of 200 ms in a process of its own, and what a call costs.

    python benchmarks/judge.py [--rounds 5] [--concurrency 64 256]

By turns the transport alone and whole samples (5 contexts and an answer of 3 sentences through `Scorer.score`), 1,000
each at 64 under way and 4,000 at 256, so that a run has as many waves; then a batch under a budget of requests a minute
whose provider refuses one call in 20 all the same. The ideal is calls / concurrency * latency. The last line is one
JSON object. `waited_for_core` says how long our process stood in line for a processor, on Linux: where that is more
than a few hundredths of a second the clock says nothing.
"""

import argparse
import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.judge_server import SAMPLES, JudgeServer, judge_server, sample
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.ports.exchange import ChatRequest, Ledger
from plumbline.judging.tiers.tier import JudgeOptions
from plumbline.main import create_app
from plumbline.models.chat.chat_models import FailoverChatModel, build_chat_models

LATENCY_SECONDS = 0.2
# Of each of the calls under way, one after another: 1,000 at 64.
CALLS_EACH = 1_000 / 64
RPM, RPM_CALLS = 3_000, 500
REQUEST = ChatRequest(
    system="You check whether sentences are supported. Answer in JSON. " * 40,
    user="The Marlow Bridge was opened in 1931. " * 200,
    schema_name="verdict",
    schema={},
    max_output_tokens=1024,
)
Call = Callable[[int], Awaitable[object]]
Figures = dict[str, float]


def waited_for_core() -> float:
    """Seconds that this thread stood ready to run, and did not."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def settings_for(judge: JudgeServer, **knobs: object) -> Settings:
    """Those of a service whose only judge is this one."""
    return Settings.model_validate(
        {
            "llm_provider": "generic",
            "llm_base_url": judge.base_url,
            "llm_model": "judge-1",
            "cache_ttl_seconds": 0,
            "warm_up": False,
            # It supports whatever it reads.
            "llm_controls": False,
            **knobs,
        }
    )


@asynccontextmanager
async def calls_of(settings: Settings) -> AsyncIterator[dict[str, Call]]:
    """What is measured: a call, and a sample."""
    chat = build_chat_models(settings)["default"]
    app = create_app(settings)

    async def ask(number: int) -> None:
        await chat.complete(REQUEST, seconds=60.0, ledger=Ledger())

    async with app.router.lifespan_context(app):
        scorer = app.state.service.scorer

        async def score(number: int) -> None:
            result = await scorer.score(sample(number), JudgeOptions(None, 0.5, 60.0))
            assert (result.tier, result.scores.faithfulness, result.usage.calls) == ("llm", 1.0, 1)

        yield {"transport": ask, "whole": score}
    await chat.close()


async def timed(call: Call, concurrency: int, judge: JudgeServer, count: int) -> Figures:
    """The figures of so many calls with so many under way."""
    turn = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        async with turn:
            await call(number % SAMPLES)

    await asyncio.to_thread(judge.seen)
    memory, cpu, waited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), waited_for_core()
    started = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(count)))
    seconds = time.perf_counter() - started
    figures = {
        "seconds": seconds,
        "ratio_to_ideal": seconds / (count / concurrency * LATENCY_SECONDS),
        "cpu_ms_each": (time.process_time() - cpu) / count * 1_000,
        "waited_for_core": waited_for_core() - waited,
        "grown_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024,
    }
    seen = await asyncio.to_thread(judge.seen)
    return {**figures, "judge_cpu_ms_each": seen.cpu_ms_each, "in_flight": float(seen.most_in_flight)}


async def one_round(judge: JudgeServer, concurrency: int) -> dict[str, Figures]:
    """The figures of one round, after calls that open the connections."""
    async with calls_of(settings_for(judge, llm_max_concurrency=concurrency)) as calls:
        # As `plumbline serve` does: what is loaded is not walked again.
        gc.collect()
        gc.freeze()
        found = {}
        for name, call in calls.items():
            await timed(call, concurrency, judge, 2 * concurrency)
            found[name] = await timed(call, concurrency, judge, round(CALLS_EACH * concurrency))
        gc.unfreeze()
        return found


def by_turns(concurrencies: list[int], rounds: int) -> dict[str, dict[str, Figures]]:
    """The median of each figure, for each number under way and kind of call."""
    found: dict[str, list[Figures]] = {}
    with judge_server(LATENCY_SECONDS) as judge:
        for number in range(rounds):
            for concurrency in concurrencies:
                for name, figures in asyncio.run(one_round(judge, concurrency)).items():
                    found.setdefault(f"{concurrency} {name}", []).append(figures)
                    print(number, concurrency, name, {key: round(it, 3) for key, it in figures.items()})
    return {
        name: {
            "least": {key: round(min(each[key] for each in rows), 3) for key in rows[0]},
            "median": {key: round(median(each[key] for each in rows), 3) for key in rows[0]},
            "most": {key: round(max(each[key] for each in rows), 3) for key in rows[0]},
        }
        for name, rows in found.items()
    }


async def batch(chat: FailoverChatModel, calls: int, seconds: float) -> tuple[float, int, Ledger]:
    """Seconds that the calls took together, how many failed, and what they used."""
    ledger = Ledger()
    started = time.perf_counter()
    results = await asyncio.gather(
        *(chat.complete(REQUEST, seconds=seconds, ledger=ledger) for _ in range(calls)), return_exceptions=True
    )
    return time.perf_counter() - started, sum(isinstance(result, BaseException) for result in results), ledger


def limited() -> dict[str, float]:
    """The run under a budget of requests a minute, after a call that warms it up."""

    async def run(judge: JudgeServer) -> tuple[float, int, Ledger]:
        chat = build_chat_models(settings_for(judge, llm_rpm=RPM))["default"]
        await batch(chat, 1, 120.0)
        found = await batch(chat, RPM_CALLS, 120.0)
        await chat.close()
        return found

    with judge_server(0.05, refused_every=20) as judge:
        elapsed, failed, ledger = asyncio.run(run(judge))
        times = judge.seen().arrived_seconds
    return {
        "calls": RPM_CALLS,
        "lost": failed,
        "requests": len(times),
        "seconds": round(elapsed, 2),
        "mean_rpm_seen": round((len(times) - 1) / (times[-1] - times[0]) * 60, 1),
        "budget_rpm": RPM,
        "most_in_one_second": max(sum(first <= time < first + 1 for time in times) for first in times),
        "unmetered": ledger.usage.unmetered_calls,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of tier llm against a judge that takes 200 ms.")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 256], help="calls under way (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args()
    configure_logging("WARNING")
    print(
        json.dumps(
            {
                "rounds": options.rounds,
                "throughput": by_turns(options.concurrency, options.rounds),
                "limited": limited(),
            }
        )
    )


if __name__ == "__main__":
    main()
