"""Whether a run's text is regular: one form on every line, so that any reader splits it alike."""

from dataclasses import dataclass
from typing import Final

import numpy as np

RANKED_COLUMNS: Final = 3
SCORED_COLUMNS: Final = 6
LARGEST_BLANK: Final = 32
_BLOCK_BYTES: Final = 256 * 1024  # stays in the processor's cache


class IrregularRun(Exception):
    """A line is not like the others; which one, and whether it is wrong, is for the line reader to say."""


@dataclass(frozen=True, slots=True)
class RegularText:
    """Text that holds `rows` lines of `columns` fields, if every line has as many fields as the first.

    No field is empty or holds a blank or a control character. With `rows` lines of `columns` fields, there is exactly
    one `separator` byte between two fields and one `\\n` between two lines.
    """

    data: bytes
    separator: bytes
    columns: int
    rows: int


def regular_text(data: bytes) -> RegularText | None:
    """The text, with `\\r\\n` as `\\n`; None when it has comments, blank lines, or blanks of several kinds."""
    if b"\r" in data:
        # a lone carriage return is white space to one reader and a line's end to another
        if data.count(b"\r") != data.count(b"\r\n"):
            return None
        data = data.replace(b"\r\n", b"\n")
    end = data.find(b"\n")
    first = data[: end if end >= 0 else len(data)]
    separator = b"\t" if b"\t" in first else b" "
    columns = first.count(separator) + 1
    if (
        columns not in {RANKED_COLUMNS, SCORED_COLUMNS}
        or data.startswith((separator, b"#"))
        or data.endswith(separator)
    ):
        return None
    blanks = _single_blanks(data)
    rows, left = divmod((blanks or 0) + (not data.endswith(b"\n")), columns)
    return RegularText(data, separator, columns, rows) if blanks and not left else None


def _single_blanks(data: bytes) -> int | None:
    """How many blanks and control characters there are; None when two of them stand side by side."""
    text = np.frombuffer(data, dtype=np.uint8)
    found = 0
    for start in range(0, len(text), _BLOCK_BYTES):
        is_blank = text[start : start + _BLOCK_BYTES + 1] <= LARGEST_BLANK
        if (is_blank[1:] & is_blank[:-1]).any():
            return None
        found += int(np.count_nonzero(is_blank[:_BLOCK_BYTES]))
    return found
