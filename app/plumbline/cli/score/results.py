"""Output of a run: result lines that grow in a locked file, and the digest by which an interrupted run is resumed."""

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.cli.score.options import WHOLE, Shard
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write, file_stamp, replace_file, try_lock
from plumbline.rows.records.data_file import drop_torn_line, parse_row_format
from plumbline.rows.records.result_table import open_result_table
from plumbline.rows.report.result_lines import ResultRow, read_line

_RESTART: Final = "--restart begins anew"
_FILE_MODE: Final = 0o666
_LOCK_TRIES: Final = 10
# Second word of the state: the growing lines are those of a complete run, of which some rows are scored again.
_RETRY: Final = "retry"


def digest_of(identity: Mapping[str, object]) -> str:
    """Return one digest of all that decides the results; values are as JSON takes them, or become text."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


class ResultFiles(NamedTuple):
    """Files of one output: the results, the lines while they grow, those of a complete run, and the state.

    `complete` is `target` where that is JSON Lines; the lines of a table stay beside it, for gates and reports.
    """

    target: Path
    form: str
    growing: Path
    complete: Path
    state: Path


def result_files(path: Path, form: str | None = None) -> ResultFiles:
    """Return the files of an output; tables are made from lines at the end.

    Raises InvalidInput: its form is unknown, or none that results are written in.
    """
    form_, name = parse_row_format(path, form), path.name
    if form_ == "json" or (form is None and name.lower().endswith(".gz")):
        raise InvalidInput("results are written as jsonl, csv, tsv or parquet, not compressed", place=name)
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput("is no file; expected the name of a new file", place=name)
    complete = target if form_ == "jsonl" else target.with_name(f"{name}.lines.gz")
    growing = f"{name}.partial" if form_ == "jsonl" else f"{name}.lines.partial"
    return ResultFiles(target, form_, target.with_name(growing), complete, target.with_name(f"{name}.state"))


class RunOutput:
    """Result lines of one run: line N is row N of its shard. A context manager that holds the lock on them.

    A line is handed to the operating system as soon as it is written: a killed process loses none. A torn last line,
    as a process killed while writing leaves it, is cut off when the file is opened. Where rows of a complete run are
    scored again, its results stay until the new lines, the kept ones among them, are whole.

    Attributes:
        is_complete: every row is written; nothing is left to do.
        retried: the rows that are scored again; empty unless the run was complete before.

    Args:
        digest: of the options and the input of this run, see `digest_of`.
        restart: discard what is there.

    Raises:
        InvalidInput: the results there were made otherwise, are not ours, are being written, or cannot be.
    """

    def __init__(self, files: ResultFiles, digest: str, *, shard: Shard = WHOLE, restart: bool = False) -> None:
        self.files = files
        self.retried: frozenset[int] = frozenset()
        self._digest, self._shard = digest, shard
        self._file: BinaryIO | None = None
        self._written = 0
        self._earlier: Iterator[bytes] | None = None
        known, word = (None, "") if restart else _read_state(files.state)
        has_target = not restart and files.target.exists()
        if has_target:
            _check(files.target.name, known, digest, "exists and is no output of this command")
        self.is_complete = has_target and not files.growing.exists()
        if self.is_complete:
            return
        if has_target and word == _RETRY and files.complete.exists():
            self.retried = self._find_retried()
        self._open(known, restart=restart)

    def retry(self) -> bool:
        """Begin to score rows of a complete run again that have no verdict for a passing reason; False without any."""
        self.retried = self._find_retried()
        if self.retried:
            self.is_complete = False
            self._open(self._digest)
        return bool(self.retried)

    def _find_retried(self) -> frozenset[int]:
        return frozenset(row.row for _, row in self._read(self.files.complete) if row.may_be_retried)

    def _open(self, known: str | None, *, restart: bool = False) -> None:
        files = self.files
        # Before the first line: lines without a digest belong to no run, and those of a retry know that they are.
        state = f"{self._digest} {_RETRY}" if self.retried else self._digest
        try:
            if self.retried:
                replace_file(files.state, f"{state}\n".encode(), mode=_FILE_MODE)
            self._file = _open_locked(files.growing)
            drop_torn_line(self._file)
            if restart:
                self._file.seek(0)
                self._file.truncate()
            # Without a row, nothing depends on the earlier choices.
            if self._file.tell():
                _check(files.growing.name, known, self._digest, "holds lines of a run that nothing is known of")
            replace_file(files.state, f"{state}\n".encode(), mode=_FILE_MODE)
        except OSError as error:
            self.close()
            raise InvalidInput(f"cannot be written ({error.strerror})", place=files.growing.name) from error
        except BaseException:
            self.close()
            raise

    def rows(self) -> Iterator[tuple[bytes, ResultRow]]:
        """Yield the lines so far, in order, with their rows.

        Raises InvalidInput: a line is no result, or not that of its row; or the lines of a table are gone.
        """
        if self.is_complete:
            yield from self._read(self.files.complete)
            return
        for line, row in self._read(self.files.growing):
            self._written += 1
            yield line, row

    def _read(self, path: Path) -> Iterator[tuple[bytes, ResultRow]]:
        for number, line in enumerate(_lines_of(path)):
            found, row = read_line(line), self._shard.file_row(number)
            if isinstance(found, str) or found.row != row:
                detail = f"line {number + 1} is not the result of row {row}; was the file edited? {_RESTART}"
                raise InvalidInput(detail, place=path.name)
            yield line, found

    def write(self, line: bytes) -> None:
        """Append the line of the next row; `line` has no line end.

        Raises InvalidInput: the disk is full, or the file cannot be written for another reason.
        """
        self._next_earlier()
        self._append(line)

    def keep_before(self, row: int | None) -> Iterator[bytes]:
        """Append the lines of a complete run before a row that is scored again, or all that are left; yield each.

        Raises InvalidInput as `write`.
        """
        while self._shard.file_row(self._written) != row and (line := self._next_earlier()) is not None:
            self._append(line)
            yield line

    def kept_costs(self) -> Iterator[float | None]:
        """Yield the costs of the rows that are kept and not yet appended."""
        if self.retried:
            rows = (row for _, row in islice(self._read(self.files.complete), self._written, None))
            yield from (row.cost for row in rows if row.row not in self.retried)

    def _next_earlier(self) -> bytes | None:
        if self._earlier is None:
            lines = _lines_of(self.files.complete) if self.retried else iter(())
            self._earlier = islice(lines, self._written, None)
        line = next(self._earlier, None)
        return None if line is None else line.rstrip(b"\n")

    def _append(self, line: bytes) -> None:
        # Unbuffered: one call, so that a kill leaves whole lines and at most one torn one
        view = memoryview(line + b"\n")
        try:
            while view and self._file is not None:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self.files.growing.name) from error
        self._written += 1

    def finish(self) -> None:
        """Give the results their name; a table is made from the lines, which stay beside it.

        Raises InvalidInput: it cannot be written.
        """
        files = self.files
        try:
            if self._file is not None:
                os.fsync(self._file.fileno())
            # All rows are there: were it killed now, nothing would be left but to finish
            replace_file(files.state, f"{self._digest}\n".encode(), mode=_FILE_MODE)
            if files.form == "jsonl":
                files.growing.replace(files.target)
            else:
                self._write_table()
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=files.target.name) from error
        self.is_complete = True

    def _write_table(self) -> None:
        files, decoder = self.files, msgspec.json.Decoder(dict[str, Any])
        with files.growing.open("rb") as lines, open_result_table(files.target, format=files.form) as writer:
            for line in lines:
                writer.write(decoder.decode(line))
        with (
            files.growing.open("rb") as lines,
            atomic_write(files.complete) as file,
            gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        ):
            shutil.copyfileobj(lines, packed)
        files.growing.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines with their ends. Raises InvalidInput: they cannot be read."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            yield from lines
    except (OSError, EOFError) as error:
        raise InvalidInput(
            f"the lines of these results cannot be read ({error}); {_RESTART}", place=path.name
        ) from None


def _read_state(path: Path) -> tuple[str | None, str]:
    """Return the digest and the word behind it; None if there is no state."""
    try:
        digest, _, word = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    return digest, word


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
