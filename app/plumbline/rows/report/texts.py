"""Texts of reports: fixed words by language, and text of others made safe to display."""

import re
from collections.abc import Mapping
from typing import Final

from plumbline.ground.phrases import load_data

_PARTS: Final = "rows/report/page_parts"
# Bidirectional controls let a text look like another ("Trojan source"); other controls show as nothing at all.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
# Forbidden in XML 1.0, even escaped; surrogates cannot be written as UTF-8.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES: Final = re.compile(r"\s+")


def metric_words(name: str, words: Mapping[str, str]) -> str:
    """Return the heading of a metric, its depth behind it: "Context precision@5"."""
    bare, at, depth = name.partition("@")
    return words.get(bare, bare) + at + depth


def visible(text: str) -> str:
    """Return the text with invisible control characters written out, as `⟦U+202E⟧`."""
    return _UNSEEN.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧", text)


def one_line(text: str, *, most: int) -> str:
    """Return the visible text on one line, truncated to `most` characters."""
    line = _SPACES.sub(" ", visible(text)).strip()
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


def xml_text(text: str) -> str:
    """Return the text without characters that XML 1.0 forbids."""
    return _NOT_XML.sub("", text)


def load_words(language: str, folder: str = _PARTS) -> Mapping[str, str]:
    """Return the fixed words of a page by name, from a folder of the package (default: the report's)."""
    return load_data(f"{folder}/words.{language}")
