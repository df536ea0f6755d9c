"""The service under more load than it can take: who is answered, who is refused, and `/healthz` beside it.

    python benchmarks/load.py [steady] [crowd] [model] [mixed] [slow] [hanging] [disk] [sigterm] [kill] [--workers 2]

`plumbline serve` runs in a process of its own on loopback; the load comes from a process of lower priority on the same
cores. Without names all trials run. Prints one table in Markdown. Linux; `disk` mounts a small file system.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from benchmarks import shutdown
from benchmarks.everyday import DATA, read_rows, table
from benchmarks.service_process import ServiceProcess, running_service

LOWER_PRIORITY = 10
HEALTH_PAUSE_SECONDS = 0.05
CROWD_CHARACTERS = 100_000
CROWD_DEADLINE_SECONDS = 20.0
SLOW_CLIENTS = 200


Load = Callable[["ServiceProcess"], Coroutine[Any, Any, list["Answer"]]]


class Answer(NamedTuple):
    """`status`: of HTTP, 0 if the connection broke; `outcome`: of a result, else of a problem."""

    status: int
    outcome: str
    seconds: float


class Trial(NamedTuple):
    """One row of the table."""

    name: str
    answers: Sequence[Answer]
    wall_seconds: float
    health: Sequence[float]
    memory_mib: float

    def cells(self) -> list[str]:
        """Return the figures of the row."""
        judged = [each.seconds for each in self.answers if each.status == 200 and each.outcome == "judged"]
        refused = [each.seconds for each in self.answers if each.status in (429, 503)]
        others = Counter(f"{each.status} {each.outcome}" for each in self.answers)
        rest = {what: count for what, count in others.items() if not what.startswith(("200 judged", "503", "429"))}
        return [
            self.name,
            str(len(judged)),
            f"{max(judged, default=0):.1f}",
            f"{_percentile(judged, 99):.2f}",
            str(len(refused)),
            f"{max(refused, default=0):.2f}",
            ", ".join(f"{count} x {what}" for what, count in rest.items()) or "0",
            f"{len(judged) / self.wall_seconds:.1f}",
            f"{1000 * _percentile(self.health, 99):.0f}",
            f"{self.memory_mib:.0f}",
        ]


HEADINGS = [
    "trial",
    "judged",
    "slowest s",
    "p99 s",
    "refused",
    "slowest refusal s",
    "else",
    "judged a second",
    "/healthz p99 ms",
    "RSS MiB",
]


def _percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(values, share)) if values else 0.0


async def ask(service: ServiceProcess, body: bytes, *, path: str = "/v1/evaluations", method: str = "POST") -> Answer:
    """Send one request on a connection of its own, and read the answer."""
    started = time.perf_counter()
    host, port = service.base_url.removeprefix("http://").split(":")
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode() + body)
        raw = await reader.read()
        writer.close()
        found, _, rest = raw.partition(b"\r\n\r\n")
        status = int(found.split(b" ")[1])
        document = json.loads(rest) if rest.startswith(b"{") else {}
    except (OSError, IndexError, ValueError):
        return Answer(0, "broken", time.perf_counter() - started)
    outcome = document.get("status", "") if status == 200 else document.get("title", "")
    return Answer(status, str(outcome), time.perf_counter() - started)


def watch(service: ServiceProcess, name: str, load: Load) -> Trial:
    """Return the answers of a load, with the latency of `/healthz` and the highest memory meanwhile.

    The load comes from a process of its own, so that it alone has the lower priority, and delays no other question.
    """
    health, memory = list[float](), [service.memory_mib()]
    with ProcessPoolExecutor(1, initializer=os.nice, initargs=(LOWER_PRIORITY,)) as client:
        answered = client.submit(_timed, load, service)
        while not answered.done():
            health.append(asyncio.run(ask(service, b"", path="/healthz", method="GET")).seconds)
            memory.append(service.memory_mib())
            time.sleep(HEALTH_PAUSE_SECONDS)
    return Trial(name, *answered.result(), health, max(memory))


def _timed(load: Load, service: ServiceProcess) -> tuple[list[Answer], float]:
    started = time.perf_counter()
    answers = asyncio.run(load(service))
    return answers, time.perf_counter() - started


_LEDGER = " ".join(f"Clerk NUMBER entered {at} crates of lamps in the ledger of the harbour." for at in range(2_000))


def crowd_body(number: int, tiers: Sequence[str]) -> bytes:
    """Return a request of 100,000 characters of prose, unlike every other."""
    context = _LEDGER.replace("NUMBER", str(number))[:CROWD_CHARACTERS]
    answer = f"Clerk {number} entered 7 crates of lamps in the ledger of the harbour. Nobody counted the ropes."
    wanted = {"tiers": list(tiers), "deadline_seconds": CROWD_DEADLINE_SECONDS}
    return json.dumps({"contexts": [context], "answer": answer, **wanted}).encode()


async def crowd(service: ServiceProcess, callers: int, tiers: Sequence[str]) -> list[Answer]:
    """Send so many large samples at once."""
    bodies = [crowd_body(number, tiers) for number in range(callers)]
    return list(await asyncio.gather(*(ask(service, body) for body in bodies)))


async def mixed(service: ServiceProcess, requests: int, in_flight: int) -> list[Answer]:
    """Send labelled rows, a fifth of them to tier embedding, with so many in flight."""
    rows = list(read_rows(DATA / "everyday.jsonl"))
    pending, answers = iter(range(requests)), list[Answer]()

    async def one() -> None:
        for number in pending:
            row = rows[number % len(rows)]
            tiers = ["embedding", "lexical"] if number % 5 == 0 else ["lexical"]
            sample: dict[str, Any] = {"contexts": row["contexts"], "answer": row["answer"], "tiers": tiers}
            answers.append(await ask(service, json.dumps(sample).encode()))

    await asyncio.gather(*(one() for _ in range(in_flight)))
    return answers


async def slow_bodies(service: ServiceProcess) -> list[Answer]:
    """Hold connections that send a byte a second of a large body, and ask beside them."""
    host, port = service.base_url.removeprefix("http://").split(":")
    writers = []
    for _ in range(SLOW_CLIENTS):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/evaluations HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        writers.append(writer)
    answers = list[Answer]()
    until = time.perf_counter() + 8
    while time.perf_counter() < until:
        for writer in writers:
            writer.write(b" ")
        answers.append(await ask(service, _small_body()))
        await asyncio.sleep(0.2)
    for writer in writers:
        writer.close()
    return answers


def _small_body() -> bytes:
    wanted = {"contexts": ["The ferry leaves at noon."], "answer": "The ferry leaves at noon.", "tiers": ["lexical"]}
    return json.dumps(wanted).encode()


@contextmanager
def hanging_database() -> Iterator[dict[str, str]]:
    """Yield the settings of a database that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1_000) as listener:
        port = listener.getsockname()[1]
        yield {"PLUMBLINE_DATABASE_URL": f"postgresql://user:password@127.0.0.1:{port}/plumbline"}


@contextmanager
def full_disk() -> Iterator[dict[str, str]]:
    """Yield the settings of a data folder on a file system of 8 MiB without room."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)  # noqa: S603, S607
        try:
            with Path(folder, "ballast").open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(1_024))
            yield {"PLUMBLINE_DATA_DIR": folder}
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)  # noqa: S603, S607


async def beside_jobs(service: ServiceProcess) -> list[Answer]:
    """Send evaluations beside as many requests about jobs, which the store cannot serve."""
    job = json.dumps({"rows": [json.loads(_small_body())]}).encode()
    jobs = [asyncio.create_task(ask(service, job, path="/v1/jobs")) for _ in range(100)]
    answers = [await ask(service, _small_body()) for _ in range(200)]
    return [*answers, *(await asyncio.gather(*jobs))]


def of_others(trial: str) -> list[str]:
    """Return the row of a trial that is a benchmark of its own."""
    if trial == "sigterm":
        found = shutdown.one_run(1, 60, 5)
        return ["SIGTERM, 60 kept connections", str(found), *[""] * (len(HEADINGS) - 2)]
    command = [sys.executable, str(Path(__file__).with_name("kill_service.py")), "--kills", "4", "--rows", "4000"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return ["kill -9, four times in a job", written.strip().splitlines()[-1], *[""] * (len(HEADINGS) - 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--callers", type=int, default=600)
    options = parser.parse_args()
    lexical, model = ["lexical"], ["embedding", "lexical"]
    loads: dict[str, tuple[str, Load]] = {
        "steady": ("150 callers at once, lexical", partial(crowd, callers=150, tiers=lexical)),
        "crowd": (f"{options.callers} callers, lexical", partial(crowd, callers=options.callers, tiers=lexical)),
        "model": ("300 callers, embedding", partial(crowd, callers=300, tiers=model)),
        "mixed": ("mixed, 16 in flight", partial(mixed, requests=options.requests, in_flight=16)),
        "slow": (f"beside {SLOW_CLIENTS} slow bodies", slow_bodies),
        "hanging": ("hanging database, 100 jobs beside", beside_jobs),
        "disk": ("full disk, 100 jobs beside", beside_jobs),
    }
    places = {"hanging": hanging_database, "disk": full_disk}
    found = []
    for trial in options.trials or (*loads, "sigterm", "kill"):
        if trial not in loads:
            found.append(of_others(trial))
            continue
        name, load = loads[trial]
        with places.get(trial, lambda: nullcontext({}))() as knobs:
            knobs = {**knobs, "PLUMBLINE_WORKERS": str(options.workers)}  # noqa: PLW2901
            with running_service(knobs, needs_model=trial in ("model", "mixed")) as service:
                found.append(watch(service, name, load).cells())
        print(found[-1], file=sys.stderr)
    print(table(HEADINGS, found))


if __name__ == "__main__":
    main()
