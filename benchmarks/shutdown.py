"""End a loaded service: callers on kept connections, SIGTERM, and what became of every request.

    python benchmarks/shutdown.py [--callers 60] [--runs 5] [--workers 1 2] [--drain 5]

Each caller asks again on its connection as soon as it is answered, and connects again once the connection closes. At
the signal some requests are with the service, some lie in a socket unread. Prints one line of JSON a run, and exits
with 1 where an answer is not whole, a request that was sent before the signal is not answered, or the end comes later
than a second after the grace period.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_WARM_ANSWERS_EACH = 3


class Callers:
    """Callers on kept connections, who know whether each request was sent before the signal."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count
        self._numbers = iter(range(1_000_000))
        self.is_signalled = False
        self.outcomes: Counter[str] = Counter()
        self.closing_answers = 0
        self.connections_after = 0

    async def run(self) -> None:
        """Ask until every caller is refused a new connection."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._call())

    async def wait_until_warm(self) -> None:
        while self.outcomes["answered before"] < self._count * _WARM_ANSWERS_EACH:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def failures(self) -> dict[str, int]:
        """Return the outcomes that must not be."""
        return {
            name: count for name, count in self.outcomes.items() if "unanswered sent before" in name or "cut" in name
        }

    async def _call(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                return
            self.connections_after += self.is_signalled
            while await self._ask(reader, writer):
                pass
            writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Return True if the connection may be used again."""
        number = next(self._numbers)
        when = "after" if self.is_signalled else "before"
        writer.write(request(number))
        received = b""
        try:
            received = await reader.readuntil(b"\r\n\r\n")
            head = received.decode("latin1").lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            body = await reader.readexactly(length)
            answer = json.loads(body)
        except (asyncio.IncompleteReadError, OSError) as error:
            received += getattr(error, "partial", b"")
            self.outcomes["cut" if received else f"unanswered sent {when}"] += 1
            return False
        status = head.split()[1]
        if status != "200":
            # 503: what the grace period did not suffice for.
            self.outcomes[f"status {status} {when}"] += 1
        else:
            self.outcomes[f"answered {when}" if answer["id"] == f"q{number}" else "another's answer, or cut"] += 1
        is_closing = "connection: close" in head
        self.closing_answers += is_closing
        return not is_closing


def request(number: int) -> bytes:
    """Return an evaluation by words alone: some milliseconds of work."""
    sample = {
        "id": f"q{number}",
        "contexts": ["The Marlow Bridge was opened in 1931. It has two towers and crosses the river at its widest."]
        * 4,
        "answer": "The bridge was opened in 1931. It has three towers. It crosses the river.",
        "tiers": ["lexical"],
    }
    body = json.dumps(sample).encode()
    head = b"POST /v1/evaluations HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


async def end_under_load(process: "subprocess.Popen[str]", port: int, count: int) -> tuple[Callers, float, int]:
    """Signal the service while callers call; return them, the seconds until its end, and its exit code."""
    callers = Callers(port, count)
    calling = asyncio.create_task(callers.run())
    await callers.wait_until_warm()
    callers.is_signalled = True
    started = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    code = await asyncio.to_thread(process.wait)
    seconds = time.monotonic() - started
    await calling
    return callers, seconds, code


def start(workers: int, variables: Mapping[str, str]) -> tuple["subprocess.Popen[str]", int]:
    """Start a service; return it and its port once it serves."""
    command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", "0", "--workers", str(workers)]
    environment = {**os.environ, "PLUMBLINE_WARM_UP": "false", "PLUMBLINE_LOG_LEVEL": "ERROR", **variables}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)  # noqa: S603
    for line in process.stderr or ():
        if "http://" in line:
            return process, int(line.partition("127.0.0.1:")[2].split()[0])
    raise RuntimeError("the service did not start")


def one_run(workers: int, callers: int, drain_seconds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PLUMBLINE_DATA_DIR": folder, "PLUMBLINE_DRAIN_SECONDS": str(drain_seconds)}
        process, port = start(workers, variables)
        try:
            load = os.getloadavg()[0]
            called, seconds, code = asyncio.run(end_under_load(process, port, callers))
        finally:
            process.kill()
            process.wait()
    is_held = not called.failures() and code == 0 and seconds <= drain_seconds + 1
    return {
        "workers": workers,
        "held": is_held,
        "seconds": round(seconds, 2),
        "code": code,
        **dict(sorted(called.outcomes.items())),
        "answers that close": called.closing_answers,
        "connections after": called.connections_after,
        "load": round(load, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What becomes of every request when the service ends.")
    parser.add_argument("--callers", type=int, default=60, help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=5, help="for each number of workers (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="by turns (default: %(default)s)")
    parser.add_argument("--drain", type=int, default=5, help="grace period in seconds (default: %(default)s)")
    options = parser.parse_args()
    held = []
    for _ in range(options.runs):
        for workers in options.workers:
            found = one_run(workers, options.callers, options.drain)
            held.append(found["held"])
            print(json.dumps(found), flush=True)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
