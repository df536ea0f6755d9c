"""Cells of CSV and TSV that no spreadsheet takes for a formula.

A text that begins with = + - @, a tab, CR or LF, or with the full-width forms of the signs, which Chinese and Japanese
spreadsheets read alike, gets an apostrophe before it; so does one that begins with apostrophes and then one of these,
so that taking one apostrophe away always gives the text back. Numbers are written as numbers and left alone.
Source: OWASP, CSV Injection.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

_RISKY: Final = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_QUOTED_FOR: Final = re.compile('["\t\r\n,]|^\\s|\\s$')


def safe_text(text: str) -> str:
    """The text as a cell holds it."""
    return f"'{text}" if _RISKY.match(text) else text


def original_text(cell: str) -> str:
    """The text that `safe_text` made a cell of."""
    return cell[1:] if cell.startswith("'") and _RISKY.match(cell, 1) else cell


def cell_of(value: object) -> str:
    """A value as a cell: empty for None, `true`/`false`, numbers so that they read back equal, lists as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if value - value == 0 else ""  # NaN and infinity are no numbers
    if isinstance(value, Sequence) and not isinstance(value, str):
        return json.dumps(list(value), ensure_ascii=False) if value else ""
    return safe_text(str(value))


def table_line(cells: Sequence[str], delimiter: str) -> str:
    """One row, quoted as RFC 4180 has it, with LF at its end."""
    return delimiter.join(_quoted(cell) for cell in cells) + "\n"


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _QUOTED_FOR.search(cell) else cell
