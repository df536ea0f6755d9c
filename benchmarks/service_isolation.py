"""What others feel while tier embedding is busy: health, tiers lexical and llm, small samples behind a large one."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

from benchmarks.service_load import Load, medians, paced, percentiles
from benchmarks.service_process import cpu_seconds_of, waited_for_core
from benchmarks.service_throughput import Bench

JUDGE_SECONDS = 0.2
_UNDER_WAY = 32
# Until the samples that found the service idle are judged, or most of them.
_SETTLE_SECONDS = 2.0
_PROBE_SECONDS = 8.0
# A second, of each.
_PROBES = {"healthz": 20.0, "lexical": 20.0, "llm": 5.0}
_LARGE_CONTEXTS = 62  # of 8 sentences each: with those of the answer 501
_SMALL, _SMALL_PER_SECOND = 20, 25.0
_HEAD_START_SECONDS = 0.2

Latencies = dict[str, list[float | None]]


async def isolation(bench: Bench, judge_pid: int) -> dict[str, object]:
    """Scenario d: each kind of request on the idle service, and with 32 samples under way in tier embedding."""
    found: dict[str, Latencies] = {"idle": defaultdict(list), "saturated": defaultdict(list)}
    # The judge runs on the same cores: what it takes the service lacks.
    costs: dict[str, list[dict[str, float]]] = {"idle": [], "saturated": []}
    for _ in range(bench.rounds):
        for state, latencies in found.items():
            load = Load(bench.caller, bench.prose.typical, concurrency=_UNDER_WAY if state == "saturated" else 0)
            load.start()
            await asyncio.sleep(_SETTLE_SECONDS if state == "saturated" else 0.0)
            costs[state].append(await _probed(bench, latencies, load, judge_pid))
            await load.end()
    states = {state: {kind: _said(kind, seconds) for kind, seconds in each.items()} for state, each in found.items()}
    return {
        **states,
        "p99_saturated_minus_idle_ms": {
            kind: states["saturated"][kind]["p99_ms"] - states["idle"][kind]["p99_ms"] for kind in _PROBES
        },
        "shares_of_a_core": {state: medians(rounds) for state, rounds in costs.items()},
    }


async def fairness(bench: Bench) -> dict[str, object]:
    """Scenario e: 20 small samples alone, and sent while one of 500 sentences is judged."""
    seconds: dict[str, list[float | None]] = defaultdict(list)
    sent_meanwhile = 0
    for _ in range(bench.rounds):
        alone, _ = await _small_ones(bench, None)
        seconds["small_alone"] += alone
        seconds["large_alone"].append(await _large_one(bench))
        large = asyncio.ensure_future(_large_one(bench))
        await asyncio.sleep(_HEAD_START_SECONDS)
        meanwhile, sent = await _small_ones(bench, large)
        seconds["small_meanwhile"] += meanwhile
        seconds["large_meanwhile"].append(await large)
        sent_meanwhile += sent
    figures = {name: percentiles(each) for name, each in seconds.items()}
    return {
        **figures,
        "p99_meanwhile_over_alone": figures["small_meanwhile"]["p99_ms"] / figures["small_alone"]["p99_ms"],
        "large_sentences": _LARGE_CONTEXTS * 8 + 5,
        "small_sent_while_large_under_way": sent_meanwhile,
        "small_sent": _SMALL * bench.rounds,
    }


async def _probed(bench: Bench, latencies: Latencies, load: Load, judge_pid: int) -> dict[str, float]:
    caller, service = bench.caller, bench.caller.service
    asks: dict[str, Callable[[], Awaitable[float | None]]] = {
        "healthz": caller.health,
        "lexical": lambda: caller.evaluate(bench.prose.shaped(), "lexical"),
        "llm": lambda: caller.evaluate(bench.prose.shaped(wording="copy"), "llm"),
    }
    before = service.cpu_seconds(), cpu_seconds_of(judge_pid), time.process_time(), waited_for_core(), load.judged
    started = time.perf_counter()
    probes = [
        paced(ask, per_second=_PROBES[kind], times=int(_PROBE_SECONDS * _PROBES[kind])) for kind, ask in asks.items()
    ]
    for kind, seconds in zip(asks, await asyncio.gather(*probes), strict=True):
        latencies[kind] += seconds
    wall = time.perf_counter() - started
    after = service.cpu_seconds(), cpu_seconds_of(judge_pid), time.process_time(), waited_for_core(), load.judged
    names = ("service", "judge", "driver", "driver_waited_for_core", "load_samples_per_second")
    return {name: (b - a) / wall for name, a, b in zip(names, before, after, strict=True)} | {"failed": load.failed}


def _said(kind: str, seconds: list[float | None]) -> dict[str, float]:
    """Percentiles; of tier llm of what comes on top of the judge's own time."""
    extra = JUDGE_SECONDS if kind == "llm" else 0.0
    known = [None if each is None else each - extra for each in seconds]
    return {**percentiles(known), "requests": len(seconds), "failed": seconds.count(None)}


async def _small_ones(bench: Bench, large: "asyncio.Future[float | None] | None") -> tuple[list[float | None], int]:
    """Seconds of each, and how many were sent while the large one was under way."""
    sent = 0

    async def ask() -> float | None:
        nonlocal sent
        sent += large is not None and not large.done()
        return await bench.caller.evaluate(bench.prose.small(), "embedding")

    return await paced(ask, per_second=_SMALL_PER_SECOND, times=_SMALL), sent


async def _large_one(bench: Bench) -> float | None:
    return await bench.caller.evaluate(bench.prose.shaped(contexts=_LARGE_CONTEXTS), "embedding")
