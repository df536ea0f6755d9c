"""Where results go, and what lies there already: nothing, a run to go on with, or all of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from plumbline.cli.score.journal import Journal
from plumbline.cli.score.run_state import RunState, differences, load_state, save_state
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.result_table import open_result_table

_RESTART: Final = "--restart begins anew"


class ResultFiles(NamedTuple):
    """The files of one output: the results, their lines until they are whole, and what the run was begun with."""

    target: Path
    form: str
    lines: Path
    state: Path


def result_files(path: Path, form: str | None = None) -> ResultFiles:
    """Those of an output; tables are made from lines at the end.

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


class Output:
    """The output of one run; a context manager that holds the lock on its lines.

    Attributes:
        state: what to go on from. `state.is_complete`: all is there, and there is nothing to do.

    Args:
        state_of: what this run would begin with, given what an earlier one began with.
        restart: forget what is there.

    Raises:
        InvalidInput: what is there was made otherwise, is not ours, is being written, or cannot be.
    """

    def __init__(
        self, files: ResultFiles, state_of: Callable[[RunState | None], RunState], *, restart: bool = False
    ) -> None:
        self.files = files
        before = None if restart else load_state(files.state)
        self._is_there = not restart and files.target.exists()
        if before is not None and not self._is_there and not files.lines.exists():
            # The results were taken away
            before = None
        fresh = state_of(before)
        if self._is_there or before is not None:
            _refuse_others(files, before, fresh)
        self.state = before if before is not None and before.is_complete and not files.lines.exists() else fresh
        self.journal: Journal | None = None
        if not self.state.is_complete:
            self.journal = Journal(files.lines)
            try:
                self._begin(before, restart=restart)
            except BaseException:
                self.journal.close()
                raise

    @property
    def result_lines(self) -> Path | None:
        """The results as lines; None for a table that was made earlier."""
        if self.files.form == "jsonl" and self.state.is_complete:
            return self.files.target
        return self.files.lines if self.journal is not None else None

    def save(self, state: RunState) -> None:
        """Keep how far the run is."""
        self.state = state
        save_state(state, self.files.state)

    def finish(self) -> None:
        """Give the results their name; a table is made from the lines, which stay until this is closed.

        Raises:
            InvalidInput: it cannot be written.
        """
        if self.journal is None:
            return
        self.journal.sync()
        if self.files.form == "jsonl":
            self.save(self.state.complete(self.journal.size()))
            try:
                self.files.lines.replace(self.files.target)
            except OSError as error:
                raise InvalidInput(f"cannot be written ({error.strerror})", place=self.files.target.name) from error
        else:
            table_of_lines(self.files.lines, self.files.target, self.files.form)
            self.save(self.state.complete(self.files.target.stat().st_size))

    def close(self) -> None:
        """Let go of the files; the lines of a table that is made are of no more use."""
        if self.journal is None:
            return
        if self.files.form != "jsonl" and self.state.is_complete:
            self.files.lines.unlink(missing_ok=True)
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, before: RunState | None, *, restart: bool) -> None:
        journal = self.journal
        if journal is None:
            return
        if restart:
            journal.clear()
        if before is None and journal.size():
            raise InvalidInput(f"holds lines of a run that nothing is known of; {_RESTART}", place=journal.path.name)
        if before is not None:
            self.state = before
        # Before the first line is: lines without it are nobody's
        self.save(self.state if not self.state.is_complete else RunState(self.state.input, self.state.choices))


def table_of_lines(lines: Path, target: Path, form: str) -> None:
    """A table of `RESULT_COLUMNS` from result lines.

    Raises:
        InvalidInput: it cannot be written, or pyarrow is missing.
    """
    decoder = msgspec.json.Decoder(dict[str, Any])
    with lines.open("rb") as source, open_result_table(target, format=form) as writer:
        for line in source:
            result: Mapping[str, object] = decoder.decode(line)
            writer.write(result)


def _refuse_others(files: ResultFiles, before: RunState | None, fresh: RunState) -> None:
    name = files.target.name
    if before is None:
        raise InvalidInput(f"exists and is no output of this command; {_RESTART} and replaces it", place=name)
    different = differences(before, fresh)
    if different:
        what = "was made" if before.is_complete else "is half made"
        raise InvalidInput(f"{what} from something else: {'; '.join(different)}; {_RESTART}", place=name)
    if before.is_complete and not files.lines.exists() and files.target.stat().st_size != before.result_bytes:
        raise InvalidInput(f"was changed since it was written; {_RESTART} and replaces it", place=name)
