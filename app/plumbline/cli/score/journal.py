"""The result lines so far, in input order, in a file that one run at a time may write to."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from plumbline.cli.score.written_rows import WrittenRow, read_written
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import drop_torn_line

_LOCK_TRIES: Final = 10


class Journal:
    """The lines of a run: line N is row N. Locked for as long as it is open, so that no two runs write into it.

    A line is handed to the operating system as soon as it is written: a killed process loses none. What stands behind
    the last line end, as a process killed in the midst of writing leaves it, is cut off when the file is opened.

    Raises:
        InvalidInput: it cannot be opened, or another run has it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = _locked(path)
            drop_torn_line(self._file)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error

    def written(self) -> Iterator[WrittenRow]:
        """What the lines so far say, in order; streams.

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
            self._write_all(line + b"\n")
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self.path.name) from error

    def clear(self) -> None:
        """Begin anew."""
        self._file.truncate(0)
        self._file.seek(0)

    def size(self) -> int:
        """Bytes written, those of earlier runs included."""
        return os.fstat(self._file.fileno()).st_size

    def sync(self) -> None:
        """Have the lines on the disk itself."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file; its lines stay."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]


def _locked(path: Path) -> BinaryIO:
    """The file, open for reading and writing at its end, with a lock that ends with it."""
    for _ in range(_LOCK_TRIES):
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        try:
            _lock(file, path)
            # Between open and lock another run may have been done with it, and given it the name of the results
            if _is_still(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()
    raise InvalidInput("another run writes to it", place=path.name)


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415 - not on every system
    except ImportError:  # pragma: no cover
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InvalidInput("another run writes to it; wait for it, or name another output", place=path.name) from None


def _is_still(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
