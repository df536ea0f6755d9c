"""A marked text as blocks for a page: paragraphs, headings, list items and tables of Markdown, bold words."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from plumbline.judging.text.blocks import TABLE_RULE, TextBlock
from plumbline.judging.text.blocks import split_blocks as read_blocks
from plumbline.judging.text.structured import find_cells

_BOLD: Final = re.compile(r"\*\*(?=[^\s*])([^*\n]{1,400}+)\*\*")
_SIGN: Final = re.compile(r"(?:#{1,6}|[-*+•]) +(?=\S)")
# Most texts have none of them.
_SIGNS: Final = re.compile(r"[|*]|^[ \t]*+[-+•#]", re.MULTILINE)
# A longer text is shown as it is.
_LONGEST: Final = 200_000
# Of one table; what follows is another block.
_MOST_ROWS: Final = 500


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
    if len(text) > _LONGEST:
        return (Block("text", ((tuple(pieces),),)),)
    cut = _Cutter(pieces, text)
    blocks: list[Block] = []
    found = list(read_blocks(text))
    # Where the text begins that no block has yet.
    rest = number = 0
    while number < len(found):
        start, end, kind = found[number].start, found[number].end, found[number].kind
        height = _table_height(text, found, number)
        sign = _SIGN.match(text, start, end) if kind in ("heading", "list_item") else None
        if (height or sign) and text[rest:start].strip():
            blocks.append(Block("text", ((cut(rest, start),),)))
        if height:
            rows = (found[number], *found[number + 2 : number + height])
            cells = (tuple(cut(*cell) for cell in find_cells(text, row.start, row.end)) for row in rows)
            blocks.append(Block("table", tuple(cells)))
            rest = found[number + height - 1].end
        elif sign:
            rest = text.find("\n", start, end) + 1 or end
            blocks.append(Block("heading" if "#" in sign[0] else "item", ((cut(sign.end(), rest),),)))
        number += max(1, height)
    return (*blocks, Block("text", ((cut(rest, len(text)),),))) if text[rest:].strip() else tuple(blocks)


def _table_height(text: str, found: Sequence[TextBlock], number: int) -> int:
    """Return the number of blocks of the table that begins with a block, 0 if none does: a head, a rule, rows."""
    head, *below = found[number : number + 2]
    if head.kind != "table_row" or not below or not TABLE_RULE.match(text, below[0].start, below[0].end):
        return 0
    height = 2
    for above, row in pairwise(found[number + 1 : number + _MOST_ROWS]):
        if "|" not in text[row.start : row.end] or text.count("\n", above.end, row.start) > 1:
            break
        height += 1
    return height


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
