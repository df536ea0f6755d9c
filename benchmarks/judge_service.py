"""Throughput of `plumbline serve --workers N` on samples that a judge of 200 ms judges.

    python benchmarks/judge_service.py [--samples 2000] [--concurrency 256] [--rounds 3] [--workers 1 2]

By turns one worker and two behind one address. Prints samples a second, and the CPU time of a request in the processes
that serve. Judge and caller are processes that cost 0.1 ms a request; on fewer than four cores they compete with two
workers.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.judge_server import SAMPLES, judge_server, sample

ROOT = Path(__file__).parents[1]
LATENCY_SECONDS = 0.2


@contextmanager
def service(judge_url: str, concurrency: int, workers: int) -> Iterator[tuple[int, list[int]]]:
    """Serve with a judge at this address; yield the port and the ids of the processes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "LLM_PROVIDER": "generic",
            "LLM_BASE_URL": judge_url,
            "LLM_MODEL": "judge-1",
            # Each worker may have all: connections are not spread evenly.
            "LLM_MAX_CONCURRENCY": str(concurrency * workers),
            "CACHE_TTL_SECONDS": "0",
            "WARM_UP": "false",
            "DATA_DIR": folder,
            "LOG_LEVEL": "WARNING",
        }
        environment = {**os.environ, **{f"PLUMBLINE_{name}": value for name, value in settings.items()}}
        command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", str(port), "--workers", str(workers)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)  # noqa: S603
        try:
            wait_until_ready(process)
            yield port, [process.pid, *children(process.pid)]
        finally:
            process.terminate()
            process.wait(30)


def children(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    """Return when the service prints its address: every worker serves then."""
    for line in process.stderr or ():
        if "http://" in line:
            return
    raise RuntimeError("the service did not start")


def cpu_seconds(pid: int) -> float:
    """What a process has taken of a processor, its threads included."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def requests() -> list[bytes]:
    """One evaluation of each sample, head and body."""
    made = []
    for number in range(SAMPLES):
        asked = sample(number)
        body = json.dumps({"question": asked.question, "contexts": asked.contexts, "answer": asked.answer}).encode()
        head = b"POST /v1/evaluations HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        made.append(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    return made


async def asked(port: int, count: int, concurrency: int, made: list[bytes]) -> float:
    """Seconds that so many requests took, so many of them under way at one time."""
    numbers = iter(range(count))

    async def one_after_another() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            writer.write(made[number % SAMPLES])
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
            if not head.startswith(b"HTTP/1.1 200") or b'"tier":"llm"' not in body:
                raise ValueError(f"{head!r} {body!r}")
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(concurrency)))
    return time.perf_counter() - started


def one_round(judge_url: str, workers: int, options: argparse.Namespace, made: list[bytes]) -> dict[str, float]:
    """Return the figures of so many workers."""
    with service(judge_url, options.concurrency, workers) as (port, pids):
        asyncio.run(asked(port, 2 * options.concurrency, options.concurrency, made))
        before = sum(map(cpu_seconds, pids))
        seconds = asyncio.run(asked(port, options.samples, options.concurrency, made))
        cpu = sum(map(cpu_seconds, pids)) - before
    return {
        "samples_a_second": round(options.samples / seconds, 1),
        "ratio_to_ideal": round(seconds / (options.samples / options.concurrency * LATENCY_SECONDS), 3),
        "serve_cpu_ms_each": round(cpu / options.samples * 1_000, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Samples a second of one worker and of two.")
    parser.add_argument("--samples", type=int, default=2_000, help="a round (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=256, help="under way (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="by turns (default: %(default)s)")
    options = parser.parse_args()
    made = requests()
    found: dict[int, list[dict[str, float]]] = {workers: [] for workers in options.workers}
    with judge_server(LATENCY_SECONDS) as judge:
        for _ in range(options.rounds):
            for workers, rows in found.items():
                rows.append(one_round(judge.base_url, workers, options, made))
                print(workers, rows[-1], flush=True)
    print(
        json.dumps(
            {
                f"{workers} workers": {key: median(row[key] for row in rows) for key in rows[0]}
                for workers, rows in found.items()
            }
        )
    )


if __name__ == "__main__":
    main()
