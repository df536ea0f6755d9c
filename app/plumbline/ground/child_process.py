"""Work in a process of its own: for calls that would hold the interpreter, and that can be ended."""

import gc
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from types import FrameType
from typing import Any, BinaryIO, Final, ParamSpec, TypeVar

from plumbline.ground.errors import PlumblineError

P = ParamSpec("P")
T = TypeVar("T")

# Below our own threads, which answer everybody else.
_NICENESS: Final = 5
_COMMAND: Final = (sys.executable, "-P", "-m", "plumbline.ground.child_process")
_FORKS: Final = "forks"
_MOST_HEADER_BYTES: Final = 1_000


class ChildProcesses:
    """Runs functions of modules, each call in a process that ends with it: its memory is given back, its time bounded.

    On Linux a small process forks for each. It starts with the first call and keeps the modules of the work imported,
    which takes longer than most of the work. Elsewhere a fork is not safe, and each call starts an interpreter.
    """

    def __init__(self, *, can_fork: bool = sys.platform == "linux") -> None:
        self._can_fork = can_fork
        self._lock = Lock()
        self._forker: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._is_closed = False

    def run(self, work: Callable[P, T], timeout_seconds: float, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work` returns in a process of its own; blocks the thread.

        Raises PlumblineError as `work`; RuntimeError if the process ended without an answer, as when it was killed or
        had run for so many seconds.
        """
        started = time.monotonic()
        run = self._run_forked if self._can_fork else _run_alone
        written = run((work, args, kwargs), timeout_seconds)
        try:
            # S301: written by a process of ours
            result: T | PlumblineError = pickle.loads(written)  # noqa: S301
        except (EOFError, pickle.UnpicklingError):
            seconds = time.monotonic() - started
            detail = f"the process of {work.__name__} ended without an answer after {seconds:.2g} s"
            raise RuntimeError(f"{detail}; it may take {timeout_seconds:g} s, and errors are on stderr") from None
        if isinstance(result, PlumblineError):
            raise result
        return result

    def close(self) -> None:
        """End all of them; calls under way raise RuntimeError, as later ones do."""
        with self._lock:
            self._is_closed = True
            if self._forker is not None:
                process, control = self._forker
                control.close()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _run_forked(self, call: tuple[Callable[..., Any], Any, Any], seconds: float) -> bytes:
        ours, theirs = socket.socketpair()
        # It died where the connection breaks.
        with ours, suppress(BrokenPipeError, ConnectionResetError):
            with theirs, self._lock:
                header = f"{seconds} {call[0].__module__}".encode()
                socket.send_fds(self._control(), [header], [theirs.fileno()])
            with ours.makefile("wb") as stream:
                pickle.dump(call, stream)
            ours.shutdown(socket.SHUT_WR)
            with ours.makefile("rb") as answer:
                return answer.read()
        return b""

    def _control(self) -> socket.socket:
        """Return the socket of the process that forks, which is started unless it lives."""
        if self._is_closed:
            raise RuntimeError("the service is being shut down")
        if self._forker is None or self._forker[0].poll() is not None:
            if self._forker is not None:
                self._forker[1].close()
            ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            with theirs:
                process = subprocess.Popen(  # noqa: S603 - our own interpreter
                    [*_COMMAND, _FORKS],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    # what ends the service from a terminal does not reach work that a graceful shutdown waits for
                    start_new_session=True,
                    # threads of OpenBLAS would start with its import, and be missing after a fork
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
            self._forker = process, ours
        return self._forker[1]


def _run_alone(call: tuple[Callable[..., Any], Any, Any], seconds: float) -> bytes:
    """Return what a new interpreter writes."""
    # S603: our own interpreter
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: S603
        try:
            return child.communicate(pickle.dumps(call), timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            return b""


def _answer(asked: BinaryIO, answer: BinaryIO) -> None:
    """Run the work that was asked for, and write its result or its error."""
    # S301: from `ChildProcesses`
    work, args, kwargs = pickle.load(asked)  # noqa: S301
    try:
        result = work(*args, **kwargs)
    except PlumblineError as error:
        result = error
    pickle.dump(result, answer)
    answer.flush()


def _fork_for_each(control: socket.socket) -> None:
    """Fork for each connection received, until the service closes its end."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        header, connections, *_ = socket.recv_fds(control, _MOST_HEADER_BYTES, 1)
        if not connections:
            # itself and all that it forked
            os.killpg(0, signal.SIGKILL)
        seconds, module = header.decode().split()
        # The child tells what is wrong with it.
        with suppress(Exception):
            importlib.import_module(module)
        gc.freeze()
        with socket.socket(fileno=connections[0]) as connection:
            if os.fork() == 0:
                control.close()
                _answer_and_exit(connection, float(seconds))


def _answer_and_exit(connection: socket.socket, seconds: float) -> None:
    code = 1
    try:
        # Nothing catches the signal: it ends the process, whatever that is at.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with connection.makefile("rb") as asked, connection.makefile("wb") as answer:
            _answer(asked, answer)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # at once: tidying up the interpreter takes as long as a small piece of work
        os._exit(code)


def _reap(_signal: int, _frame: FrameType | None) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Answer what is on stdin; or, if told so, fork for each connection that comes there."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICENESS)
    if _FORKS in sys.argv:
        _fork_for_each(socket.socket(fileno=sys.stdin.fileno()))
    else:
        _answer(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
