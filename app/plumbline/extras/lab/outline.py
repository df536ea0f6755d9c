"""Headings and sections of a text."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from plumbline.judging.text.blocks import TextBlock, split_blocks

_IN_FRONT: Final = re.compile(r"(?:>[ \t]*)*+#*+[ \t]*+")
_BEHIND: Final = re.compile(r"(?<=\s)#++\Z")


def heading_text(block: str) -> str:
    """Return the text of a heading on one line, without `#`, the line below it or the marks of bold around it."""
    line = block.splitlines()[0]
    inner = _BEHIND.sub("", line[_IN_FRONT.match(line).end() :].rstrip()).strip()  # type: ignore[union-attr]  # fits ""
    for mark in ("**", "__"):
        if inner.startswith(mark):
            inner = inner.removeprefix(mark).replace(mark, "", 1)
    return " ".join(inner.split())


def first_heading(text: str) -> str:
    """Return the heading that a text starts with; empty if it starts otherwise."""
    first = next(split_blocks(text), None)
    return heading_text(text[first.start : first.end]) if first and first.kind == "heading" else ""


_UNDERLINED: Final = re.compile(r"[=-]+\s*\Z")
# Below the six levels of Markdown: a line that is bold from end to end.
_BOLD_LEVEL: Final = 7
_MAX_PLAIN_CHARS: Final = 80
_ENDS_CLOSED: Final = re.compile(r"[.!?。！？…:：;；,，、]\Z")
_HAN_NUMBER: Final = "[零〇一二三四五六七八九十百0-9]{1,6}"
_PART_LINE: Final = re.compile(
    rf"(?:Part|Chapter|Appendix|PART|CHAPTER|APPENDIX)\s+[0-9A-Z]{{1,6}}\b|第{_HAN_NUMBER}[章篇部编]"
)
_SECTION_LINE: Final = re.compile(rf"(?:Section|SECTION)\s+[0-9A-Z]{{1,6}}\b|第{_HAN_NUMBER}节")
_NUMBERED: Final = re.compile(r"[0-9]{1,3}((?:\.[0-9]{1,3}){1,4})\s+[^\W\d_a-z]")


class Section(NamedTuple):
    """text[start:end), from a heading to the next; `path`: the headings above it and its own, joined by ` > `."""

    start: int
    end: int
    path: str
    blocks: tuple[TextBlock, ...]


def split_sections(text: str) -> Iterator[Section]:
    """Yield the sections in order; text before the first heading is a section without a path.

    Headings are Markdown's (`#`, a line below, a bold line) and, in plain text, lines of their own that number
    themselves: `Chapter 3`, `Section B`, `2.1 Methods`, `第三章`, `第二节`. A heading with nothing below it belongs to
    the section that follows.
    """
    levels: list[tuple[int, str]] = []
    blocks: list[TextBlock] = []
    has_text = False
    for block in split_blocks(text):
        level = _heading_level(text, block)
        if level and has_text:
            yield _section(levels, blocks)
            blocks, has_text = [], False
        if level:
            heading = heading_text(text[block.start : block.end])
            levels = [*(each for each in levels if each[0] < level), (level, heading)]
        else:
            has_text = True
        blocks.append(block)
    if blocks:
        yield _section(levels, blocks)


def _section(levels: list[tuple[int, str]], blocks: list[TextBlock]) -> Section:
    path = " > ".join(title for _, title in levels if title)
    return Section(blocks[0].start, blocks[-1].end, path, tuple(blocks))


def _heading_level(text: str, block: TextBlock) -> int:
    """Return the level of a heading, 1 for the highest; 0 if the block is none."""
    if block.kind == "heading":
        heading = text[block.start : block.end]
        marks = len(heading) - len(heading.lstrip("#"))
        lines = heading.splitlines()
        if not marks and len(lines) > 1 and _UNDERLINED.match(lines[-1].strip()):
            return 1 if lines[-1].strip().startswith("=") else 2
        return marks or _BOLD_LEVEL
    line = text[block.start : block.end]
    if block.kind != "prose" or len(line) > _MAX_PLAIN_CHARS or "\n" in line or _ENDS_CLOSED.search(line):
        return 0
    if _PART_LINE.match(line):
        return 1
    if _SECTION_LINE.match(line):
        return 2
    numbered = _NUMBERED.match(line)
    return numbered[1].count(".") + 1 if numbered else 0
