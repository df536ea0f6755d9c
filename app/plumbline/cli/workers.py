"""`plumbline serve --workers N`: uvicorn's supervisor, with what it lacks for a service.

The workers are started by uvicorn (spawned processes that share the listening socket), and a dead or hung one is
replaced. Here: the ready line once all serve, the reason why the service could not start, an end to workers that die
while they start, a bound on the shutdown, and gauges of dead workers.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from plumbline.cli.connections import DrainingServer
from plumbline.ground.errors import ConfigurationError, PlumblineError

# Prometheus' client keeps values in files here; it must be set before it is imported.
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_FAILURE_FILE: Final = "failure"
# A worker that serves and does not answer its parent for so long is killed.
_HANG_SECONDS: Final = 30.0
# Deaths in a row of workers that start, after which a service without any other worker ends.
_MOST_FAILED_STARTS: Final = 3
_LONGEST_PAUSE_SECONDS: Final = 30.0
# After the answers: 5 seconds for rows of jobs, and closing.
_CLOSING_SECONDS: Final = 30.0


class Worker(Process):
    """One process that serves with `DrainingServer`; a file says that it does."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], folder: Path) -> None:
        self._folder = folder
        super().__init__(config, sockets)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        self._server = DrainingServer(self.config, on_started=self._ready_file(os.getpid()).touch)
        super().target(sockets)

    def is_serving(self) -> bool:
        """Return True once the worker serves, without waiting for one that loads, which `is_ready` would do."""
        return self._ready_file(self.pid).exists()

    def _ready_file(self, pid: int | None) -> Path:
        return self._folder / f"ready-{pid}"


class Workers(Multiprocess):
    """Keep `config.workers` processes running until a signal ends the service.

    Args:
        folder: of the workers' metrics, and of the reason why one could not start.
        on_ready: called once, when every worker serves.
    """

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, folder: Path, *, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config, [listener])
        self._folder = folder
        self._on_ready: Callable[[], None] | None = on_ready
        self.processes: list[Worker] = []  # type: ignore[assignment]
        self._ready: set[Worker] = set()
        self._failed_starts = 0
        self._next_start = 0.0
        self._code = 0

    def serve(self) -> int:
        """Return the exit code at the end: 0 after a signal.

        Raises:
            ConfigurationError: a worker could not start because of the settings.
        """
        self.run()
        with suppress(FileNotFoundError):
            raise ConfigurationError((self._folder / _FAILURE_FILE).read_text(encoding="utf-8"))
        return self._code

    def init_processes(self) -> None:
        self.processes = [self._start() for _ in range(self.processes_num)]

    def keep_subprocess_alive(self) -> None:
        """Replace dead and hung workers; end the service if none can start."""
        for index, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if process in self._ready and process.is_alive(timeout=_HANG_SECONDS):
                continue
            if process.exitcode is None and process not in self._ready:
                if process.is_serving():
                    self._ready.add(process)
                    self._failed_starts = 0
            elif time.monotonic() >= self._next_start:
                self._bury(process)
                if not self.should_exit.is_set():
                    self.processes[index] = self._start()
        self._remove_gauges_of_the_dead()
        if self._on_ready is not None and len(self._ready) == len(self.processes):
            self._on_ready()
            self._on_ready = None

    def terminate_all(self) -> None:
        for listener in self.sockets:
            # As long as one process has it open, connections are taken that nothing will accept.
            listener.close()
        super().terminate_all()

    def join_all(self) -> None:
        until = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + _CLOSING_SECONDS
        for process in self.processes:
            process.process.join(max(0.0, until - time.monotonic()))
            if process.exitcode is None:
                structlog.get_logger().error("worker_killed", pid=process.pid)
                process.kill()
        super().join_all()

    def handle_hup(self) -> None:
        """End the service as one process does: settings are those of the start, so a restart would change nothing."""
        self.handle_term()

    def handle_ttin(self) -> None:
        """Ignore the signals by which a terminal stops jobs in the background; uvicorn changes the workers' number."""

    handle_ttou = handle_ttin

    def _start(self) -> Worker:
        process = Worker(self.config, self.sockets, self._folder)
        process.start()
        # The worker has it. With a copy here, its death would not end the wait for an answer of it.
        process.child_conn.close()
        return process

    def _bury(self, process: Worker) -> None:
        was_ready = process in self._ready
        self._ready.discard(process)
        process.kill()
        process.join()
        if process.exitcode == STARTUP_FAILURE:
            self._code = STARTUP_FAILURE
            self.should_exit.set()
            return
        structlog.get_logger().error("worker_died", pid=process.pid, code=process.exitcode, was_serving=was_ready)
        if was_ready:
            return
        self._failed_starts += 1
        self._next_start = time.monotonic() + min(_LONGEST_PAUSE_SECONDS, 2.0 ** (self._failed_starts - 1))
        if self._failed_starts >= _MOST_FAILED_STARTS and not self._ready:
            sys.stderr.write(
                f"plumbline: {self._failed_starts} workers in a row died while they started and none serves, the last "
                f"{_manner(process.exitcode)}\n"
            )
            self._code = 1
            self.should_exit.set()

    def _remove_gauges_of_the_dead(self) -> None:
        """`prometheus_client.multiprocess.mark_process_dead`, without its import."""
        alive = {str(process.pid) for process in self.processes if process.exitcode is None}
        for gauge in self._folder.glob("gauge_live*.db"):
            if gauge.stem.rpartition("_")[2] not in alive:
                gauge.unlink(missing_ok=True)


def report_failure(folder: Path, error: PlumblineError) -> NoReturn:
    """End a worker that cannot start, and the service with it; the first one's reason is the service's."""
    with suppress(FileExistsError), (folder / _FAILURE_FILE).open("x", encoding="utf-8") as file:
        file.write(str(error))
    sys.exit(STARTUP_FAILURE)


def end_with_parent() -> None:
    """End this worker, as at a signal, when its parent dies, however it dies."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _manner(code: int | None) -> str:
    if code is None or code >= 0:
        return f"with exit code {code}"
    name = signal.Signals(-code).name
    return f"by {name}" + (": the system may be out of memory" if name == "SIGKILL" else "")
