"""A marked text as blocks for a page: paragraphs, headings, list items and tables of Markdown, bold words."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

_BOLD: Final = re.compile(r"\*\*(?=[^\s*])([^*\n]{1,400}+)\*\*")
_HEADING: Final = re.compile(r" {0,3}#{1,6} +(?=\S)")
_ITEM: Final = re.compile(r"[ \t]*[-*+•] +(?=\S)")
# Most texts have none of them.
_SIGNS: Final = re.compile(r"[|*]|^[ \t]*+[-+•#]", re.MULTILINE)
_BAR: Final = re.compile(r"(?<!\\)\|")
_DIVIDER_SIGNS: Final = frozenset("|:- \t")
# Of one table; what follows is another block.
_MOST_ROWS, _MOST_BARS = 500, 100


class Piece(NamedTuple):
    """A part of a text. `kind`: empty, the verdict that it is evidence for, or `nearest` for one without any support.

    `sentence`: number of the sentence that it belongs to, counted from 1; 0 for none.
    """

    text: str
    kind: str = ""
    sentence: int = 0
    is_bold: bool = False


Cell = tuple[Piece, ...]


class Block(NamedTuple):
    """`kind`: `text`, `heading`, `item` or `table`, its head first; others have one row of one cell."""

    kind: str
    rows: tuple[tuple[Cell, ...], ...]


def split_blocks(pieces: Sequence[Piece]) -> tuple[Block, ...]:
    """Return the blocks of a text in order. Signs of Markdown go, every word and every mark stays."""
    text = "".join(piece.text for piece in pieces)
    if len(pieces) == 1 and not _SIGNS.search(text):
        return (Block("text", (((pieces[0]._replace(text=text.strip()),),),)),) if text.strip() else ()
    cut = _Cutter(pieces, text)
    ends = list(accumulate(len(line) for line in text.splitlines(keepends=True)))
    lines = list(zip([0, *ends], ends, strict=False))
    blocks: list[Block] = []
    first = number = 0
    while number <= len(lines):
        start, end = lines[number] if number < len(lines) else (len(text), len(text))
        height = _table_height(text, lines, number)
        sign = None if height else _HEADING.match(text, start, end) or _ITEM.match(text, start, end)
        if height or sign or number == len(lines):
            if text[first:start].strip():
                blocks.append(Block("text", ((cut(first, start),),)))
            if height:
                rows = (lines[number], *lines[number + 2 : number + height])
                cells = (tuple(cut(*cell) for cell in _cells(text, *row)) for row in rows)
                blocks.append(Block("table", tuple(cells)))
            elif sign:
                kind = "heading" if "#" in sign[0] else "item"
                blocks.append(Block(kind, ((cut(sign.end(), end),),)))
            number += max(1, height)
            first = lines[number - 1][1] if number <= len(lines) else len(text)
        else:
            number += 1
    return tuple(blocks)


def _table_height(text: str, lines: Sequence[tuple[int, int]], number: int) -> int:
    """Return the number of lines of the table that begins with a line, 0 if none does: a head, a rule, rows."""
    if number + 1 >= len(lines) or "|" not in text[slice(*lines[number])]:
        return 0
    rule = text[slice(*lines[number + 1])].strip()
    if "--" not in rule or not 0 < rule.count("|") <= _MOST_BARS or not _DIVIDER_SIGNS.issuperset(rule):
        return 0
    height = 2
    while number + height < len(lines) and height < _MOST_ROWS and "|" in text[slice(*lines[number + height])]:
        height += 1
    return height


def _cells(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the cells of a row; bars at its ends are no cells of their own."""
    row = text[start:end].rstrip()
    bars = [start + found.start() for found in _BAR.finditer(row)]
    first = bars.pop(0) + 1 if row.lstrip().startswith("|") else start
    last = bars.pop() if bars and row.endswith("|") else start + len(row)
    for bar in (*bars, last):
        yield first, bar
        first = bar + 1


class _Cutter:
    """Cuts parts out of a text in pieces, without the signs of bold words, white space at the ends left out."""

    def __init__(self, pieces: Sequence[Piece], text: str) -> None:
        self._text = text
        bold = [found.span() for found in _BOLD.finditer(text)]
        edges = sorted({0, len(text), *(edge for a, b in bold for edge in (a, a + 2, b - 2, b))})
        signs = {edge for a, b in bold for edge in (a, b - 2)}
        words = {a + 2 for a, _ in bold}
        ends = list(accumulate(len(piece.text) for piece in pieces))
        self._starts: list[int] = []
        self._parts: list[tuple[int, Piece]] = []
        for piece, end in zip(pieces, ends, strict=True):
            start = end - len(piece.text)
            while start < end:
                place = bisect_right(edges, start)
                stop = min(end, edges[place] if place < len(edges) else end)
                if edges[place - 1] not in signs:
                    self._starts.append(start)
                    self._parts.append((stop, piece._replace(is_bold=edges[place - 1] in words)))
                start = stop

    def __call__(self, start: int, end: int) -> Cell:
        part = self._text[start:end]
        start, end = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        found = []
        number = max(0, bisect_right(self._starts, start) - 1)
        while number < len(self._starts) and self._starts[number] < end:
            stop, piece = self._parts[number]
            if stop > start:
                text = self._text[max(start, self._starts[number]) : min(end, stop)]
                found.append(piece._replace(text=text))
            number += 1
        return tuple(found)
