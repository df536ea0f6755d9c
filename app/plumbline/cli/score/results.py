"""Output of a run: result lines that grow in a locked file, and the digest by which an interrupted run is resumed."""

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.cli.score.options import WHOLE, Shard
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write, file_stamp, replace_file, try_lock
from plumbline.rows.records.data_file import drop_torn_line, parse_row_format
from plumbline.rows.records.result_table import DELIMITER_BY_FORM, ResultTable
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
    """Files of one output: the results, the lines while they grow, those of a complete run, and the state."""

    target: Path
    form: str
    growing: Path
    complete: Path
    state: Path


def result_files(path: Path, form: str | None = None) -> ResultFiles:
    """Return the files of an output; tables are made from lines at the end. Raises InvalidInput for an unknown form."""
    form_, name = parse_row_format(path, form), path.name
    if form_ not in ("jsonl", "csv", "tsv") or (form is None and name.lower().endswith(".gz")):
        raise InvalidInput("results are written as jsonl, csv or tsv, not compressed", place=name)
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InvalidInput("is no file; expected the name of a new file", place=name)
    complete = target if form_ == "jsonl" else target.with_name(f"{name}.lines.gz")
    growing = f"{name}.partial" if form_ == "jsonl" else f"{name}.lines.partial"
    return ResultFiles(target, form_, target.with_name(growing), complete, target.with_name(f"{name}.state"))


class RunOutput:
    """Result lines of one run, one for each row of its shard. A context manager that holds the lock on them.

    A line is handed to the operating system as soon as it is written: a killed process loses none. A torn last line,
    as a process killed while writing leaves it, is cut off when the file is opened. Where rows of a complete run are
    scored again, its results stay until the new lines, the kept ones among them, are whole.

    Attributes:
        is_complete: every row is written; nothing is left to do.
        done: the rows that have a line, once `rows` is read.

    Args:
        digest: of the options and the input of this run, see `digest_of`.
        restart: discard what is there.

    Raises InvalidInput: the results there were made otherwise, are not ours, are being written, or cannot be.
    """

    def __init__(self, files: ResultFiles, digest: str, *, shard: Shard = WHOLE, restart: bool = False) -> None:
        self.files = files
        self.done: set[int] = set()
        self._digest, self._shard = digest, shard
        self._file: BinaryIO | None = None
        self._is_retry = False
        known, word = (None, "") if restart else _read_state(files.state)
        has_target = not restart and files.target.exists()
        if has_target:
            _check(files.target.name, known, digest, "exists and is no output of this command")
        self.is_complete = has_target and not files.growing.exists()
        if not self.is_complete:
            is_retry = has_target and word == _RETRY and files.complete.exists()
            self._open(known, restart=restart, is_retry=is_retry)

    def retry(self) -> int:
        """Begin to score rows of a complete run again that have no verdict for a passing reason; return how many."""
        count = sum(row.may_be_retried for _, row in self._read(self.files.complete))
        if count:
            self.is_complete = False
            self._open(self._digest, is_retry=True)
        return count

    def _open(self, known: str | None, *, restart: bool = False, is_retry: bool = False) -> None:
        files, self._is_retry = self.files, is_retry
        # Before the first line: lines without a digest belong to no run, and those of a retry know that they are.
        state = f"{self._digest} {_RETRY}\n" if is_retry else f"{self._digest}\n"
        try:
            if is_retry:
                replace_file(files.state, state.encode(), mode=_FILE_MODE)
            self._file = _open_locked(files.growing)
            drop_torn_line(self._file)
            if restart:
                self._file.seek(0)
                self._file.truncate()
            # Without a row, nothing depends on the earlier choices.
            if self._file.tell():
                _check(files.growing.name, known, self._digest, "holds lines of a run that nothing is known of")
            replace_file(files.state, state.encode(), mode=_FILE_MODE)
            if is_retry:
                there = {row.row for _, row in self._read(files.growing)}
                for line, row in self._read(files.complete):
                    if row.row not in there and not row.may_be_retried:
                        self.write(line.rstrip(b"\n"), row.row)
        except OSError as error:
            self.close()
            raise InvalidInput(f"cannot be written ({error.strerror})", place=files.growing.name) from error
        except BaseException:
            self.close()
            raise

    def rows(self) -> Iterator[tuple[bytes, ResultRow]]:
        """Yield the lines so far with their rows; raise InvalidInput for a bad or repeated one."""
        self.done.clear()
        for line, row in self._read(self.files.complete if self.is_complete else self.files.growing):
            self.done.add(row.row)
            yield line, row

    def _read(self, path: Path) -> Iterator[tuple[bytes, ResultRow]]:
        seen: set[int] = set()
        for number, line in enumerate(_lines_of(path), 1):
            row = read_line(line)
            if isinstance(row, str) or row.row in seen or not self._shard.has(row.row):
                detail = f"line {number} is not the result of a row of its own; was the file edited? {_RESTART}"
                raise InvalidInput(detail, place=path.name)
            seen.add(row.row)
            yield line, row

    def write(self, line: bytes, row: int) -> None:
        """Append the line of a row, without a line end; raise InvalidInput."""
        # Unbuffered: one call, so that a kill leaves whole lines and at most one torn one
        view = memoryview(line + b"\n")
        try:
            while view and self._file is not None:
                view = view[self._file.write(view) or 0 :]
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self.files.growing.name) from error
        self.done.add(row)

    def finish(self) -> None:
        """Give the results their name; a table is made from the lines, which stay beside it. Raises InvalidInput."""
        files = self.files
        try:
            if self._file is not None:
                os.fsync(self._file.fileno())
            if self._is_retry:
                self._sort()
            # All rows are there: were it killed now, nothing would be left but to finish
            replace_file(files.state, f"{self._digest}\n".encode(), mode=_FILE_MODE)
            if files.form == "jsonl":
                files.growing.replace(files.target)
            else:
                self._write_table()
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=files.target.name) from error
        self.is_complete = True

    def _sort(self) -> None:
        """Put the lines in the order of their rows: those of rows that were scored again stand behind the kept ones."""
        places, offset = [], 0
        for line, row in self._read(self.files.growing):
            places.append((row.row, offset, len(line)))
            offset += len(line)
        with self.files.growing.open("rb") as lines, atomic_write(self.files.growing) as file:
            for _, start, size in sorted(places):
                lines.seek(start)
                file.write(lines.read(size))

    def _write_table(self) -> None:
        files, decoder = self.files, msgspec.json.Decoder(dict[str, Any])
        with files.growing.open("rb") as lines, atomic_write(files.target) as file:
            table = ResultTable(file, DELIMITER_BY_FORM[files.form])
            for line in lines:
                table.write(decoder.decode(line))
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
