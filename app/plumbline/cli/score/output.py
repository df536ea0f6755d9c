"""Output of a run: result lines in a locked journal, and the state by which an interrupted run is resumed."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.cli.score.options import WHOLE, Shard
from plumbline.cli.score.source import InputFile, identify_file
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import file_stamp, replace_file, try_lock
from plumbline.judging.ports.exchange import Usage
from plumbline.rows.records.data_file import drop_torn_line, parse_row_format
from plumbline.rows.records.result_table import open_result_table
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.rows.run_identity import Choice, differences
from plumbline.rows.scored_row import RowStatus, ScoredRow, failed_row
from plumbline.schemas.problem import INTERNAL

_RESTART: Final = "--restart begins anew"
_VERSION: Final = 1
_FILE_MODE: Final = 0o666
_LOCK_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class RunState:
    """State of one run, as it is stored next to the results.

    Args:
        input: the file that is scored.
        choices: the run's identity, see `rows.run_identity`.
        is_complete: every row is written.
        result_bytes: size of the complete results.
    """

    input: InputFile
    choices: Mapping[str, Choice]
    is_complete: bool = False
    result_bytes: int = 0
    version: int = _VERSION

    def differences(self, now: "RunState") -> list[str]:
        """Return one line for each reason why rows of this run and of `now` may not lie in one file."""
        found = differences(self.choices, now.choices)
        if self.input.bytes != now.input.bytes:
            return [f"the input had {self.input.bytes} bytes and has {now.input.bytes}", *found]
        return ["the input has other content", *found] if self.input.digest != now.input.digest else found


def load_state(path: Path) -> RunState | None:
    """Return the stored state; None if there is none.

    Raises:
        InvalidInput: the file is no such state, or of another version.
    """
    try:
        state = msgspec.json.decode(path.read_bytes(), type=RunState)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    except ValueError:
        state = None
    if state is None or state.version != _VERSION:
        raise InvalidInput(f"is no state of a run that this version can resume; {_RESTART}", place=path.name)
    return state


def save_state(state: RunState, path: Path) -> None:
    """Write the state atomically. Raises InvalidInput: it cannot be written."""
    replace_file(path, msgspec.json.encode(state) + b"\n", mode=_FILE_MODE)


class ResultFiles(NamedTuple):
    """Files of one output: the results, their lines until they are complete, and the state."""

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
    """Output of one run; a context manager that holds the lock on its journal.

    Attributes:
        state: identity of the run. `state.is_complete`: nothing is left to do, and `journal` is None.

    Args:
        source: the input.
        identity: of this run, see `rows.run_identity`.
        restart: discard what is there.

    Raises:
        InvalidInput: the results there were made otherwise, are not ours, are being written, or cannot be.
    """

    def __init__(
        self, files: ResultFiles, source: Path, identity: Mapping[str, Choice], *, restart: bool = False
    ) -> None:
        self.files = files
        self.journal: Journal | None = None
        before = None if restart else load_state(files.state)
        has_target = not restart and files.target.exists()
        fresh = RunState(identify_file(source, before.input if before else None), identity)
        if has_target:
            self._check_target(before, fresh)
            if before is not None and before.is_complete and not files.lines.exists():
                self.state = before
                return
        self.journal = Journal(files.lines)
        try:
            if restart:
                self.journal.clear()
            if not self.journal.size() and not has_target:
                # No row was written, or the results were taken away: nothing depends on the earlier choices
                before = None
            elif before is None:
                detail = f"holds lines of a run that nothing is known of; {_RESTART}"
                raise InvalidInput(detail, place=files.lines.name)
            else:
                _check_same(files, before, fresh)
            self.state = fresh if before is None else replace(before, is_complete=False, result_bytes=0)
            # Before the first line: lines without a state belong to no run
            save_state(self.state, files.state)
        except BaseException:
            self.journal.close()
            raise

    @property
    def result_lines(self) -> Path | None:
        """Return the results as lines; None for a table that was made earlier."""
        if self.files.form == "jsonl" and self.state.is_complete:
            return self.files.target
        return self.files.lines if self.journal is not None else None

    def finish(self) -> None:
        """Give the results their name; a table is made from the lines, which stay until this is closed.

        Raises:
            InvalidInput: it cannot be written.
        """
        if self.journal is None:
            return
        self.journal.sync()
        if self.files.form == "jsonl":
            self._save(replace(self.state, is_complete=True, result_bytes=self.journal.size()))
            try:
                self.files.lines.replace(self.files.target)
            except OSError as error:
                raise InvalidInput(f"cannot be written ({error.strerror})", place=self.files.target.name) from error
        else:
            decoder, files = msgspec.json.Decoder(dict[str, Any]), self.files
            with files.lines.open("rb") as lines, open_result_table(files.target, format=files.form) as writer:
                for line in lines:
                    writer.write(decoder.decode(line))
            size = self.files.target.stat().st_size
            self._save(replace(self.state, is_complete=True, result_bytes=size))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the files; the lines of a finished table are removed."""
        if self.journal is None:
            return
        if self.files.form != "jsonl" and self.state.is_complete:
            self.files.lines.unlink(missing_ok=True)
        self.journal.close()

    def _save(self, state: RunState) -> None:
        self.state = state
        save_state(state, self.files.state)

    def _check_target(self, before: RunState | None, fresh: RunState) -> None:
        files = self.files
        if before is None:
            raise InvalidInput(
                f"exists and is no output of this command; {_RESTART} and replaces it", place=files.target.name
            )
        _check_same(files, before, fresh)
        if before.is_complete and not files.lines.exists() and files.target.stat().st_size != before.result_bytes:
            raise InvalidInput(f"was changed since it was written; {_RESTART} and replaces it", place=files.target.name)


def _check_same(files: ResultFiles, before: RunState, fresh: RunState) -> None:
    different = before.differences(fresh)
    if different:
        what = "was made" if before.is_complete else "is half made"
        raise InvalidInput(f"{what} from something else: {'; '.join(different)}; {_RESTART}", place=files.target.name)


class Journal:
    """Result lines of a run: line N is row N of its shard. Locked while it is open.

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

    def written(self, shard: Shard = WHOLE) -> Iterator[ResultRow]:
        """Yield the rows so far, in order. Raises InvalidInput: a line is no result, or not that of its row."""
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines):
                found, row = read_line(line), shard.file_row(number)
                if isinstance(found, str) or found.row != row:
                    detail = (
                        f"line {number + 1} is not the result of row {row}; was the file edited? --restart begins anew"
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
        self._file.truncate(0)
        self._file.seek(0)

    def size(self) -> int:
        """Return the bytes written, those of earlier runs included."""
        return os.fstat(self._file.fileno()).st_size

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the file; its lines stay."""
        self._file.close()


def outcome_of(row: ResultRow) -> ScoredRow:
    """Return the counted outcome of a row of results, with an empty `line`."""
    result, error = row.result, row.error
    if result is None:
        is_ours = error is not None and error.status >= INTERNAL.status
        return failed_row(row.row, b"", RowStatus.FAILED if is_ours else RowStatus.INVALID)
    usage = Usage(**msgspec.structs.asdict(result.usage))
    is_degraded = "degraded" in result.flags
    return ScoredRow(row.row, b"", RowStatus(result.status), result.tier, is_degraded, usage, passed=result.passed)


def _open_locked(path: Path) -> BinaryIO:
    """Open the file for reading and writing, with a lock that ends with it."""
    for _ in range(_LOCK_TRIES):
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
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
