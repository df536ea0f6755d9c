"""Structured text in lines: rows of Markdown tables under their header; JSON and CSV as values."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Final

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.text.blocks import TABLE_RULE
from plumbline.judging.text.segmentation import Sentence, split_sentences
from plumbline.judging.text.words import STEM, split_words

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
_WORD_ENDS: Final = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|/")
# Chinese stands around a number without a blank.
_TOKEN: Final = re.compile(r"[^\W\u3400-\u9fff](?:[^\W\u3400-\u9fff]|[.-])*+")
_CLAUSE_ENDS: Final = re.compile(r"[,;，；、。]\s|\b(?:and|while|but|whereas)\b|[和而但]")
_MOST_LINES: Final = 2_000
_FEWEST_ROWS: Final = 2
_COLUMN_NAME: Final = re.compile(r"(?=.*\w)[\w ()/%.#&€$£¥°'-]{1,40}")
_FEWEST_COLUMNS: Final = 3


# Its place in the text, and how it reads
_Value = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class ContextText:
    """The sentences of a context; `readings` by position: the value of that sentence behind its path."""

    sentences: tuple[Sentence, ...]
    readings: Mapping[int, str]


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
                    Sentence(inside[at:to], at + start, to + start, "code") for at, to, _ in within_deadline(values)
                )
                readings = {len(before) + place: words for place, (_, _, words) in enumerate(values)}
                return ContextText((*before, *found, *after), readings)
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


class ExactFacts:
    """Numbers and identifiers of the structured contexts, which belong to the words of their own line.

    Args:
        lines: what each says.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        stems = ((line, frozenset(word[:STEM] for word in _plain_words(line))) for line in islice(lines, _MOST_LINES))
        self._lines = [(words, frozenset(_exact(line))) for line, words in within_deadline(stems)]
        self._known = frozenset[str]().union(*(tokens for _, tokens in self._lines))

    def find_misplaced(self, text: str) -> tuple[str, ...]:
        """Return the numbers and identifiers that stand in other lines than those with most words of their clause."""
        found: list[str] = []
        for clause in _CLAUSE_ENDS.split(text) if self._lines else ():
            wanted = [token for token in _exact(clause) if token in self._known]
            plain = _plain_words(clause)
            words = frozenset(word[:STEM] for word in plain)
            scores = [len(words & line) for line, _ in self._lines] if wanted else []
            if top := max(scores, default=0):
                near = [tokens for (_, tokens), score in zip(self._lines, scores, strict=True) if score == top]
                found += [
                    f"{token} with {' '.join(plain)!r}"
                    for token in wanted
                    if not any(token in tokens for tokens in near)
                ]
        return tuple(dict.fromkeys(found))


def _exact(text: str) -> list[str]:
    tokens = (token.rstrip(".-").lower() for token in _TOKEN.findall(text))
    return [token for token in tokens if "_" in token or any(mark.isdecimal() for mark in token)]


def _plain_words(text: str) -> list[str]:
    words = split_words(text).content
    return [word for word in words if not any(mark.isdecimal() or mark == "_" for mark in word)]


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


def _json(text: str) -> list[_Value] | None:
    """Return the values of a JSON object or list; None if it is neither, or not well formed."""
    if not text.lstrip().startswith(("{", "[")) or not text.rstrip().endswith(("}", "]")):
        return None
    levels: list[_Level] = []
    values: list[_Value] = []
    for token, after in within_deadline(_json_tokens(text)):
        if token is None or len(levels) > _DEEPEST:
            return None
        mark, start, end = token.group(), token.start(), token.end()
        if mark in "{[":
            above = levels[-1] if levels else None
            levels.append(_Level(mark == "{", (above.pending or above.key) if above else ""))
        elif mark in "}]":
            if not levels or levels.pop().is_object != (mark == "}"):
                return None
        elif not levels:
            return None
        elif mark not in ":,":
            if levels[-1].is_object and text[after : after + 1] == ":":
                levels[-1].pending, levels[-1].key_start = mark.strip(_QUOTES), start
            else:
                values.append(_scalar(levels, mark, start, end))
    return values if values and not levels else None


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
    found = (level.key_start if level.is_object and level.key_start >= 0 else start, end, _reading(levels, key, value))
    if level.is_object and not level.identity and mark.startswith(tuple(_QUOTES)):
        level.identity = f"{_words(key)} {value}"
    return found


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
                values.append((start, start + len(text[start:end].rstrip()), ", ".join(cells)))
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


def read_rows(
    sentences: Sequence[Sentence], header_positions: frozenset[int], name_of: Callable[[str], str] = str
) -> Mapping[int, str]:
    """Return the text of each table row by its position: its name, then each cell behind the name of its column.

    Empty cells are left out; a row without a header is its cells. `name_of` may shorten a column's name, or omit it.
    """
    texts: dict[int, str] = {}
    names: list[tuple[str, str]] = []
    for position, sentence in enumerate(within_deadline(sentences)):
        if sentence.kind == "table_row":
            cells = split_cells(sentence.text)
            if position in header_positions:
                names = [_column(cell, name_of) for cell in cells]
                texts[position] = ", ".join(cells)
            else:
                texts[position] = _row(cells, names)
        elif position - 1 not in header_positions:
            names = []
    return texts


def split_cells(row: str) -> list[str]:
    text = row.strip().lstrip(">").strip()
    return [cell.strip() for cell in _BAR.split(text.removeprefix("|").removesuffix("|"))]


def _column(cell: str, name_of: Callable[[str], str]) -> tuple[str, str]:
    """Return the name and the unit of a column; empty strings for none."""
    if len(cell) > _MAX_HEADER_CHARACTERS:
        return "", ""
    if cell[1:2].islower():
        # No name by its capital.
        cell = cell[:1].lower() + cell[1:]
    unit = _UNIT.search(cell)
    return (name_of(cell[: unit.start()]), unit.group(1)) if unit else (name_of(cell), "")


def _row(cells: Sequence[str], names: Sequence[tuple[str, str]]) -> str:
    parts = []
    for index, cell in enumerate(cells):
        if cell in EMPTY_CELLS:
            continue
        name, unit = names[index] if index < len(names) else ("", "")
        value = f"{cell} {unit}" if unit and _ENDS_IN_DIGIT.search(cell) else cell
        # The first cell is the row's name; its column's ("Model") says nothing of it.
        parts.append(f"{name} {value}" if name and index else value)
    if len(parts) > 1:
        return f"{parts[0]}: {', '.join(parts[1:])}"
    return ", ".join(parts or cells)
