"""Structured text in lines: rows of Markdown tables under their header; JSON and CSV as values behind their keys."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from plumbline.ground.deadline import within_deadline
from plumbline.judging.text.blocks import TABLE_RULE
from plumbline.judging.text.segmentation import Sentence, split_sentences

# A string whole, a number or literal, or brackets around nothing; possessive: linear.
_JSON_TOKEN: Final = re.compile(r"""\"(?:[^\"\\]|\\.)*+\"|[^\s\"{}\[\],:]++|\{\s*+\}|\[\s*+\]""", re.DOTALL)
_DEEPEST: Final = 64
_DENYING: Final = frozenset({"", "false", "null", "none", "nan", "0", "0.0", "no", "n/a", "无", "否", "没有"})
_AFFIRMING: Final = frozenset({"true", "yes", "是", "有"})
_COLUMN_NAME: Final = re.compile(r"(?=.*\w)[\w ()/%.#&€$£¥°'-]{1,40}")
_FEWEST_COLUMNS: Final = 3
_WORD_ENDS: Final = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|/")


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
    title of `lead` characters stays apart. Linear in its length.
    """
    inside = text[lead:]
    values = _json(inside)
    if values is None and (values := _csv(inside)) is None:
        return ContextText(split_sentences(text), {})
    before = split_sentences(text[:lead])
    found = tuple(
        Sentence(inside[each.start : each.end], each.start + lead, each.end + lead, "code")
        for each in within_deadline(values)
    )
    readings = {len(before) + place: each.reading for place, each in enumerate(values)}
    return ContextText((*before, *found), readings, tuple(each.flag for each in values if each.flag))


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
    """Return the values of a JSON object or list; None if it is neither."""
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    values: list[_Value] = []
    tokens = iter(within_deadline(_JSON_TOKEN.finditer(text)))
    try:
        _collect(json.loads(stripped, object_pairs_hook=_Members), tokens, values, [])
    except (ValueError, RecursionError, StopIteration):
        return None
    return values if next(tokens, None) is None else None


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
    if not (node and isinstance(node, list)):
        token = next(tokens)
        if isinstance(node, str) != (token[0][0] == '"'):
            raise ValueError
        said = node if isinstance(node, str) else token[0] if token[0][0] not in "{[" else ""
        if key or said:
            first, name = token.start() if start < 0 else start, _words(key or levels[-1].key)
            reading, flag = _reading(levels, key, said), _flag(levels, key, said)
            values.append(_Value(first, token.end(), reading, name, said, flag))
        if isinstance(node, str) and levels[-1].is_object and not levels[-1].identity:
            levels[-1].identity = f"{_words(key)} {said}"
        return
    if len(levels) == _DEEPEST:
        raise ValueError
    is_object = isinstance(node, _Members)
    levels.append(_Level(key or (levels[-1].key if levels else ""), is_object))
    members = node if is_object else (("", each) for each in node)
    for name, each in members:
        _collect(each, tokens, values, levels, key=str(name), start=next(tokens).start() if is_object else -1)
    levels.pop()


def read_members(text: str) -> str | None:
    """Return the members of a JSON object or array as one text, a sentence each; None if the text is neither.

    A member is its name and its value; one that is true is its name, one that is false is denied, null is left out.
    """
    return ". ".join(filter(None, map(_spoken, _json(text) or ()))) or None


def _spoken(member: _Value) -> str:
    folded = member.said.lower()
    if folded in ("true", "false"):
        return member.key if folded == "true" else f"no {member.key}"
    return "" if folded in ("null", "none") else f"{member.key}: {member.said}" if member.key else member.said


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
    header = [cell.strip().strip('"') for cell in first.split(separator)]
    # Most contexts are prose, and have neither.
    if not (len(set(header)) == len(header) > 1 and all(map(_COLUMN_NAME.fullmatch, header)) and rest.strip()):
        return None
    # A comma between two words is rather one of a sentence.
    if len(header) < _FEWEST_COLUMNS and (f"{separator} " in text or rest.strip().count("\n") < 1):
        return None
    lines, values = text.splitlines(keepends=True), []
    ends, before = [0, *accumulate(map(len, lines))], 0
    reader = csv.reader(lines, delimiter=separator)
    try:
        for row in within_deadline(reader):
            start, end, before = ends[before], ends[reader.line_num], reader.line_num
            if row and len(row) != len(header):
                return None
            if start and row:
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
# Names of a first column that only counts the rows.
_COUNTS = frozenset({"#", "no", "no.", "nr", "nr.", "№", "step", "序号", "步骤"})
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
    cells: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        said = [f"{column} {value}" if column else value for column, value in self.cells]
        return f"{self.name}: {', '.join(said)}" if self.name and said else ", ".join(filter(None, (self.name, *said)))


def read_table(sentences: Sequence[Sentence], header_positions: frozenset[int]) -> Mapping[int, TableRow]:
    """Return each table row by its position, without empty cells; a header, and a row without one, is its cells."""
    rows: dict[int, TableRow] = {}
    names: list[tuple[str, str]] = []
    for position, sentence in enumerate(within_deadline(sentences)):
        if sentence.kind == "table_row":
            cells = split_cells(sentence.text)
            if position in header_positions:
                names = list(map(_column, cells))
                rows[position] = TableRow(", ".join(cells))
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


def _column(cell: str) -> tuple[str, str]:
    if len(cell) > _MAX_HEADER_CHARACTERS:
        return "", ""
    if cell[1:2].islower():
        # No name by its capital.
        cell = cell[:1].lower() + cell[1:]
    unit = _UNIT.search(cell)
    return (cell[: unit.start()], unit.group(1)) if unit else (cell, "")


def _row(cells: Sequence[str], names: Sequence[tuple[str, str]]) -> TableRow:
    parts: list[tuple[str, str]] = []
    is_counted = bool(names) and names[0][0].casefold() in _COUNTS and cells[0].isdecimal()
    for index, cell in enumerate(cells):
        if cell in EMPTY_CELLS or index < is_counted:
            continue
        name, unit = names[index] if index < len(names) else ("", "")
        # The first cell is the row's name; its column's ("Model") says nothing of it.
        parts.append(
            (name if index > is_counted else "", f"{cell} {unit}" if unit and _ENDS_IN_DIGIT.search(cell) else cell)
        )
    if not parts:
        return TableRow(", ".join(cells))
    (column, first), *rest = parts
    return TableRow(f"{column} {first}".strip(), tuple(rest))
