"""Supervisor of `plumbline serve --workers N`: start worker processes, replace dead ones, end them with the service.

Each worker is a fresh process (fork and exec) that inherits the listening socket. Its standard input is a pipe that
closes when the parent dies, however it dies; its standard output tells the parent that it is ready, or why it is not.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import structlog

from plumbline.ground.errors import ConfigurationError, PlumblineError
from plumbline.ground.files import try_lock
from plumbline.service.worker_share import WorkerShare

BACKLOG: Final = 2_048
# SIGHUP is not everywhere.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM))
_READY: Final = "ready\n"
# A worker that lived so long is replaced at once, others after a pause that doubles.
_HEALTHY_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
# After the answers: 5 seconds for rows of jobs, and closing.
_CLOSING_SECONDS: Final = 30.0
# Prometheus' client keeps values in files here; it must be set before it is imported.
_METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


class SharedListener(socket.socket):
    """A listening socket that several processes accept from, its queue as long as before whatever each asks for."""

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Listen with the whole queue: a server that takes few connections a turn would shorten it for all."""
        super().listen(BACKLOG)


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """Arguments of a worker process."""

    number: int
    count: int
    folder: str
    listener: int

    @classmethod
    def parse(cls, text: str) -> "WorkerOrder":
        return cls(**json.loads(text))

    @property
    def share(self) -> WorkerShare:
        return WorkerShare.joining(Path(self.folder), self.number, self.count)


class ParentLink:
    """A worker's connection to its parent, over the standard input and output that it was started with."""

    def __init__(self) -> None:
        # Libraries that print must not be taken for reports.
        self._report = os.dup(1)
        os.dup2(2, 1)
        threading.Thread(target=self._end_with_parent, name="parent-watch", daemon=True).start()

    def report_ready(self) -> None:
        os.write(self._report, _READY.encode())

    def report_failure(self, error: PlumblineError) -> None:
        os.write(self._report, f"plumbline: {error}\n".encode())

    @staticmethod
    def _end_with_parent() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)


class Supervisor:
    """Keep `count` workers running until a signal ends the service.

    Args:
        drain_seconds: that answers in flight get at the end.
        on_ready: called once, when every worker serves.
    """

    def __init__(
        self, listener: socket.socket, folder: Path, *, count: int, drain_seconds: float, on_ready: Callable[[], None]
    ) -> None:
        self._listener = listener
        self._folder = folder
        self._count = count
        self._drain_seconds = drain_seconds
        self._on_ready = on_ready
        self._stopping = asyncio.Event()
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._ready: set[int] = set()
        self._has_started = False
        self._code = 0

    async def run(self) -> int:
        """Return the exit code: 0 after a signal, that of a worker that failed at the start."""
        for each in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(each, self._stop)
        keeping = [asyncio.create_task(self._keep(number)) for number in range(1, self._count + 1)]
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopping, *keeping], return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            # A worker could not even be started: the gathering below raises why.
            self._stop()
        await asyncio.wait(keeping, timeout=self._drain_seconds + _CLOSING_SECONDS)
        for process in self._processes.values():
            structlog.get_logger().error("worker_killed", pid=process.pid)
            with suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*keeping)
        return self._code

    def _stop(self) -> None:
        """Begin the graceful shutdown; a second time, end without waiting for answers, as one process does."""
        self._stopping.set()
        self._listener.close()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self, number: int) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            started = time.monotonic()
            process, failure = await self._run(number)
            if self._stopping.is_set():
                return
            was_ready = number in self._ready
            self._ready.discard(number)
            if not was_ready and not (self._has_started and self._ready):
                sys.stderr.write(failure)
                self._code = process.returncode or 1
                self._stop()
                return
            lived = time.monotonic() - started
            pause = 0.0 if lived > _HEALTHY_SECONDS else min(_LONGEST_PAUSE_SECONDS, pause * 2 or _FIRST_PAUSE_SECONDS)
            death = {"pid": process.pid, "code": process.returncode, "detail": failure.strip(), "pause": pause}
            structlog.get_logger().error("worker_died", worker=number, **death)
            try:
                await asyncio.wait_for(self._stopping.wait(), pause)
            except TimeoutError:
                continue

    async def _run(self, number: int) -> tuple[asyncio.subprocess.Process, str]:
        """Run one worker to its end; return it, and its line about a failed start."""
        metrics = self._folder / "metrics"
        order = WorkerOrder(number, self._count, str(self._folder), self._listener.fileno())
        # `python -m plumbline` has the working directory in its path, the installed command has not: as the parent.
        isolation = [] if getattr(sys.modules["__main__"], "__spec__", None) else ["-P"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *isolation,
            *("-m", "plumbline.cli.main", "serve", "--worker", json.dumps(asdict(order))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, _METRICS_VARIABLE: str(metrics)},
            pass_fds=(self._listener.fileno(),),
            # Ctrl-C reaches the parent alone: a second signal would end the worker without its answers.
            process_group=0,
        )
        self._processes[number] = process
        if self._stopping.is_set():
            process.terminate()
        report = (await process.stdout.readline()).decode() if process.stdout else ""
        if report == _READY:
            self._ready.add(number)
            if len(self._ready) == self._count and not self._has_started:
                self._has_started = True
                self._on_ready()
        await process.wait()
        del self._processes[number]
        # `prometheus_client.multiprocess.mark_process_dead`, without its import.
        for gauge in metrics.glob(f"gauge_live*_{process.pid}.db"):
            gauge.unlink(missing_ok=True)
        return process, "" if report == _READY else report


@contextmanager
def worker_folder(data_dir: Path) -> Iterator[Path]:
    """Create a folder for files that workers share, mode 0700, and remove it at the end.

    Folders of services that were killed are removed, too: verdicts with quotes may be in them.

    Raises:
        ConfigurationError: the data folder cannot be written.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in data_dir.glob("workers-*"):
            _remove_if_dead(old)
        fresh = Path(tempfile.mkdtemp(prefix=".workers-", dir=data_dir.absolute()))
        lock = os.open(fresh / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        # Locked before it has the name by which others look for dead ones.
        try_lock(lock)
        folder = fresh.rename(fresh.with_name(fresh.name.removeprefix(".")))
        (folder / "metrics").mkdir()
    except OSError as error:
        raise ConfigurationError(f"{data_dir}: several workers share files there: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_if_dead(folder: Path) -> None:
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        if try_lock(lock):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
