"""Requests to the service, so many at one time, and what came of them."""

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

import httpx2
import numpy as np

from benchmarks.service_process import ServiceProcess
from plumbline.judging.text.sample import Sample

# Of a request and of the service's own deadline: nothing here is to end by a clock.
DEADLINE_SECONDS = 600

Figures = dict[str, float]


class Caller:
    """Asks one service. Each call gives the seconds from sending to the whole answer, None where that was not wanted.

    What it takes to write a request is not counted in them.
    """

    def __init__(self, service: ServiceProcess) -> None:
        self.service = service
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(base_url=service.base_url, timeout=DEADLINE_SECONDS, limits=limits)

    async def evaluate(self, sample: Sample, tier: str) -> float | None:
        """Has a sample judged by this tier alone."""
        wanted = {"tiers": [tier], "deadline_seconds": DEADLINE_SECONDS}
        body = json.dumps({"contexts": sample.contexts, "answer": sample.answer, **wanted}).encode()
        headers = {"content-type": "application/json"}
        seconds, response = await self._timed("POST", "/v1/evaluations", content=body, headers=headers)
        is_judged = response is not None and response.status_code == 200 and response.json()["tier"] == tier
        return seconds if is_judged else None

    async def health(self) -> float | None:
        """Asks whether it is there."""
        seconds, response = await self._timed("GET", "/healthz")
        return seconds if response is not None and response.status_code == 200 else None

    async def encoder(self) -> str:
        """The embedding model in use, its runtime and precision, as readiness names them."""
        response = await self._client.get("/readyz")
        return str(response.json()["tiers"]["embedding"]["detail"])

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _timed(self, method: str, path: str, **sent: Any) -> tuple[float, httpx2.Response | None]:
        started = time.perf_counter()
        try:
            response = await self._client.request(method, path, **sent)
        except httpx2.TransportError:
            return 0.0, None
        return time.perf_counter() - started, response


async def drive(
    caller: Caller,
    samples: Sequence[Sample],
    *,
    concurrency: int,
    seconds: float = math.inf,
    is_steady: bool = True,
) -> Figures:
    """The figures of tier embedding with so many samples under way, until none is left or the time is over.

    Args:
        seconds: after which no more are sent; those under way are waited for.
        is_steady: the percentiles leave out the first of each that are under way, which find nobody before them.
    """
    taken: list[float | None] = []
    waiting = iter(samples)
    cpu, own, started = caller.service.cpu_seconds(), time.process_time(), time.perf_counter()

    async def one() -> None:
        for sample in waiting:
            number = len(taken)
            taken.append(None)
            taken[number] = await caller.evaluate(sample, "embedding")
            if time.perf_counter() - started > seconds:
                return

    await asyncio.gather(*(one() for _ in range(concurrency)))
    wall, count = time.perf_counter() - started, len(taken)
    return {
        "samples_per_second": count / wall,
        **percentiles(taken[concurrency:] if is_steady and count > concurrency else taken),
        "cpu_seconds_per_sample": (caller.service.cpu_seconds() - cpu) / count,
        "driver_cpu_seconds_per_sample": (time.process_time() - own) / count,
        "failed": taken.count(None),
    }


async def paced(ask: Callable[[], Awaitable[float | None]], *, per_second: float, times: int) -> list[float | None]:
    """What becomes of requests that are sent at a steady pace, whether those before are answered or not."""
    started = time.perf_counter()
    asked = []
    for number in range(times):
        await asyncio.sleep(max(0.0, started + number / per_second - time.perf_counter()))
        asked.append(asyncio.ensure_future(ask()))
    return await asyncio.gather(*asked)


class Load:
    """So many typical samples under way for tier embedding, always others, from `start` to `end`."""

    def __init__(self, caller: Caller, sample: Callable[[], Sample], *, concurrency: int) -> None:
        self._caller = caller
        self._sample = sample
        self._concurrency = concurrency
        self._is_over = False
        self._tasks: list[asyncio.Future[None]] = []
        self.judged = 0
        self.failed = 0

    def start(self) -> None:
        """Sends the first ones."""
        self._tasks = [asyncio.ensure_future(self._one()) for _ in range(self._concurrency)]

    async def end(self) -> None:
        """Sends no more, and waits for those under way."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _one(self) -> None:
        while not self._is_over:
            is_judged = await self._caller.evaluate(self._sample(), "embedding") is not None
            self.judged += is_judged
            self.failed += not is_judged


def percentiles(seconds: Sequence[float | None]) -> Figures:
    """Median and 99th percentile in milliseconds of those that are known, by linear interpolation; none of nothing."""
    known = [each for each in seconds if each is not None]
    if not known:
        return {}
    p50, p99 = np.percentile(known, [50, 99])
    return {"p50_ms": float(p50) * 1000, "p99_ms": float(p99) * 1000}


def medians(rounds: Sequence[Figures]) -> Figures:
    """Of each figure the median over the rounds; of what failed, the sum."""
    names = [name for name in rounds[0] if name != "failed" and all(name in each for each in rounds)]
    found = {name: median(each[name] for each in rounds) for name in names}
    if "failed" in rounds[0]:
        found["failed"] = sum(each["failed"] for each in rounds)
    return found
