"""The service as a process of its own, and what it costs: CPU seconds and memory of it and of all that it starts."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2

_ROOT = Path(__file__).parents[1]
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 120.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """One that answers.

    `seconds_to_health`, `seconds_to_ready`: from its start to the first 200
    of `/healthz`, and to `/readyz` with the model loaded.
    """

    pid: int
    base_url: str
    seconds_to_health: float
    seconds_to_ready: float

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        return cpu_seconds_of(self.pid)

    def memory_mib(self) -> float:
        """What it has in memory now (resident set size)."""
        return sum(_memory_kib(pid) for pid in _tree(self.pid)) / 1024


@contextmanager
def running_service(knobs: Mapping[str, str], *, needs_model: bool = True) -> Iterator[ServiceProcess]:
    """`plumbline serve` on a free port of loopback with these settings, ready; ended with the context.

    Args:
        needs_model: whether it is ready only once the embedding model is loaded.

    Raises:
        RuntimeError: it ended, or was not ready in time; with the end of what it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        inherited = {name: value for name, value in os.environ.items() if name != "DASHSCOPE_API_KEY"}
        environment = {
            **inherited,
            "PYTHONPATH": f"{_ROOT / 'app'}:{_ROOT}",
            "PLUMBLINE_DATA_DIR": f"{folder}/jobs",
            **knobs,
        }
        written = Path(folder, "written")
        started = time.monotonic()
        with written.open("wb") as file:
            command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", str(port)]
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)  # noqa: S603
        try:
            base_url = f"http://127.0.0.1:{port}"
            health = _seconds_until(f"{base_url}/healthz", _is_there, started, process, written)
            ready = _seconds_until(
                f"{base_url}/readyz", _has_model if needs_model else _is_there, started, process, written
            )
            yield ServiceProcess(process.pid, base_url, health, ready)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_seconds_of(pid: int) -> float:
    """What a process and all that it started have used so far, in steps of a clock tick."""
    return sum(map(_ticks, _tree(pid))) / _TICKS_A_SECOND


def waited_for_core() -> float:
    """Seconds that this thread stood ready to run, and did not: how far the machine was too full to measure."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def _free_port() -> int:
    """Below those that the system gives out: it takes seconds until somebody listens on it."""
    while True:
        port = random.randrange(20_000, 30_000)  # noqa: S311
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _is_there(answer: httpx2.Response) -> bool:
    return answer.status_code == 200


def _has_model(answer: httpx2.Response) -> bool:
    # 200 alone may come before the loading has begun.
    return answer.status_code == 200 and answer.json()["tiers"]["embedding"]["state"] == "ready"


def _seconds_until(
    url: str,
    is_wanted: Callable[[httpx2.Response], bool],
    started: float,
    process: "subprocess.Popen[bytes]",
    written: Path,
) -> float:
    with httpx2.Client() as client:
        while time.monotonic() < started + _START_SECONDS and process.poll() is None:
            with suppress(httpx2.TransportError):
                if is_wanted(client.get(url)):
                    return time.monotonic() - started
            time.sleep(_POLL_SECONDS)
    end = written.read_text(errors="replace")[-2_000:]
    raise RuntimeError(f"the service did not answer {url} as wanted in {_START_SECONDS:.0f} s:\n{end}")


def _tree(pid: int) -> list[int]:
    """The process, then all that came of it."""
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def _ticks(pid: int) -> int:
    """Of a process, and of those that it started and that have ended."""
    try:
        # After the name, which may hold anything: proc(5) numbers utime, stime, cutime, cstime from 14.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def _memory_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
