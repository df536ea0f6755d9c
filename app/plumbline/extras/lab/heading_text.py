"""What headings of texts say, without their marks."""

import re
from typing import Final

from plumbline.judging.text.blocks import split_blocks

_IN_FRONT: Final = re.compile(r"(?:>[ \t]*)*+#*+[ \t]*+")
_BEHIND: Final = re.compile(r"(?<=\s)#++\Z")


def heading_text(block: str) -> str:
    """What a heading says, on one line, without `#`, the line below it or the marks of bold around it."""
    line = block.splitlines()[0]
    inner = _BEHIND.sub("", line[_IN_FRONT.match(line).end() :].rstrip()).strip()  # type: ignore[union-attr]  # fits ""
    for mark in ("**", "__"):
        if inner.startswith(mark):
            inner = inner.removeprefix(mark).replace(mark, "", 1)
    return " ".join(inner.split())


def first_heading(text: str) -> str:
    """The heading that a text begins with; empty where it begins otherwise."""
    first = next(split_blocks(text), None)
    return heading_text(text[first.start : first.end]) if first and first.kind == "heading" else ""
