"""Rows of CSV (commas, semicolons or tabs) and TSV after RFC 4180: quotes, line ends in cells, a header.

Each row has a reader of its own: one that cannot be read ends with its first line and fails alone; a single reader
would take the rest of the file for one cell when a quote stays open.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.rows.records.data_file import MAX_ROW_BYTES, TextLine, TextLines, too_long
from plumbline.rows.records.encodings import NOT_UTF_8, UTF_8
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition, RowSource, check_unique

# The standard limit is 128 KiB a cell; rows have a limit of their own.
csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
_NEVER_CLOSED: Final = (CodedText("quote_not_closed"), CodedText("a_closing_quote"))
# Memory of a buffered line besides its bytes, so that millions of empty ones are bounded too
_LINE_COST: Final = 150


class TableRows(RowSource):
    """The rows below the header, as cells by column; `columns` are the header's names. Raises InvalidInput."""

    columns: tuple[str, ...]

    def __init__(
        self, path: Path, *, delimiter: str = ",", max_bytes: int = MAX_ROW_BYTES, encoding: str = UTF_8
    ) -> None:
        self._name = path.name
        self._delimiter = delimiter
        self._max_bytes = max_bytes
        self._lines = TextLines(path, max_bytes=max_bytes, encoding=encoding)
        try:
            self.columns = self._header()
        except BaseException:
            self._lines.close()
            raise

    def __iter__(self) -> Iterator[RawRow]:
        row = 0
        while (line := self._lines.next_line()) is not None:
            if line.data is None or line.data.strip(b"\r\n"):
                fields, last = self._fields(line)
                yield RawRow(row, line.number, fields, ReadPosition(row + 1, last.end))
                row += 1

    def close(self) -> None:
        self._lines.close()

    def _header(self) -> tuple[str, ...]:
        line = self._lines.next_line()
        if line is None or line.data is None or not line.data.strip():
            raise InvalidInput(CodedText("header_empty"), place=f"{self._name}:1")
        # Spreadsheets write semicolons where the comma is for decimals; some programs write tabs
        if self._delimiter == "," and b"," not in line.data:
            self._delimiter = next((each for each in ";\t" if each.encode() in line.data), ",")
        try:
            cells, _ = self._cells(line)
        except BadRow as bad:
            raise InvalidInput(CodedText("header_says", fault=bad.text), place=f"{self._name}:1") from None
        columns = tuple(cell.strip() for cell in cells)
        check_unique(columns, place=f"{self._name}:1")
        return columns

    def _fields(self, line: TextLine) -> tuple[Mapping[str, object] | BadRow, TextLine]:
        try:
            cells, last = self._cells(line)
        except BadRow as bad:
            return bad, line
        if len(cells) != len(self.columns):
            return BadRow(
                CodedText("cells", count=len(cells)), CodedText("as_header_has", count=len(self.columns))
            ), last
        # pandas writes its index as a column without a name
        return {column: cell for column, cell in zip(self.columns, cells, strict=True) if column}, last

    def _cells(self, line: TextLine) -> tuple[list[str], TextLine]:
        """Return the cells of the row that starts with a line, and its last line; BadRow puts the others back."""
        taken: list[TextLine] = []

        def texts() -> Iterator[str]:
            yield self._text(line)
            while (following := self._lines.next_line()) is not None:
                taken.append(following)
                if following.end - taken[0].end + _LINE_COST * len(taken) > self._max_bytes:
                    raise BadRow(*_NEVER_CLOSED)
                yield self._text(following)

        try:
            cells = next(csv.reader(texts(), delimiter=self._delimiter, strict=True))
        except (BadRow, csv.Error) as error:
            self._lines.put_back(taken)
            raise error if isinstance(error, BadRow) else _bad_row(str(error)) from error
        return cells, taken[-1] if taken else line

    def _text(self, line: TextLine) -> str:
        if line.data is None:
            raise BadRow(*too_long(self._max_bytes))
        try:
            return line.data.decode("utf-8")
        except UnicodeDecodeError:
            raise BadRow(*NOT_UTF_8) from None


def _bad_row(said: str) -> BadRow:
    if "unexpected end" in said:
        return BadRow(*_NEVER_CLOSED)
    if "new-line character" in said:
        return BadRow(CodedText("bare_cr"), CodedText("line_ends_or_quotes"))
    return BadRow(CodedText("text_after_quote"), CodedText("separator_or_quotes"))
