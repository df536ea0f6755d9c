"""Steps begun in processes of their own, and heard until they end."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

import msgspec

from plumbline.extras.lab.measuring.apart import CorpusRead, Failed, Progress, Said, SystemMeasured, Task
from plumbline.ground.errors import InvalidInput

# The path of this process as it is: what lies in the user's folder takes no name of ours.
_CODE: Final = (
    "import sys; sys.path[:] = {path!r}; from plumbline.extras.lab.measuring.apart import main; sys.exit(main())"
)
_DECODER: Final[msgspec.json.Decoder[Said]] = msgspec.json.Decoder(Said)

Done = CorpusRead | SystemMeasured
Listener = Callable[[Progress], None]


def done_apart(task: Task, *, log: Path, listen: Listener) -> Done | Failed:
    """What became of the task; a process that dies has failed. It ends with this call, whatever ends the call.

    Raises:
        InvalidInput: the log cannot be written, or no process begun.
    """
    command = [sys.executable, "-c", _CODE.format(path=sys.path)]
    try:
        with log.open("wb") as errors:
            # A session of its own: Ctrl-C is for this process, which then ends the other
            process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
    except OSError as error:
        raise InvalidInput(f"cannot be begun ({error.strerror})", place=log.name) from error
    try:
        return _heard(process, task, listen) or _died(process, log)
    finally:
        if process.returncode is None:
            # With what it began itself; not waited for yet, so the number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                _close(stream)


def _heard(process: "subprocess.Popen[bytes]", task: Task, listen: Listener) -> Done | Failed | None:
    if process.stdin is None or process.stdout is None:
        return None
    try:
        process.stdin.write(msgspec.json.encode(task) + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    for line in process.stdout:
        said = _DECODER.decode(line)
        if not isinstance(said, Progress):
            return said
        listen(said)
    return None


def _died(process: "subprocess.Popen[bytes]", log: Path) -> Failed:
    code = process.wait()
    if code < 0:
        name = signal.Signals(-code).name
        hint = "; was the memory full?" if name == "SIGKILL" else ""
        return Failed(f"its process was ended by {name}{hint} (see logs/{log.name})")
    return Failed(f"its process ended with code {code} (see logs/{log.name})")


def _close(stream: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        stream.close()
