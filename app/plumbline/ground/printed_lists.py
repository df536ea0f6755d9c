"""Cells of tables: lists of texts as JSON, Python and numpy print them, read without evaluation; and formulas."""

import json
import re
from typing import Final

# One item of a printed list; numpy prints its arrays without commas. Possessive: no character is read twice.
_ITEM: Final = re.compile(
    r"""\s*+(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|(-?[0-9]++))(?:\s*+,|\s++|\Z)""", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


def parse_text_list(text: str, *, has_numbers: bool = False) -> tuple[str, ...]:
    """Parse a list of texts, with `has_numbers` of whole numbers, too; raise ValueError if it is none."""
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError
    try:
        listed = json.loads(text, parse_int=str if has_numbers else int)
    except (ValueError, RecursionError):
        return _parse_printed(text[1:-1].strip(), has_numbers=has_numbers)
    if not all(isinstance(item, str) for item in listed):
        raise ValueError
    return tuple(listed)


def _parse_printed(inside: str, *, has_numbers: bool) -> tuple[str, ...]:
    position, items = 0, []
    while position < len(inside):
        match = _ITEM.match(inside, position)
        if match is None or (match[3] is not None and not has_numbers):
            raise ValueError
        items.append(_ESCAPE.sub(_unescape, next(group for group in match.groups() if group is not None)))
        position = match.end()
    return tuple(items)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)


# Texts that a spreadsheet takes for a formula (OWASP, CSV Injection), with the full-width signs that Chinese and
# Japanese spreadsheets read alike. Leading apostrophes count, so that removing one always restores the text.
_FORMULA: Final = re.compile("'*(?:\\s*[=+\\-@＝＋－＠]|[\t\r\n])")


def guard_formula(text: str) -> str:
    """Return the text with an apostrophe before it if a spreadsheet would run it."""
    return f"'{text}" if _FORMULA.match(text) else text
