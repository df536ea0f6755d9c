"""Rows of CSV (commas, semicolons or tabs) and TSV after RFC 4180: quotes, line ends in cells, a header; UTF-8.

The standard reader gives no byte offset of a row and takes the rest of the file for one cell when a quote stays open;
here a row that cannot be read ends with its first line, and only this row fails.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.rows.records.data_file import MAX_ROW_BYTES, TextLine, TextLines, too_long
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition

_QUOTED: Final = re.compile(r'(?:[^"]++|"")*+')
# Memory of a buffered line besides its bytes, so that millions of empty ones are bounded too
_LINE_COST: Final = 150
_PLAIN: Final = {delimiter: re.compile(rf"[^{delimiter}\r\n]*+") for delimiter in ",\t;"}


class TableRows:
    """The rows below the header, as cells by column; `columns` are the header's names.

    Raises:
        InvalidInput: the file cannot be opened, the header is missing, repeats a name or cannot be read; when iterated:
            broken gzip.
    """

    columns: tuple[str, ...]

    def __init__(
        self, path: Path, start: ReadPosition, *, delimiter: str = ",", max_bytes: int = MAX_ROW_BYTES
    ) -> None:
        self._name = path.name
        self._delimiter = delimiter
        self._plain = _PLAIN[delimiter]
        self._max_bytes = max_bytes
        self._lines = TextLines(path, max_bytes=max_bytes)
        self._row = start.row
        try:
            self.columns = self._header()
            if start.offset:
                self._lines.close()
                self._lines = TextLines(path, offset=start.offset, lines_before=start.line, max_bytes=max_bytes)
        except BaseException:
            self._lines.close()
            raise

    def __iter__(self) -> Iterator[RawRow]:
        while (line := self._lines.next_line()) is not None:
            if line.data is not None and not line.data.strip(b"\r\n"):
                continue
            fields, last = self._fields(line)
            row, self._row = self._row, self._row + 1
            yield RawRow(row, line.number, fields, ReadPosition(self._row, last.number, last.end))

    def close(self) -> None:
        self._lines.close()

    def _header(self) -> tuple[str, ...]:
        line = self._lines.next_line()
        if line is None or line.data is None or not line.data.strip():
            raise InvalidInput("the first line should be a header; it is empty", place=f"{self._name}:1")
        # Where the comma is for decimals, spreadsheets write semicolons into a .csv; some programs write tabs
        if self._delimiter == "," and b"," not in line.data:
            self._delimiter = next((each for each in ";\t" if each.encode() in line.data), ",")
            self._plain = _PLAIN[self._delimiter]
        try:
            cells, _ = self._cells(line)
        except BadRow as bad:
            raise InvalidInput(f"the header: {bad.found}; expected {bad.expected}", place=f"{self._name}:1") from None
        columns = tuple(cell.strip() for cell in cells)
        for column in columns:
            if column and columns.count(column) > 1:
                raise InvalidInput(f"column {quoted(column)} is named twice in the header", place=f"{self._name}:1")
        return columns

    def _fields(self, line: TextLine) -> tuple[Mapping[str, object] | BadRow, TextLine]:
        try:
            cells, last = self._cells(line)
        except BadRow as bad:
            return bad, line
        if len(cells) != len(self.columns):
            return BadRow(f"{len(cells)} cells", f"{len(self.columns)}, as the header has"), last
        # pandas writes its index as a column without a name
        return {column: cell for column, cell in zip(self.columns, cells, strict=True) if column}, last

    def _cells(self, line: TextLine) -> tuple[list[str], TextLine]:
        """Return the cells of the row that starts with a line, and its last line.

        Raises:
            BadRow: the lines after the first one are put back.
        """
        cells: list[str] = []
        taken: list[TextLine] = []
        try:
            text, position = self._text(line), 0
            while True:
                if text.startswith('"', position):
                    cell, text, position = self._quoted(text, position + 1, len(cells) + 1, taken)
                else:
                    match = self._plain.match(text, position)
                    # An empty match is a match
                    cell, position = (match[0], match.end()) if match else ("", position)
                cells.append(cell)
                if not text.startswith(self._delimiter, position):
                    break
                position += 1
            if text[position:] not in ("", "\n", "\r\n"):
                if text.startswith("\r", position):
                    raise BadRow(f"a bare CR after cell {len(cells)}", "LF or CRLF at line ends, or quotes around it")
                raise BadRow(f"text after the closing quote of cell {len(cells)}", "a separator, or doubled quotes")
        except BadRow:
            self._lines.put_back(taken)
            raise
        return cells, taken[-1] if taken else line

    def _quoted(self, text: str, position: int, cell: int, taken: list[TextLine]) -> tuple[str, str, int]:
        """Return a quoted cell, its last line's text, and the position after the closing quote."""
        parts: list[str] = []
        while True:
            match = _QUOTED.match(text, position)
            end = match.end() if match else position
            parts.append(text[position:end])
            if end < len(text):
                return "".join(parts).replace('""', '"'), text, end + 1
            is_long = bool(taken) and taken[-1].end - taken[0].end + _LINE_COST * len(taken) > self._max_bytes
            line = None if is_long else self._lines.next_line()
            if line is None:
                raise BadRow(f"the quote that opens cell {cell} is never closed", "a closing quote")
            taken.append(line)
            text, position = self._text(line), 0

    def _text(self, line: TextLine) -> str:
        if line.data is None:
            raise BadRow(*too_long(self._max_bytes))
        try:
            return line.data.decode("utf-8")
        except UnicodeDecodeError:
            raise BadRow("text that is not UTF-8", "text saved as UTF-8 (Excel's CSV UTF-8)") from None
