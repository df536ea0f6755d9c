"""Structured text in lines: rows of Markdown tables under their header; JSON and CSV as values behind their keys."""

import ast
import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.text.blocks import TABLE_RULE
from plumbline.judging.text.segmentation import Sentence, split_sentences

# A string whole, also as Python prints it, a number or literal, or brackets around nothing; possessive: linear.
_JSON_TOKEN: Final = re.compile(
    r"""\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[^\s\"'{}\[\],:]++|\{\s*+\}|\[\s*+\]""", re.DOTALL
)
# Python's own reader takes a second for a megabyte.
_LONGEST_PYTHON: Final = 100_000
# "```json", or a line such as "Result:", before what is structured.
_FENCE: Final = re.compile(r"\s*(?P<mark>```|~~~)[ \w+-]{0,20}\n(?P<inside>.*?)\n?(?P=mark)\s*\Z", re.DOTALL)
_JSON_START: Final = re.compile(r"(?:\A|[:：]\s|\n)\s{0,3}(?=\{\s{0,9}[\"']|\[\s{0,9}\{)")
_MOST_LEAD: Final = 200
_QUOTES: Final = "\"'"
_DEEPEST: Final = 64
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
    key: str = ""
    said: str = ""
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


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object in order."""


@dataclass(slots=True)
class _Level:
    """An object or a list on the way to a value; `identity`: the first text of an object, with its key."""

    key: str
    is_object: bool
    identity: str = ""


def _json(text: str) -> list[_Value] | None:
    """Return the values of a JSON object or list, or of one that Python prints; None if it is neither."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    values: list[_Value] = []
    tokens = iter(within_deadline(_JSON_TOKEN.finditer(text)))
    try:
        _collect(_parse(stripped), tokens, values, [])
    except (ValueError, SyntaxError, RecursionError, MemoryError, StopIteration):
        return None
    return values if next(tokens, None) is None else None


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Members)
    except ValueError:
        if len(text) > _LONGEST_PYTHON:
            raise
        return ast.literal_eval(text)


def _collect(
    node: Any,
    tokens: Iterator[re.Match[str]],
    values: list[_Value],
    levels: list[_Level],
    *,
    key: str = "",
    start: int = -1,
) -> None:
    """Add the values of a tree, whose keys and values are the tokens in order; `start`: place of the key."""
    if not (node and isinstance(node, list | dict)):
        token = next(tokens)
        if isinstance(node, str) != (token[0][0] in _QUOTES):
            raise ValueError
        said = node if isinstance(node, str) else token[0] if token[0][0] not in "{[" else ""
        if key or said:
            reading, flag = _reading(levels, key, said), _flag(levels, key, said)
            values.append(
                _Value(
                    token.start() if start < 0 else start,
                    token.end(),
                    reading,
                    _words(key or levels[-1].key),
                    said,
                    flag,
                )
            )
        if isinstance(node, str) and levels[-1].is_object and not levels[-1].identity:
            levels[-1].identity = f"{_words(key)} {said}"
        return
    if len(levels) == _DEEPEST:
        raise ValueError
    is_object = isinstance(node, dict | _Members)
    levels.append(_Level(key or (levels[-1].key if levels else ""), is_object))
    members = node.items() if isinstance(node, dict) else node if is_object else (("", each) for each in node)
    for name, each in members:
        _collect(each, tokens, values, levels, key=str(name), start=next(tokens).start() if is_object else -1)
    levels.pop()


def read_members(text: str, name_of: Callable[[str], str] = str) -> str | None:
    """Return the members of a JSON object or array as one text, a sentence each; None if the text is neither.

    A member is its name and its value; one that is true is its name, one that is false is denied, null is left out.
    `name_of` may shorten a name, or leave it out.
    """
    return ". ".join(filter(None, (_spoken(each, name_of) for each in _json(text) or ()))) or None


def _spoken(member: _Value, name_of: Callable[[str], str]) -> str:
    folded = member.said.lower()
    if folded in ("true", "false"):
        return member.key if folded == "true" else f"no {member.key}"
    shown = name_of(member.key) if member.key else ""
    return "" if folded in ("null", "none") else f"{shown}: {member.said}" if shown else member.said


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
    return [text[start:end].strip() for start, end in find_cells(text, 0, len(text))]


def find_cells(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the cells of the row text[start:end], without the bars at its ends."""
    start += text.startswith("|", start, end)
    end -= start < end and text[end - 1] == "|"
    for bar in _BAR.finditer(text, start, end):
        yield start, bar.start()
        start = bar.end()
    yield start, end


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
