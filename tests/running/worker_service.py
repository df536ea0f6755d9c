"""`plumbline serve --workers N` as real processes, seen by its exit code, its log and the processes that are alive."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx2

_STARTED = re.compile(r"Started server process \[(\d+)\]")
_MOST_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class WorkerService:
    """A service of several workers. Every request goes over a connection of its own, to whichever worker takes it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._client: httpx2.Client | None = None

    def wait_until_ready(self) -> Self:
        self.wait_for(lambda: any("http://" in line for line in self.lines))
        port = self.of("listening")[0]["port"]
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, limits=limits, trust_env=False)
        return self

    def wait_for(self, is_true: Callable[[], bool]) -> None:
        until = time.monotonic() + _MOST_SECONDS
        while not is_true():
            assert time.monotonic() < until, self.lines
            time.sleep(_LOOK_SECONDS)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        assert self._client is not None
        return self._client.get(path, headers=headers)

    def post(self, path: str, body: Mapping[str, Any], key: str) -> httpx2.Response:
        assert self._client is not None
        return self._client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the events of this name."""
        return [each for each in list(self.events) if each["event"] == event]

    def workers_of(self, route: str) -> list[int]:
        """Return the process id of the worker of each request to a route."""
        return [each["pid"] for each in self.of("request_completed") if each["route"] == route]

    def pids(self) -> list[int]:
        """Return the process ids of all workers that ever started."""
        return [int(found[1]) for each in list(self.events) if (found := _STARTED.match(each["event"]))]

    def end(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the parent; return its exit code once nothing writes to its log any more."""
        self.process.send_signal(sign)
        code = self.process.wait(_MOST_SECONDS)
        self._reading.join(_MOST_SECONDS)
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("{"):
                self.events.append(json.loads(line))


def is_alive(pid: int) -> bool:
    """Return True if a process runs; an ended one that nothing has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def worker_service(variables: Mapping[str, str], *, workers: int = 2) -> Iterator[WorkerService]:
    """Start a service; none of its processes is left when the context ends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLUMBLINE_", "DASHSCOPE_"))}
    command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", "0", "--workers", str(workers)]
    with subprocess.Popen(command, env={**kept, **variables}, stderr=subprocess.PIPE, text=True) as process:
        service = WorkerService(process)
        try:
            yield service
        finally:
            process.kill()
            for pid in service.pids():
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
