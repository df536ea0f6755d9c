"""Texts of others made fit to be shown: nothing that reorders or hides what stands beside it."""

import re
from typing import Final

# Bidirectional controls let a text look like another ("Trojan source"); other controls show as nothing at all.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
# Those that no XML 1.0 document may hold, not even escaped; surrogates cannot be written as UTF-8.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES: Final = re.compile(r"\s+")


def visible(text: str) -> str:
    """The text with controls that have no form of their own written out, `⟦U+202E⟧`."""
    return _UNSEEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text)


def one_line(text: str, *, most: int) -> str:
    """The visible text in one line, cut behind `most` characters."""
    line = _SPACES.sub(" ", visible(text)).strip()
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


def xml_text(text: str) -> str:
    """The text without characters that XML 1.0 forbids."""
    return _NOT_XML.sub("", text)
