"""Texts folded for comparison, each character with the place in the original that it came from."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from plumbline.judging.text.hidden import is_hidden

Offsets = NDArray[np.int64]

_QUOTE_MARKS = {
    **dict.fromkeys("“”„«»「」『』", '"'),
    **dict.fromkeys("‘’‚`´ʼ", "'"),
    **dict.fromkeys("—–‐‑‒―−", "-"),
    "…": "...",
}
_SPACE = ord(" ")


@dataclass(frozen=True, slots=True)
class View:
    """A text as it is compared; `origin[i]` is the offset in the original that character i came from.

    `origin` ascends, not strictly: two characters may come from one.
    """

    text: str
    origin: Offsets

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The offsets in the original of the non-empty stretch [start:end) of the view."""
        return int(self.origin[start]), int(self.origin[end - 1]) + 1


def plain(text: str) -> View:
    """The text itself."""
    return View(text, np.arange(len(text), dtype=np.int64))


def fold(view: View) -> View:
    """The view folded: NFKD, case, quote marks, dashes and white space made one, characters that nobody sees dropped.

    Decomposed character by character, so that composed and decomposed letters meet and each keeps its offset. Linear.
    """
    pieces = list(map(_fold_one, view.text))
    text = "".join(pieces)
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    return _single_blanks(View(text, np.repeat(view.origin, lengths)))


def without(view: View, cuts: Sequence[tuple[int, int, str]]) -> View:
    """The view with stretches [start:end) of it replaced, ascending and apart; a replacement comes from its start."""
    texts: list[str] = []
    at = 0
    for start, end, replacement in cuts:
        texts += (view.text[at:start], replacement)
        at = end
    texts.append(view.text[at:])
    starts = np.fromiter((start for start, _, _ in cuts), dtype=np.int64, count=len(cuts))
    ends = np.fromiter((end for _, end, _ in cuts), dtype=np.int64, count=len(cuts))
    added = np.fromiter((len(replacement) for _, _, replacement in cuts), dtype=np.int64, count=len(cuts))
    # How often each character counts: once, or not within a cut, whose first one counts for what replaces it.
    bounds = len(view.text) + 1
    inside = np.cumsum(np.bincount(starts, minlength=bounds) - np.bincount(ends, minlength=bounds))
    counts = 1 - inside[:-1]
    counts[starts] = added
    return View("".join(texts), np.repeat(view.origin, counts))


@lru_cache(maxsize=65_536)
def _fold_one(character: str) -> str:
    if is_hidden(character):
        return ""
    pieces = unicodedata.normalize("NFKD", _QUOTE_MARKS.get(character, character).casefold())
    return "".join(" " if piece.isspace() else _QUOTE_MARKS.get(piece, piece) for piece in pieces)


def _single_blanks(view: View) -> View:
    if not re.search("  ", view.text):
        return view
    codes = np.frombuffer(view.text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    is_blank = codes == _SPACE
    kept = ~(is_blank & np.concatenate(([False], is_blank[:-1])))
    text = codes[kept].tobytes().decode("utf-32-le", "surrogatepass")
    return View(text, view.origin[kept])
