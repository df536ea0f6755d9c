"""Results into a file: under another name until it is whole, then under its own."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Protocol, Self

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import drop_torn_line, parse_row_format
from plumbline.rows.records.parquet_files import ParquetResults
from plumbline.rows.records.result_table import RESULT_COLUMNS, cell_of, flat_result, table_line

_PARTIAL: Final = ".partial"
_DELIMITER: Final = {"csv": ",", "tsv": "\t"}


class _Rows(Protocol):
    """Writes rows in one form to an open file."""

    def write(self, result: Mapping[str, object]) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


class ResultWriter:
    """Writes one row a result; a context manager, or call `close` (whole) or `abandon` (not).

    JSON Lines hold each result as it is given (`jsonl`); `csv`, `tsv` and `parquet` hold `RESULT_COLUMNS`. CSV cells
    are made safe for spreadsheets, see `safe_cells`. Rows go into `NAME.partial` beside the target, which takes the
    target's name when the writer closes; readers of the target never see half of it. When something fails, a partial
    table is removed, and partial JSON Lines stay for `resume`.

    Args:
        format: None: by the suffix.
        resume: JSON Lines alone: go on with the partial file, else with a copy of the target, else begin. A last line
            that was cut off is dropped. `written_ids` has what need not be done again.

    Raises:
        InvalidInput: the form is unknown or cannot be written or resumed, pyarrow is missing, or the file cannot be
            opened.
    """

    def __init__(self, path: Path, *, format: str | None = None, resume: bool = False) -> None:  # noqa: A002
        self._target = path.resolve()
        self.name = path.name
        self.format = _writable_form(path, format, resume=resume)
        self._partial = self._target.with_name(self._target.name + _PARTIAL)
        if self._target.exists() and not self._target.is_file():
            raise InvalidInput("is no file; expected the name of a new file or of one to replace", place=path.name)
        try:
            self._file = self._resumed() if resume else self._partial.open("w+b")
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error
        try:
            self._rows = _rows_of(self.format, self._file, self.name)
        except BaseException:
            self._close_partial()
            raise

    def write(self, result: Mapping[str, object]) -> None:
        """Write one result: plain mappings, lists, texts, numbers, truths and None; NaN becomes null.

        Raises:
            ValueError: its `custom_id` or another value is something else.
        """
        self._rows.write(result)

    def flush(self) -> None:
        """Hand all rows so far to the operating system, so that a killed process loses none of them."""
        self._file.flush()

    def written_ids(self) -> Iterator[str]:
        """The custom_ids of the rows so far, those of a resumed file included; streams. JSON Lines alone."""
        self._file.flush()
        with self._partial.open("rb") as written:
            for line in written:
                yield _id_of(line, self._partial.name)

    def close(self) -> None:
        """Make the file whole and give it its name."""
        if self._file.closed:
            return
        try:
            self._rows.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
        except BaseException:
            self.abandon()
            raise
        self._file.close()
        self._partial.replace(self._target)

    def abandon(self) -> None:
        """Leave the target as it was; JSON Lines stay under the partial name."""
        if not self._file.closed:
            self._rows.abandon()
            self._close_partial()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _close_partial(self) -> None:
        self._file.close()
        if self.format != "jsonl":
            self._partial.unlink(missing_ok=True)

    def _resumed(self) -> BinaryIO:
        if not self._partial.exists():
            if not self._target.exists():
                return self._partial.open("w+b")
            shutil.copyfile(self._target, self._partial)
        file = self._partial.open("r+b")
        drop_torn_line(file)
        return file


def _writable_form(path: Path, named: str | None, *, resume: bool) -> str:
    form = parse_row_format(path, named)
    if form == "json" or (named is None and path.name.lower().endswith(".gz")):
        raise InvalidInput("results are written as jsonl, csv, tsv or parquet, not compressed", place=path.name)
    if resume and form != "jsonl":
        raise InvalidInput(f"{form} cannot be resumed; write jsonl", place=path.name)
    return form


def _rows_of(form: str, file: BinaryIO, name: str) -> _Rows:
    if form == "jsonl":
        return _JsonLines(file)
    return ParquetResults(file, name=name) if form == "parquet" else _Table(file, _DELIMITER[form])


class _JsonLines:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()

    def write(self, result: Mapping[str, object]) -> None:
        # Encoded before anything is written: a value that cannot be leaves no half line
        try:
            line = self._encoder.encode(result)
        except (TypeError, UnicodeEncodeError, OverflowError) as error:
            raise ValueError(f"a result that JSON cannot hold: {error}") from error
        self._file.write(line + b"\n")

    def finish(self) -> None:
        """Every line is whole already."""

    def abandon(self) -> None:
        """Nothing is held."""


class _Table:
    def __init__(self, file: BinaryIO, delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self._put(list(RESULT_COLUMNS))

    def write(self, result: Mapping[str, object]) -> None:
        self._put([cell_of(value) for value in flat_result(result).values()])

    def finish(self) -> None:
        """Every row is whole already."""

    def abandon(self) -> None:
        """Nothing is held."""

    def _put(self, cells: list[str]) -> None:
        self._file.write(table_line(cells, self._delimiter).encode("utf-8"))


def _id_of(line: bytes, name: str) -> str:
    """The custom_id of a written line."""
    try:
        fields = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        fields = None
    ids = [fields.get("custom_id"), fields.get("id")] if isinstance(fields, dict) else []
    custom_id = next((each for each in ids if isinstance(each, str)), None)
    if custom_id is None:
        raise InvalidInput("a line is no result with a custom_id; write to a new file", place=name)
    return custom_id
