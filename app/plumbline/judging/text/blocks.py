"""Blocks of a text, line by line: paragraphs, list items, headings, table rows, code and markup."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases

BlockKind = Literal["prose", "heading", "list_item", "table_row", "code", "markup"]

# A hard-wrapped line is about this long (mail, RFC, PEP 8 and terminal widths lie between).
_WRAP_MIN_CHARS = 60
_WRAP_MAX_CHARS = 120
# A longer "heading" is a whole page squeezed into one line by a scraper.
_HEADING_MAX_CHARS = 200
_BOLD_HEADING_MAX_CHARS = 120
_LIST_INDENT_CHARS = 2
_CELL_BARS = 2

_WORD_CHAR = re.compile(r"[^\W_]")
_QUOTE_PREFIX = re.compile(r"(?:>\s*+)++")
_FENCE = re.compile(r"(`{3,}+)[^`]*+\Z|(~{3,}+)")
_FENCE_MARKS = "`~"
_HEADING_MARKS = "#*_"
_UNDERLINE_MARKS = "=-"
_HEADING = re.compile(r"#{1,6}(?=[ \t])|#{2,6}(?=[^\W_])")
_BOLD_LINE = re.compile(r"(?:\*\*[^*]++(?<![.。!！])\*\*|__[^_]++(?<![.。!！])__)[:：]?\Z")
_UNDERLINE = re.compile(r"(?:={3,}+|-{3,}+)\Z")
TABLE_RULE = re.compile(r"(?=.*\|)[|:\- \t]++\Z")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]")
_ENDS_OPEN = re.compile(r"[^.!?。！？…:：]")
LIST_MARKER = re.compile(Phrases("judging/text/layout").pattern("lists.markers"))


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A stretch text[start:end] of one kind, without white space at its ends."""

    start: int
    end: int
    kind: BlockKind


@dataclass(slots=True)
class _Line:
    start: int  # first character that is not white space
    end: int  # after the last one
    body: int  # start, or what follows the "> " of a block quote
    indent: int
    is_after_blank: bool

    def __len__(self) -> int:
        return self.end - self.start


def split_blocks(text: str) -> Iterator[TextBlock]:
    """Yield the blocks of `text` in order; between them is white space.

    Markdown is read as language models write it rather than by the letter of CommonMark:

    - a fence runs to its twin or to the end; a heading is its line, or a line and its === underline, or a line that is
      bold from end to end; a line with no letter or digit is markup;
    - a table row starts with a bar, or stands next to a |---| rule and holds a bar;
    - a line joins the one before it when it starts with a small letter, or when the one before is 60 to 120 long and
      the first word of this one would not have fitted (hard-wrapped text); never after a colon, never in Chinese,
      where a new line is a new paragraph.
    """
    lines = list(_lines(text))
    # Width of each line: the length of the longest one between the blank ones around it.
    width_by_line: list[int] = []
    for first, after in pairwise([*(at for at, line in enumerate(lines) if line.is_after_blank), len(lines)]):
        width_by_line += [max(map(len, lines[first:after]))] * (after - first)
    position = 0
    kind: BlockKind = "markup"
    while position < len(lines):
        last, kind = _block_at(text, lines, position, kind, width_by_line)
        yield TextBlock(lines[position].start, lines[last].end, kind)
        position = last + 1


def has_word(text: str, start: int, end: int) -> bool:
    """Return True if text[start:end] holds a letter or a digit of any script."""
    return _WORD_CHAR.search(text, start, end) is not None


def is_cjk(character: str) -> bool:
    """Return True if `character` is Chinese, Japanese or Korean script, or its full-width punctuation."""
    return _CJK.match(character) is not None


def _lines(text: str) -> Iterator[_Line]:
    offset = 0
    is_after_blank = True
    for raw in within_deadline(text.splitlines(keepends=True)):
        indent = len(raw) - len(raw.lstrip())
        start, end = offset + indent, offset + len(raw.rstrip())
        offset += len(raw)
        if end <= start:
            is_after_blank = True
            continue
        prefix = _QUOTE_PREFIX.match(text, start, end)
        yield _Line(start, end, prefix.end() if prefix else start, indent, is_after_blank)
        is_after_blank = False


def _block_at(
    text: str, lines: list[_Line], position: int, previous_kind: BlockKind, width_by_line: list[int]
) -> tuple[int, BlockKind]:
    """Return the index of the last line of the block that starts at `position`, and its kind."""
    line = lines[position]
    if text[line.start] in _FENCE_MARKS and (fence := _FENCE.match(text, line.start, line.end)):
        last = _fence_end(text, lines, position, fence.group(1) or fence.group(2))
        return last, "code" if has_word(text, line.start, lines[last].end) else "markup"
    if not has_word(text, line.start, line.end):
        return position, "markup"
    if _is_table_row(text, lines, position, previous_kind):
        return position, "table_row"
    if _is_heading(text, line):
        return position, "heading"
    if _is_underlined(text, lines, position):
        return position + 1, "heading"
    return _paragraph_at(text, lines, position, previous_kind, width_by_line)


def _fence_end(text: str, lines: list[_Line], position: int, fence: str) -> int:
    for index in range(position + 1, len(lines)):
        candidate = text[lines[index].start : lines[index].end]
        if candidate.startswith(fence) and not candidate.strip(fence[0]):
            return index
    return len(lines) - 1


def _is_table_row(text: str, lines: list[_Line], position: int, previous_kind: BlockKind) -> bool:
    line = lines[position]
    bar_count = text.count("|", line.body, line.end)
    if not bar_count:
        return False
    if text[line.body] == "|" and bar_count >= _CELL_BARS:
        return True
    neighbours = lines[position + 1 : position + 2]
    if previous_kind in ("table_row", "markup") and position and not line.is_after_blank:
        # The rows of a table without outer bars follow its rule or one another.
        before = lines[position - 1]
        if previous_kind == "table_row" or TABLE_RULE.match(text, before.body, before.end):
            return True
    return any(not near.is_after_blank and TABLE_RULE.match(text, near.body, near.end) for near in neighbours)


def _is_heading(text: str, line: _Line) -> bool:
    if text[line.body] not in _HEADING_MARKS:
        return False
    if _HEADING.match(text, line.body, line.end):
        return len(line) <= _HEADING_MAX_CHARS
    return len(line) <= _BOLD_HEADING_MAX_CHARS and _BOLD_LINE.match(text, line.body, line.end) is not None


def _is_underlined(text: str, lines: list[_Line], position: int) -> bool:
    line = lines[position]
    if position + 1 == len(lines) or len(line) > _BOLD_HEADING_MAX_CHARS:
        return False
    below = lines[position + 1]
    if text[below.start] not in _UNDERLINE_MARKS or LIST_MARKER.match(text, line.body):
        return False
    is_open = _ENDS_OPEN.match(text, line.end - 1) is not None
    return is_open and not below.is_after_blank and _UNDERLINE.match(text, below.start, below.end) is not None


def _paragraph_at(
    text: str, lines: list[_Line], position: int, previous_kind: BlockKind, width_by_line: list[int]
) -> tuple[int, BlockKind]:
    line = lines[position]
    marker = LIST_MARKER.match(text, line.body, line.end)
    if marker and not has_word(text, marker.end(), line.end):
        # "42." with nothing after it is an answer, "1." above its item is not.
        return position, "prose" if position + 1 == len(lines) else "markup"
    is_under_item = previous_kind == "list_item" and not line.is_after_blank and line.indent >= _LIST_INDENT_CHARS
    kind: BlockKind = "list_item" if marker or (is_under_item and not is_cjk(text[line.body])) else "prose"
    for last in within_deadline(range(position, len(lines))):
        if last + 1 == len(lines) or not _continues(text, lines[last], lines[last + 1], width_by_line[last]):
            break
    return last, kind


def _continues(text: str, line: _Line, following: _Line, width: int) -> bool:
    if following.is_after_blank:
        return False
    final, first = text[line.end - 1], text[following.body : following.body + 1]
    if not first.islower() and not _WRAP_MIN_CHARS <= len(line) <= _WRAP_MAX_CHARS:
        return False
    if final in ":：" or is_cjk(final) or is_cjk(first) or not _is_plain(text, following):
        return False
    if first.islower():
        return True
    first_word = text[following.body : following.body + _WRAP_MAX_CHARS].split(maxsplit=1)[0]
    return len(line) + 1 + len(first_word) > width


def _is_plain(text: str, line: _Line) -> bool:
    starts_block = (
        text[line.body : line.body + 1] in ("", "|")
        or LIST_MARKER.match(text, line.body, line.end)
        or (text[line.start] in _FENCE_MARKS and _FENCE.match(text, line.start, line.end))
    )
    return not starts_block and has_word(text, line.start, line.end) and not _is_heading(text, line)
