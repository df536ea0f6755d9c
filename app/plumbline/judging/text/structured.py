"""Structured contexts in lines: each value of JSON, YAML or CSV behind its path; lines of logs and code."""

import csv
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.text.segmentation import Sentence, split_sentences
from plumbline.judging.text.words import split_words

_SPACE: Final = re.compile(r"\s*+")
# A string whole, a number or literal, a bracket, a colon or a comma; possessive: linear.
_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[^\s"{}\[\],:]++|[{}\[\],:]', re.DOTALL)
_DEEPEST: Final = 64
_YAML_LINE: Final = re.compile(
    r"(?P<indent> *)(?P<dash>(?:- +)*)(?:(?P<key>[\w./ -]{1,80}?):(?= |$)\s*)?(?P<value>.*?)\s*$"
)
_YAML_KEYS: Final = re.compile(r"(?m)^ *(?:- +)?[A-Za-z_][\w.-]*:(?: |$)")
_WORD_ENDS: Final = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|/")
_LOG_LINE: Final = re.compile(
    r"[\[(]?(?:\d{4}-\d\d-\d\d[T ]\d\d:|\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:"
    r"|(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL|CRITICAL)\b)"
)
_CODE_LINE: Final = re.compile(
    r"(?:(?:async )?def |class \w+[:({]|import \w|from [\w.]+ import |return\b|raise |func \w|function \w"
    r"|(?:const|let|var) \w"
    r"|(?:if|for|while|with|elif|except)\b.*[:{]\Z|(?:else|try|finally):\Z|//|#include|@\w|\"\"\""
    r"|[\w.\[\]]+ ?[-+]?=(?!=)"
    r"|[\w.]+\(.*\)\Z|.*[;{}]\Z)"
)
_TOKEN: Final = re.compile(r"\w[\w.-]*+")
_CLAUSE_ENDS: Final = re.compile(r"[,;，；、。]\s|\b(?:and|while|but|whereas)\b|[和而但]")
_STEM: Final = 5
_FEWEST_LINES: Final = 3
_LEAST_ALIKE: Final = 0.8
_MOST_LINES: Final = 2_000
_LONGEST_YAML_LINE: Final = 200
_FEWEST_ROWS: Final = 2
_COLUMN_NAME: Final = re.compile(r"[\w ()/%-]{1,40}")
_FEWEST_COLUMNS: Final = 3


# Its place in the text, and how it reads
_Value = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class ContextText:
    """The sentences of a context; `readings` by position: the value of that sentence behind its path."""

    sentences: tuple[Sentence, ...]
    readings: Mapping[int, str]


def split_context(text: str) -> ContextText:
    """Return the sentences of a context: one for each value where it is structured, as of an answer elsewhere.

    A value is read with the names that lead to it, words of an identifier apart, and with what names the objects around
    it: of `{"shop": "York", "count": 0}` the 0 reads "shop York count 0". The sentences lie in the text as it is.
    Linear in its length.
    """
    for read in (_json, _yaml, _csv, _lines):
        values = read(text)
        if values is not None:
            spans = [(start, end) for start, end, _ in values]
            sentences = tuple(Sentence(text[start:end], start, end, "code") for start, end in spans)
            return ContextText(sentences, {place: words for place, (_, _, words) in enumerate(values)})
    return ContextText(split_sentences(text), {})


class ExactFacts:
    """Numbers and identifiers of the structured contexts, which belong to the words of their own line.

    Args:
        lines: what each says.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        stems = ((line, frozenset(word[:_STEM] for word in _plain_words(line))) for line in islice(lines, _MOST_LINES))
        self._lines = [(words, frozenset(_exact(line))) for line, words in within_deadline(stems)]
        self._known = frozenset[str]().union(*(tokens for _, tokens in self._lines))

    def find_misplaced(self, text: str) -> tuple[str, ...]:
        """Return the numbers and identifiers that stand in other lines than those with most words of their clause."""
        found: list[str] = []
        for clause in _CLAUSE_ENDS.split(text) if self._lines else ():
            wanted = [token for token in _exact(clause) if token in self._known]
            plain = _plain_words(clause)
            words = frozenset(word[:_STEM] for word in plain)
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


def _lines(text: str) -> list[_Value] | None:
    """Return the lines of a log or of code; None unless nearly every line looks like one."""
    spans: list[_Value] = []
    position = 0
    for line in text.splitlines(keepends=True):
        if stripped := line.strip():
            start = position + line.index(stripped)
            spans.append((start, start + len(stripped), stripped))
        position += len(line)
    for pattern in (_LOG_LINE, _CODE_LINE):
        like = sum(pattern.match(line) is not None for _, _, line in spans)
        if len(spans) >= _FEWEST_LINES and like >= _LEAST_ALIKE * len(spans):
            return spans
    return None


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
    position, limit = _SPACE.match(text).end(), len(text.rstrip())  # type: ignore[union-attr]
    while position < limit:
        token = _JSON_TOKEN.match(text, position)
        if token is None or len(levels) > _DEEPEST:
            return None
        mark, start, end = token.group(), token.start(), token.end()
        position = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        if mark in "{[":
            above = levels[-1] if levels else None
            levels.append(_Level(mark == "{", (above.pending or above.key) if above else ""))
        elif mark in "}]":
            if not levels or levels.pop().is_object != (mark == "}"):
                return None
        elif not levels:
            return None
        elif mark not in ":,":
            if levels[-1].is_object and text[position : position + 1] == ":":
                levels[-1].pending, levels[-1].key_start = mark.strip('"'), start
            else:
                values.append(_scalar(levels, mark, start, end))
    return values if values and not levels else None


def _scalar(levels: list[_Level], mark: str, start: int, end: int) -> _Value:
    level, value = levels[-1], mark.strip('"')
    with suppress(ValueError):
        value = json.loads(mark) if mark.startswith('"') else value
    key = level.pending or "" if level.is_object else ""
    found = (level.key_start if level.is_object and level.key_start >= 0 else start, end, _reading(levels, key, value))
    if level.is_object and not level.identity and mark.startswith('"'):
        level.identity = f"{_words(key)} {value}"
    return found


def _reading(levels: list[_Level], key: str, value: str) -> str:
    parts: list[str] = []
    for level in levels:
        for part in (_words(level.key), level.identity):
            if part and part not in parts:
                parts.append(part)
    return " ".join([*parts, _words(key), value]).strip()


def _yaml(text: str) -> list[_Value] | None:
    """Return the scalars of YAML in block style; None unless nearly every line is a key or an item."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < _FEWEST_COLUMNS or len(_YAML_KEYS.findall(text)) < len(lines) - 1 - text.count("\n- "):
        return None
    if not any(line.startswith(" ") for line in lines) or max(map(len, lines)) > _LONGEST_YAML_LINE:
        return None
    levels: list[tuple[int, _Level]] = []
    values: list[_Value] = []
    position = 0
    for raw in text.splitlines(keepends=True):
        start, position = position, position + len(raw)
        line = raw.rstrip("\r\n")
        found = _YAML_LINE.match(line)
        if found is None or not line.strip() or line.lstrip().startswith("#"):
            continue
        indent = len(found["indent"]) + len(found["dash"])
        # A dash begins a new object: what named the last one is over.
        deepest = len(found["indent"]) + 1 if found["dash"] else indent
        levels = [each for each in levels if each[0] <= deepest]
        key, value = found["key"] or "", found["value"].strip("\"'")
        if key and not value:
            levels.append((indent + 1, _Level(True, key)))
            continue
        inner = [level for _, level in levels]
        values.append((start + len(found["indent"]), start + len(line.rstrip()), _reading(inner, key, value)))
        if not any(at == indent for at, _ in levels):
            is_name = not value.replace(".", "").isdecimal()
            levels.append((indent, _Level(True, "", f"{_words(key)} {value}" if is_name else "")))
    return values or None


def _csv(text: str) -> list[_Value] | None:
    """Return the rows of comma- or tab-separated values, each value behind its column's name."""
    lines = text.splitlines(keepends=True)
    if len(lines) < _FEWEST_ROWS:
        return None
    separator = "\t" if "\t" in lines[0] else ","
    header = [cell.strip() for cell in lines[0].rstrip("\r\n").split(separator)]
    has_names = all(_COLUMN_NAME.fullmatch(cell) for cell in header) and len(set(header)) == len(header)
    if len(header) < _FEWEST_COLUMNS or not has_names:
        return None
    try:
        rows = [next(csv.reader([line], delimiter=separator), []) for line in lines]
    except csv.Error:
        return None
    if any(len(row) != len(header) for row in rows if row):
        return None
    values: list[_Value] = []
    position = 0
    for number, (line, row) in enumerate(zip(lines, rows, strict=True)):
        start, position = position, position + len(line)
        if number and row:
            cells = (f"{_words(name)} {cell.strip()}" for name, cell in zip(header, row, strict=True) if cell.strip())
            values.append((start, start + len(line.rstrip()), ", ".join(cells)))
    return values or None
