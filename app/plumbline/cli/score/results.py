"""Output of a run: result lines that grow in a locked file, and the digest by which an interrupted run is resumed."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.cli.score.options import WHOLE, Shard
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import file_stamp, replace_file, try_lock
from plumbline.rows.records.data_file import drop_torn_line, parse_row_format
from plumbline.rows.records.result_table import open_result_table
from plumbline.rows.report.result_lines import ResultRow, read_line

_RESTART: Final = "--restart begins anew"
_FILE_MODE: Final = 0o666
_LOCK_TRIES: Final = 10


def digest_of(identity: Mapping[str, object]) -> str:
    """Return one digest of all that decides the results; values are as JSON takes them, or become text."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


class ResultFiles(NamedTuple):
    """Files of one output: the results, their lines until they are complete, and the digest of what makes them."""

    target: Path
    form: str
    lines: Path
    state: Path


def result_files(path: Path, form: str | None = None) -> ResultFiles:
    """Return the files of an output; tables are made from lines at the end.

    Raises:
        InvalidInput: its form is unknown, or none that results are written in.
    """
    form_, name = parse_row_format(path, form), path.name
    if form_ == "json" or (form is None and name.lower().endswith(".gz")):
        raise InvalidInput("results are written as jsonl, csv, tsv or parquet, not compressed", place=name)
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput("is no file; expected the name of a new file", place=name)
    lines = f"{name}.partial" if form_ == "jsonl" else f"{name}.lines.partial"
    return ResultFiles(target, form_, target.with_name(lines), target.with_name(f"{name}.state"))


class RunOutput:
    """Result lines of one run: line N is row N of its shard. A context manager that holds the lock on them.

    A line is handed to the operating system as soon as it is written: a killed process loses none. A torn last line,
    as a process killed while writing leaves it, is cut off when the file is opened.

    Attributes:
        is_complete: every row is written; nothing is left to do.

    Args:
        digest: of the options and the input of this run, see `digest_of`.
        restart: discard what is there.

    Raises:
        InvalidInput: the results there were made otherwise, are not ours, are being written, or cannot be.
    """

    def __init__(self, files: ResultFiles, digest: str, *, restart: bool = False) -> None:
        self.files = files
        self._file: BinaryIO | None = None
        known = None if restart else _read_digest(files.state)
        has_target = not restart and files.target.exists()
        if has_target:
            _check(files.target.name, known, digest, "exists and is no output of this command")
        self.is_complete = has_target and not files.lines.exists()
        if self.is_complete:
            return
        try:
            self._file = _open_locked(files.lines)
            drop_torn_line(self._file)
            if restart:
                self._file.seek(0)
                self._file.truncate()
            # Without a row, nothing depends on the earlier choices.
            if self._file.tell():
                _check(files.lines.name, known, digest, "holds lines of a run that nothing is known of")
            # Before the first line: lines without a digest belong to no run.
            replace_file(files.state, f"{digest}\n".encode(), mode=_FILE_MODE)
        except OSError as error:
            self.close()
            raise InvalidInput(f"cannot be written ({error.strerror})", place=files.lines.name) from error
        except BaseException:
            self.close()
            raise

    @property
    def result_lines(self) -> Path | None:
        """Return the results as lines; None for a table that was made earlier."""
        if self.files.form == "jsonl" and self.is_complete:
            return self.files.target
        return self.files.lines if self._file is not None else None

    def written(self, shard: Shard = WHOLE) -> Iterator[ResultRow]:
        """Yield the rows so far, in order. Raises InvalidInput: a line is no result, or not that of its row."""
        with self.files.lines.open("rb") as lines:
            for number, line in enumerate(lines):
                found, row = read_line(line), shard.file_row(number)
                if isinstance(found, str) or found.row != row:
                    detail = f"line {number + 1} is not the result of row {row}; was the file edited? {_RESTART}"
                    raise InvalidInput(detail, place=self.files.lines.name)
                yield found

    def write(self, line: bytes) -> None:
        """Append the line of the next row; `line` has no line end.

        Raises:
            InvalidInput: the disk is full, or the file cannot be written for another reason.
        """
        # Unbuffered: one call, so that a kill leaves whole lines and at most one torn one
        view = memoryview(line + b"\n")
        try:
            while view and self._file is not None:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self.files.lines.name) from error

    def finish(self) -> None:
        """Give the results their name; a table is made from the lines, which stay until this is closed.

        Raises:
            InvalidInput: it cannot be written.
        """
        files = self.files
        try:
            if self._file is not None:
                os.fsync(self._file.fileno())
            if files.form == "jsonl":
                files.lines.replace(files.target)
            else:
                decoder = msgspec.json.Decoder(dict[str, Any])
                with files.lines.open("rb") as lines, open_result_table(files.target, format=files.form) as writer:
                    for line in lines:
                        writer.write(decoder.decode(line))
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=files.target.name) from error
        self.is_complete = True

    def close(self) -> None:
        """Release the files; the lines of a finished table are removed."""
        if self._file is None:
            return
        if self.is_complete and self.files.form != "jsonl":
            self.files.lines.unlink(missing_ok=True)
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_digest(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def _check(name: str, known: str | None, digest: str, unknown: str) -> None:
    """Raise InvalidInput unless results of a `known` digest may be continued as those of `digest`."""
    if known is None:
        raise InvalidInput(f"{unknown}; {_RESTART} and replaces it", place=name)
    if known != digest:
        made = "was made with other options, from another input or by another version of Plumbline"
        raise InvalidInput(f"{made}; {_RESTART}", place=name)


def _open_locked(path: Path) -> BinaryIO:
    """Open the file for reading and writing, with a lock that ends with it."""
    for _ in range(_LOCK_TRIES):
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE), "r+b", buffering=0)
        try:
            if not try_lock(file.fileno()):
                raise InvalidInput("another run writes to it; wait for it, or name another output", place=path.name)
            # Between open and lock another run may have finished it, and renamed it to the results
            now = file_stamp(path)
            if now is not None and now.inode == os.fstat(file.fileno()).st_ino:
                return file
        except BaseException:
            file.close()
            raise
        file.close()
    raise InvalidInput("another run writes to it", place=path.name)
