"""The real service in processes that can be killed and started again at once, forked off one that has imported all."""

import functools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

# The variable that names the port of a service that is to be asked; without it, any.
PORT = "KILLABLE_PORT"


def serve() -> int:
    """Run the service."""
    return _command("serve", "--port", os.environ.get(PORT, "0"))


def work() -> int:
    """Run a worker."""
    return _command("worker")


class KillableService:
    """Start `run` as often as asked; each time in a process of its own under the same settings."""

    def __init__(self, pipe: Connection, environment: Mapping[str, str], run: Callable[[], int]) -> None:
        self._pipe = pipe
        self._environment = dict(environment)
        self._run = run
        self.alive: set[int] = set()

    def start(self) -> int:
        """Return the process id of a new one; it begins to work at once."""
        self._pipe.send((self._run, self._environment))
        pid = int(self._pipe.recv())
        self.alive.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """End one as the system would: no signal handler runs. It is gone when this returns."""
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def end(self, pid: int) -> int:
        """End one as an operator would; return its exit code."""
        os.kill(pid, signal.SIGTERM)
        return self.wait(pid)

    def wait(self, pid: int) -> int:
        """Return the exit code of one that ends by itself."""
        self._pipe.send(pid)
        self.alive.discard(pid)
        return int(self._pipe.recv())


@contextmanager
def killable_service(environment: Mapping[str, str], run: Callable[[], int] = serve) -> Iterator[KillableService]:
    """Services, or workers, with these PLUMBLINE_* variables; none is left when the context ends."""
    service = KillableService(_forking_process(), environment, run)
    try:
        yield service
    finally:
        for pid in list(service.alive):
            service.kill(pid)


@functools.cache
def _forking_process() -> Connection:
    """Start the process that forks, once for all tests: what it imports takes seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=_fork_services, args=(theirs,), daemon=True).start()
    return ours


def _fork_services(pipe: Connection) -> None:
    import plumbline.main
    import plumbline.rows.jobs.store  # noqa: F401

    with suppress(EOFError):
        while True:
            message = pipe.recv()
            if isinstance(message, int):
                _, status = os.waitpid(message, 0)
                pipe.send(os.waitstatus_to_exitcode(status))
                continue
            run, environment = message
            pid = os.fork()
            if pid == 0:
                os.environ.update({"PLUMBLINE_LOG_LEVEL": "ERROR", **environment})
                _become(run)
            pipe.send(pid)


def _become(run: Callable[[], int]) -> None:
    """Run it in this process, which ends with it."""
    code = 1
    try:
        code = run()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def _command(*arguments: str) -> int:
    from plumbline.cli.main import main

    return main(list(arguments))
