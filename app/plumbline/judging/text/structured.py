"""Structured text in lines: rows of Markdown tables under their header; JSON and CSV as values behind their keys."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.text.blocks import TABLE_RULE
from plumbline.judging.text.segmentation import Sentence, split_sentences

_SPACE: Final = re.compile(r"\s*+")
# A string whole, also as Python prints it, a number or literal, a bracket, a colon or a comma; possessive: linear.
_JSON_TOKEN: Final = re.compile(
    r"""\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[^\s\"'{}\[\],:]++|[{}\[\],:]""", re.DOTALL
)
# "```json", or a line such as "Result:", before what is structured.
_FENCE: Final = re.compile(r"\s*(?P<mark>```|~~~)[ \w+-]{0,20}\n(?P<inside>.*?)\n?(?P=mark)\s*\Z", re.DOTALL)
_JSON_START: Final = re.compile(r"(?:\A|[:：]\s|\n)\s{0,3}(?=\{\s{0,9}[\"']|\[\s{0,9}\{)")
_MOST_LEAD: Final = 200
_QUOTES: Final = "\"'"
_DEEPEST: Final = 64
# A value of JSON, or of Python's, that is no text.
_LITERAL: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[tT]rue|[fF]alse|null|None|NaN")
_DENYING: Final = frozenset({"", "false", "null", "none", "nan", "0", "0.0", "no", "n/a", "无", "否", "没有"})
_AFFIRMING: Final = frozenset({"true", "yes", "是", "有"})
_WORD_ENDS: Final = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|/")
_FEWEST_ROWS: Final = 2
_COLUMN_NAME: Final = re.compile(r"(?=.*\w)[\w ()/%.#&€$£¥°'-]{1,40}")
_FEWEST_COLUMNS: Final = 3


@dataclass(frozen=True, slots=True)
class Flag:
    """A value that affirms its key or denies it, as false, null, zero and nothing do; `path` is what leads to it."""

    path: str
    key: str
    is_true: bool


@dataclass(frozen=True, slots=True)
class _Value:
    """A value at [start:end) of a text, how it reads behind its path, and what it says of its key."""

    start: int
    end: int
    reading: str
    flag: Flag | None = None


@dataclass(frozen=True, slots=True)
class ContextText:
    """The sentences of a context; `readings` by position: the value of that sentence behind its path."""

    sentences: tuple[Sentence, ...]
    readings: Mapping[int, str]
    flags: tuple[Flag, ...] = ()


def split_context(text: str, *, lead: int = 0) -> ContextText:
    """Return the sentences of a context: one for each value where it is structured, those of prose elsewhere.

    A value is read with the names that lead to it, words of an identifier apart, and with what names the objects around
    it: of `{"shop": "York", "count": 0}` the 0 reads "shop York count 0". The sentences lie in the text as it is; a
    title of `lead` characters, a fence, and what is said before and after JSON stay apart. Linear in its length.
    """
    if len(text.splitlines()) == 1 and "{" not in text and "[" not in text:
        # Most contexts are prose: JSON alone may stand in one line.
        return ContextText(split_sentences(text), {})
    for start, end in _likely_places(text, lead):
        inside = text[start:end]
        for read in (_json, _csv):
            values = read(inside)
            if values is not None:
                before, after = _split_shifted(text[:start], 0), _split_shifted(text[end:], end)
                found = tuple(
                    Sentence(inside[each.start : each.end], each.start + start, each.end + start, "code")
                    for each in within_deadline(values)
                )
                readings = {len(before) + place: each.reading for place, each in enumerate(values)}
                flags = tuple(each.flag for each in values if each.flag)
                return ContextText((*before, *found, *after), readings, flags)
    return ContextText(split_sentences(text), {})


def _likely_places(text: str, lead: int) -> Iterator[tuple[int, int]]:
    """Yield where something structured may stand: all behind the title; inside a fence; the JSON in a text."""
    yield lead, len(text)
    if fence := _FENCE.match(text, lead):
        yield fence.span("inside")
    start, end = _JSON_START.search(text, lead, lead + _MOST_LEAD), max(text.rfind("}"), text.rfind("]")) + 1
    if start and start.end() < end and (start.end(), end) != (lead, len(text)):
        yield start.end(), end


def _split_shifted(text: str, start: int) -> tuple[Sentence, ...]:
    return tuple(each._replace(start=each.start + start, end=each.end + start) for each in split_sentences(text))


def _words(name: str) -> str:
    return " ".join(_WORD_ENDS.sub(" ", name).split())


@dataclass(slots=True)
class _Level:
    """An object or a list on the way to a value; `identity`: the first of its texts, with its key."""

    is_object: bool
    key: str = ""
    identity: str = ""
    pending: str | None = None
    key_start: int = -1
    is_filled: bool = False


def _json(text: str) -> list[_Value] | None:
    """Return the values of a JSON object or list, or of one that Python prints; None if it is neither."""
    if not text.lstrip().startswith(("{", "[")) or not text.rstrip().endswith(("}", "]")):
        return None
    reader = _JsonReader(text)
    for token, after in within_deadline(_json_tokens(text)):
        if token is None or not reader.take(token, after):
            return None
    return reader.values if not reader.levels else None


class _JsonReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._needs_comma = False
        self.levels: list[_Level] = []
        self.values: list[_Value] = []

    def take(self, token: re.Match[str], after: int) -> bool:
        """Return False if the mark cannot stand there; `after`: where the next one starts."""
        mark, levels = token.group(), self.levels
        if mark not in ",}]" if self._needs_comma else not levels and mark not in "{[":
            return False
        if mark in "{[":
            above = levels[-1] if levels else _Level(is_object=False)
            above.is_filled = True
            levels.append(_Level(mark == "{", above.pending or above.key))
            return len(levels) <= _DEEPEST
        if mark in "}]":
            self._needs_comma = True
            return bool(levels) and self._close(token, is_object=mark == "}")
        if mark == ",":
            is_due, self._needs_comma = self._needs_comma, False
            return is_due
        return mark == ":" or self._read(token, is_key=levels[-1].is_object and self._text.startswith(":", after))

    def _close(self, token: re.Match[str], *, is_object: bool) -> bool:
        level = self.levels.pop()
        if not level.is_filled and level.key and self.levels:
            # Nothing is in it.
            start = self.levels[-1].key_start if self.levels[-1].is_object else token.start()
            reading, flag = _reading([*self.levels, level], "", ""), _flag(self.levels, level.key, "")
            self.values.append(_Value(start, token.end(), reading, flag))
        return level.is_object == is_object

    def _read(self, token: re.Match[str], *, is_key: bool) -> bool:
        mark, level = token.group(), self.levels[-1]
        level.is_filled = True
        if is_key:
            level.pending, level.key_start = mark.strip(_QUOTES), token.start()
            return mark[0] in _QUOTES
        self._needs_comma = True
        self.values.append(_scalar(self.levels, mark, *token.span()))
        return mark[0] in _QUOTES or _LITERAL.fullmatch(mark) is not None


def _json_tokens(text: str) -> Iterator[tuple[re.Match[str] | None, int]]:
    """Yield each mark, name and value, None for what is none of them, with the place of the next one."""
    position, limit = _SPACE.match(text).end(), len(text.rstrip())  # type: ignore[union-attr]
    while position < limit:
        token = _JSON_TOKEN.match(text, position)
        position = _SPACE.match(text, token.end()).end() if token else limit  # type: ignore[union-attr]
        yield token, position


def _scalar(levels: list[_Level], mark: str, start: int, end: int) -> _Value:
    level, value = levels[-1], mark.strip(_QUOTES)
    with suppress(ValueError):
        value = json.loads(mark) if mark.startswith('"') else value
    key = level.pending or "" if level.is_object else ""
    first = level.key_start if level.is_object and level.key_start >= 0 else start
    found = _Value(first, end, _reading(levels, key, value), _flag(levels, key, value))
    if level.is_object and not level.identity and mark.startswith(tuple(_QUOTES)):
        level.identity = f"{_words(key)} {value}"
    return found


def _flag(levels: list[_Level], key: str, value: str) -> Flag | None:
    said = value.strip().lower()
    if not key or not (said in _DENYING or said in _AFFIRMING):
        return None
    return Flag(_reading(levels, "", ""), _words(key), said in _AFFIRMING)


def _reading(levels: list[_Level], key: str, value: str) -> str:
    parts: list[str] = []
    for level in levels:
        for part in (_words(level.key), level.identity):
            if part and part not in parts:
                parts.append(part)
    return " ".join(part for part in (*parts, _words(key), value) if part)


def _csv(text: str) -> list[_Value] | None:
    """Return the rows of values between commas, semicolons or tabs, each value behind its column's name."""
    first, _, rest = text.partition("\n")
    separator = max("\t;,", key=first.count)
    try:
        header = [cell.strip() for cell in next(csv.reader([first], delimiter=separator), [])]
        has_names = all(_COLUMN_NAME.fullmatch(cell) for cell in header) and len(set(header)) == len(header)
        if len(header) < _FEWEST_ROWS or not has_names or not rest.strip():
            return None
        # A comma between two words is rather one of a sentence.
        if len(header) < _FEWEST_COLUMNS and (f"{separator} " in text or rest.strip().count("\n") < 1):
            return None
        lines = text.splitlines(keepends=True)
        reader = csv.reader(lines, delimiter=separator)
        values: list[_Value] = []
        ends = [0, *accumulate(map(len, lines))]
        before = 0
        for number, row in enumerate(within_deadline(reader)):
            start, end, before = ends[before], ends[reader.line_num], reader.line_num
            if row and len(row) != len(header):
                return None
            if number and row:
                named = zip(header, row, strict=True)
                cells = (f"{_words(name)} {' '.join(cell.split())}" for name, cell in named if cell.strip())
                values.append(_Value(start, start + len(text[start:end].rstrip()), ", ".join(cells)))
    except csv.Error:
        return None
    return values or None


# A longer cell is no name of a column; the bound keeps the rows' texts linear in the table's.
_MAX_HEADER_CHARACTERS = 60
_BAR = re.compile(r"(?<!\\)\|")
# "Price (EUR)": the unit goes behind the number.
_UNIT = re.compile(r"\s?[(（]([^()（）\d]{1,12})[)）]\Z")
_ENDS_IN_DIGIT = re.compile(r"\d\Z")
EMPTY_CELLS = frozenset({"", "-", "–", "—", "/", "n/a", "N/A", "无", "暂无"})


def header_positions(sentences: Sequence[Sentence]) -> frozenset[int]:
    """Return the positions of the rows that stand above a |---| rule."""
    return frozenset(
        position
        for position, (row, rule) in enumerate(within_deadline(pairwise(sentences)))
        if row.kind == "table_row" and rule.kind == "markup" and TABLE_RULE.match(rule.text)
    )


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table: its name, and what stands behind the name of each other column, empty cells left out."""

    name: str
    cells: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        said = [f"{column} {value}" if column else value for column, value in self.cells]
        return f"{self.name}: {', '.join(said)}" if self.name and said else ", ".join(filter(None, (self.name, *said)))


def read_rows(
    sentences: Sequence[Sentence], header_positions: frozenset[int], name_of: Callable[[str], str] = str
) -> Mapping[int, str]:
    """Return the text of each table row by its position: its name, then each cell behind the name of its column.

    Empty cells are left out; a row without a header is its cells. `name_of` may shorten a column's name, or omit it.
    """
    rows = read_table(sentences, header_positions, name_of)
    return {position: row if isinstance(row, str) else row.text for position, row in rows.items()}


def read_table(
    sentences: Sequence[Sentence], header_positions: frozenset[int], name_of: Callable[[str], str] = str
) -> Mapping[int, TableRow | str]:
    """Return each table row by its position, a header as its text."""
    rows: dict[int, TableRow | str] = {}
    names: list[tuple[str, str]] = []
    for position, sentence in enumerate(within_deadline(sentences)):
        if sentence.kind == "table_row":
            cells = split_cells(sentence.text)
            if position in header_positions:
                names = [_column(cell, name_of) for cell in cells]
                rows[position] = ", ".join(cells)
            else:
                rows[position] = _row(cells, names)
        elif position - 1 not in header_positions:
            names = []
    return rows


def split_cells(row: str) -> list[str]:
    text = row.strip().lstrip(">").strip()
    return [cell.strip() for cell in _BAR.split(text.removeprefix("|").removesuffix("|"))]


def _column(cell: str, name_of: Callable[[str], str]) -> tuple[str, str]:
    if len(cell) > _MAX_HEADER_CHARACTERS:
        return "", ""
    if cell[1:2].islower():
        # No name by its capital.
        cell = cell[:1].lower() + cell[1:]
    unit = _UNIT.search(cell)
    return (name_of(cell[: unit.start()]), unit.group(1)) if unit else (name_of(cell), "")


def _row(cells: Sequence[str], names: Sequence[tuple[str, str]]) -> TableRow | str:
    parts: list[tuple[str, str]] = []
    for index, cell in enumerate(cells):
        if cell in EMPTY_CELLS:
            continue
        name, unit = names[index] if index < len(names) else ("", "")
        # The first cell is the row's name; its column's ("Model") says nothing of it.
        parts.append((name if index else "", f"{cell} {unit}" if unit and _ENDS_IN_DIGIT.search(cell) else cell))
    if not parts:
        return ", ".join(cells)
    (column, first), *rest = parts
    return TableRow(f"{column} {first}".strip(), tuple(rest))
