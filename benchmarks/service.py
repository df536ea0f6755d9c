"""Throughput, latency, CPU and memory of the live service, and `/healthz` beside it.

    python benchmarks/service.py [--tier embedding] [--rounds 3] [--data FILE] [--set PLUMBLINE_EMBEDDING_THREADS=1]

`plumbline serve` runs in a process of its own on loopback with its default settings, asked over HTTP from this one with
1, 8 and 32 samples at a time. CPU seconds are those of the service alone; figures are medians of the rounds. Linux.
Prints a table in Markdown, then one line of JSON.
"""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
import numpy as np

from benchmarks.everyday import DATA, read_rows, table
from benchmarks.service_process import ServiceProcess, running_service, waited_for_core

# Of a request and of the service's own deadline: nothing here is to end by a clock.
DEADLINE_SECONDS = 600
CONCURRENCY = (1, 8, 32)
SAMPLES = 96
HEALTH_PAUSE_SECONDS = 0.1


def bodies(path: Path, tier: str) -> list[bytes]:
    """Return requests of the English rows of a JSONL file."""
    wanted = {"tiers": [tier], "deadline_seconds": DEADLINE_SECONDS}
    found = [
        json.dumps({"contexts": row["contexts"], "answer": row["answer"], **wanted}).encode()
        for row in read_rows(path)
        if row.get("lang", "en") == "en"
    ]
    if not found:
        raise SystemExit(f"{path}: no English rows")
    return [found[number % len(found)] for number in range(SAMPLES)]


async def drive(service: ServiceProcess, requests: list[bytes], concurrency: int) -> dict[str, float]:
    """Return the figures of all requests with so many in flight, and of `/healthz` meanwhile."""
    waiting, taken, health = iter(requests), list[float](), list[float]()
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=service.base_url, timeout=DEADLINE_SECONDS, limits=limits) as client:

        async def one() -> None:
            for body in waiting:
                started = time.perf_counter()
                answer = await client.post(
                    "/v1/evaluations", content=body, headers={"content-type": "application/json"}
                )
                answer.raise_for_status()
                taken.append(time.perf_counter() - started)

        async def ask_health() -> None:
            while True:
                started = time.perf_counter()
                await client.get("/healthz")
                health.append(time.perf_counter() - started)
                await asyncio.sleep(HEALTH_PAUSE_SECONDS)

        asking = asyncio.create_task(ask_health())
        cpu, started = service.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(one() for _ in range(concurrency)))
        wall, cpu = time.perf_counter() - started, service.cpu_seconds() - cpu
        asking.cancel()
    p50, p99 = np.percentile(taken, [50, 99]) * 1000
    return {
        "samples_per_second": len(taken) / wall,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "cpu_ms_per_sample": 1000 * cpu / len(taken),
        "healthz_p99_ms": 1000 * float(np.percentile(health, 99)),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures by concurrency, with the start and memory of the service."""
    requests, waited = bodies(options.data, options.tier), waited_for_core()
    # A sentence that was encoded once would cost nothing in the next round.
    knobs = {"PLUMBLINE_DEADLINE_SECONDS": str(DEADLINE_SECONDS)}
    knobs |= dict(options.set)
    with running_service(knobs, needs_model=options.tier == "embedding") as service:
        asyncio.run(drive(service, requests[:8], 1))
        rounds = [
            {number: asyncio.run(drive(service, requests, number)) for number in CONCURRENCY}
            for _ in range(options.rounds)
        ]
        memory = service.memory_mib()
    names = list(rounds[0][CONCURRENCY[0]])
    return {
        "service": {n: {name: median(each[n][name] for each in rounds) for name in names} for n in CONCURRENCY},
        "seconds_to_ready": service.seconds_to_ready,
        "memory_mib": memory,
        "driver_waited_for_core_seconds": waited_for_core() - waited,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", choices=("lexical", "embedding"), default="embedding")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA / "everyday.jsonl",
        help="JSONL with contexts and answer (default: %(default)s)",
    )
    parser.add_argument(
        "--set", type=lambda text: text.split("=", 1), action="append", default=[], metavar="NAME=VALUE"
    )
    found = measure(parser.parse_args())
    figures = found["service"]
    print(table(["in flight", *figures[1]], [[str(n), *each.values()] for n, each in figures.items()]))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
