"""Work in a process of its own: for calls that would hold the interpreter, and that can be ended."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from plumbline.ground.errors import PlumblineError

P = ParamSpec("P")
T = TypeVar("T")

# Below our own threads, which answer everybody else.
_NICENESS: Final = 5


def run_in_child(work: Callable[P, T], timeout_seconds: float, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function of a module returns, run by a new process of this interpreter; blocks the thread.

    Raises PlumblineError as `work`; RuntimeError if it ended without an answer, or was killed after so many seconds.
    """
    # S603: our own interpreter
    command = [sys.executable, "-P", "-m", "plumbline.ground.child_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # noqa: S603
        try:
            written, _ = child.communicate(pickle.dumps((work, args, kwargs)), timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            raise RuntimeError(f"{work.__name__} did not end within {timeout_seconds:g} s") from None
    if child.returncode:
        raise RuntimeError(f"the process of {work.__name__} ended with {child.returncode}")
    # S301: written by the process above
    result: T | PlumblineError = pickle.loads(written)  # noqa: S301
    if isinstance(result, PlumblineError):
        raise result
    return result


def main() -> None:
    """Run the work on stdin, and write its result or its error to stdout."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(_NICENESS)
    # S301: from `run_in_child`
    work, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301
    try:
        result = work(*args, **kwargs)
    except PlumblineError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result))


if __name__ == "__main__":
    main()
