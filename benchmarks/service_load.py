"""Requests to the service, so many at one time, and what came of them."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median

import httpx2
import numpy as np

from app.sample import Sample
from benchmarks.service_process import ServiceProcess

# Of a request and of the service's own deadline: nothing here is to end by a clock.
DEADLINE_SECONDS = 600

Figures = dict[str, float]


@dataclass(slots=True)
class Answers:
    """Seconds of each request that was answered as wanted, in order of sending, and how many were not."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0


class Caller:
    """Asks one service; what it takes to write a request is not counted in its seconds."""

    def __init__(self, service: ServiceProcess) -> None:
        self.service = service
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(base_url=service.base_url, timeout=DEADLINE_SECONDS, limits=limits)

    async def evaluate(self, sample: Sample, tier: str, answers: Answers) -> None:
        """Has a sample judged by this tier alone."""
        wanted = {"tiers": [tier], "deadline_seconds": DEADLINE_SECONDS}
        body = json.dumps({"contexts": sample.contexts, "answer": sample.answer, **wanted}).encode()
        headers = {"content-type": "application/json"}
        started = time.perf_counter()
        response = await self._client.post("/v1/evaluations", content=body, headers=headers)
        seconds = time.perf_counter() - started
        if response.status_code == 200 and response.json()["tier"] == tier:
            answers.seconds.append(seconds)
        else:
            answers.failed += 1

    async def health(self, answers: Answers) -> None:
        """Asks whether it is there."""
        started = time.perf_counter()
        response = await self._client.get("/healthz")
        answers.seconds.append(time.perf_counter() - started)
        answers.failed += response.status_code != 200

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()


async def drive(
    caller: Caller, samples: Iterable[Sample], *, tier: str, concurrency: int, left_out: int | None = None
) -> Figures:
    """The figures of samples judged with so many under way until none is left.

    Args:
        left_out: of the percentiles: the first requests, which find nobody before them; None: as many as are under way.
    """
    turns = list(samples)
    answers, waiting = Answers(), iter(turns)
    cpu, own, started = caller.service.cpu_seconds(), time.process_time(), time.perf_counter()

    async def one() -> None:
        for sample in waiting:
            await caller.evaluate(sample, tier, answers)

    await asyncio.gather(*(one() for _ in range(concurrency)))
    seconds = time.perf_counter() - started
    count = len(turns)
    return {
        "samples_per_second": count / seconds,
        **percentiles(answers.seconds[concurrency if left_out is None else left_out :]),
        "cpu_seconds_per_sample": (caller.service.cpu_seconds() - cpu) / count,
        "driver_cpu_seconds_per_sample": (time.process_time() - own) / count,
        "failed": answers.failed,
    }


async def paced(ask: Callable[[Answers], Awaitable[None]], per_second: float, times: int) -> Answers:
    """The answers to requests sent at a steady pace, whether those before are answered or not."""
    answers, started = Answers(), time.perf_counter()
    asked = []
    for number in range(times):
        await asyncio.sleep(max(0.0, started + number / per_second - time.perf_counter()))
        asked.append(asyncio.ensure_future(ask(answers)))
    await asyncio.gather(*asked)
    return answers


class Load:
    """So many typical samples under way, always others, from `start` to `end`."""

    def __init__(self, caller: Caller, sample: Callable[[], Sample], *, concurrency: int) -> None:
        self._caller = caller
        self._sample = sample
        self._concurrency = concurrency
        self._answers = Answers()
        self._is_over = False
        self._tasks: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Sends the first ones."""
        self._tasks = [asyncio.ensure_future(self._one()) for _ in range(self._concurrency)]

    async def end(self) -> int:
        """Sends no more, and waits for those under way; how many were judged in all."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        if self._answers.failed:
            raise RuntimeError(f"{self._answers.failed} samples of the load were not judged by tier embedding")
        return len(self._answers.seconds)

    async def _one(self) -> None:
        for _ in count():
            if self._is_over:
                return
            await self._caller.evaluate(self._sample(), "embedding", self._answers)


def percentiles(seconds: Sequence[float]) -> Figures:
    """Median and 99th percentile in milliseconds, by linear interpolation; none of nothing."""
    if not seconds:
        return {}
    p50, p99 = np.percentile(seconds, [50, 99])
    return {"p50_ms": float(p50) * 1000, "p99_ms": float(p99) * 1000}


def medians(rounds: Sequence[Figures]) -> Figures:
    """Of each figure the median over the rounds; of what failed, the sum."""
    found = {name: median(each[name] for each in rounds) for name in rounds[0] if name != "failed"}
    if "failed" in rounds[0]:
        found["failed"] = sum(each["failed"] for each in rounds)
    return found
