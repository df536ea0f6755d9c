"""Journal of a run: its result lines so far, in input order, in a file that one process at a time may write."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import try_lock
from plumbline.judging.ports.exchange import Usage
from plumbline.rows.records.data_file import drop_torn_line
from plumbline.rows.scored_row import RowStatus, ScoredRow

_LOCK_TRIES: Final = 10
_OUR_FAULT: Final = 500
_BUSY: Final = "another run writes to it; wait for it, or name another output"


class WrittenRow(NamedTuple):
    """Counted fields of a result line. `faithfulness` is None without a score, `custom_id` if it could not be read."""

    row: int
    custom_id: str | None
    faithfulness: float | None
    scored: ScoredRow


class Journal:
    """Result lines of a run: line N is row N. Locked while it is open.

    A line is handed to the operating system as soon as it is written: a killed process loses none. A torn last line,
    as a process killed while writing leaves it, is cut off when the file is opened.

    Raises:
        InvalidInput: it cannot be opened, or another run has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = _open_locked(path)
            drop_torn_line(self._file)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error

    def written(self) -> Iterator[WrittenRow]:
        """Yield the rows so far, in order.

        Raises:
            InvalidInput: a line is no result, or not that of its row.
        """
        with self.path.open("rb") as lines:
            for row, line in enumerate(lines):
                found = read_written(line)
                if found is None or found.row != row:
                    detail = (
                        f"line {row + 1} is not the result of row {row}; was the file edited? --restart begins anew"
                    )
                    raise InvalidInput(detail, place=self.path.name)
                yield found

    def write(self, line: bytes) -> None:
        """Append the line of the next row; `line` has no line end.

        Raises:
            InvalidInput: the disk is full, or the file cannot be written for another reason.
        """
        try:
            # Unbuffered: one call, so that a kill leaves whole lines and at most one torn one
            view = memoryview(line + b"\n")
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self.path.name) from error

    def clear(self) -> None:
        """Delete all lines."""
        self._file.truncate(0)
        self._file.seek(0)

    def size(self) -> int:
        """Return the bytes written, those of earlier runs included."""
        return os.fstat(self._file.fileno()).st_size

    def sync(self) -> None:
        """Flush the lines to disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the file; its lines stay."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


class _Usage(msgspec.Struct):
    calls: int
    unmetered_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost: float | None


class _Result(msgspec.Struct):
    status: RowStatus
    tier: str | None
    faithfulness: float | None
    usage: _Usage
    flags: list[str]


class _Error(msgspec.Struct):
    status: int


class _Line(msgspec.Struct):
    custom_id: str | None
    row: int
    result: _Result | None = None
    error: _Error | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)


def read_written(line: bytes) -> WrittenRow | None:
    """Return the counted fields of a result line; None if it is none as in `schemas.rows`. `scored.line` is empty."""
    try:
        found = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    result, error = found.result, found.error
    if result is not None:
        usage = Usage(**msgspec.structs.asdict(result.usage))
        scored = ScoredRow(found.row, b"", result.status, result.tier, "degraded" in result.flags, usage)
        return WrittenRow(found.row, found.custom_id, result.faithfulness, scored)
    if error is not None:
        status = RowStatus.FAILED if error.status >= _OUR_FAULT else RowStatus.INVALID
        scored = ScoredRow(found.row, b"", status, None, is_degraded=False, usage=Usage())
        return WrittenRow(found.row, found.custom_id, None, scored)
    return None


def _open_locked(path: Path) -> BinaryIO:
    """Open the file for reading and writing, with a lock that ends with it."""
    for _ in range(_LOCK_TRIES):
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        try:
            if not try_lock(file.fileno()):
                raise InvalidInput(_BUSY, place=path.name)
            # Between open and lock another run may have finished it, and renamed it to the results
            if _is_same_file(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()
    raise InvalidInput("another run writes to it", place=path.name)


def _is_same_file(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
