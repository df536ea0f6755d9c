"""The real service in a process that can be killed and started again at once: forked off one that has imported all."""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection

# The variable that names the port of a service that is to be asked; without it, any.
PORT = "KILLABLE_PORT"


class KillableService:
    """Starts the service, or workers, as often as it is told; each is a process of its own under the same settings."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def start(self) -> int:
        """The process id of a new one; it begins to work at once."""
        self._pipe.send("start")
        return int(self._pipe.recv())

    def kill(self, pid: int) -> None:
        """Ends one as the system would: no signal handler runs. It is gone when this returns."""
        os.kill(pid, signal.SIGKILL)
        self._pipe.send(pid)
        self._pipe.recv()

    def end(self, pid: int) -> int:
        """Ends one as an operator would; its exit code."""
        os.kill(pid, signal.SIGTERM)
        self._pipe.send(pid)
        return int(self._pipe.recv())


@contextmanager
def killable_service(environment: Mapping[str, str], *, is_worker: bool = False) -> Iterator[KillableService]:
    """Services, or workers, with these PLUMBLINE_* variables; none is left when the context ends."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_fork_services, args=(theirs, dict(environment), is_worker))
    process.start()
    try:
        yield KillableService(ours)
    finally:
        ours.send("end")
        process.join(10)
        process.terminate()


def _fork_services(pipe: Connection, environment: dict[str, str], is_worker: bool) -> None:
    os.environ.update(environment)
    os.environ.setdefault("PLUMBLINE_LOG_LEVEL", "ERROR")
    # Imported here and not by each service: it takes seconds.
    import plumbline.main
    import plumbline.rows.jobs.store  # noqa: F401

    alive: set[int] = set()
    while (message := pipe.recv()) != "end":
        if message == "start":
            pid = os.fork()
            if pid == 0:
                _become(["worker"] if is_worker else ["serve", "--port", os.environ.get(PORT, "0")])
            alive.add(pid)
            pipe.send(pid)
        else:
            _, status = os.waitpid(message, 0)
            alive.discard(message)
            pipe.send(os.waitstatus_to_exitcode(status))
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(arguments: list[str]) -> None:
    """The command, in this process, which ends with it."""
    from plumbline.cli.main import main

    code = 1
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)
