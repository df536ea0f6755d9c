"""Texts folded for comparison and stripped of markup; each character keeps its place in the original."""

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from plumbline.judging.text.obfuscation import is_hidden
from plumbline.judging.text.words import find_in_pieces, to_simplified

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
    """A text for comparison; `origin[i]` is the offset in the original that character i came from.

    `origin` ascends, not strictly: two characters may come from one.
    """

    text: str
    origin: Offsets

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in the original of the non-empty stretch [start:end) of the view."""
        return int(self.origin[start]), int(self.origin[end - 1]) + 1


def plain(text: str) -> View:
    return View(text, np.arange(len(text), dtype=np.int64))


def fold(view: View) -> View:
    """Fold NFKD, case, Chinese variants, quote marks, dashes and white space, and drop hidden characters.

    Decomposed character by character, so that composed and decomposed letters meet and each keeps its offset. Linear.
    """
    if view.text.isascii():
        # As below, letter by letter, in a tenth of the time.
        return _without_repeated_blanks(view.text.translate(_ASCII_FOLDED), view.origin)
    pieces = list(map(_fold_one, view.text))
    text = "".join(pieces)
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    return _without_repeated_blanks(text, np.repeat(view.origin, lengths))


def _without_repeated_blanks(text: str, origin: Offsets) -> View:
    if "  " not in text:
        return View(text, origin)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    is_blank = codes == _SPACE
    kept = ~(is_blank & np.concatenate(([False], is_blank[:-1])))
    return View(codes[kept].tobytes().decode("utf-32-le", "surrogatepass"), origin[kept])


@lru_cache(maxsize=65_536)
def _fold_one(character: str) -> str:
    if is_hidden(character):
        return ""
    pieces = unicodedata.normalize("NFKD", _QUOTE_MARKS.get(character, character).casefold())
    return to_simplified("".join(" " if piece.isspace() else _QUOTE_MARKS.get(piece, piece) for piece in pieces))


_ASCII_FOLDED = {code: _fold_one(chr(code)) for code in range(128)}

# Every pattern is bounded or possessive: the text comes from strangers.
_MARKUP = re.compile(
    r"^(?:(?P<rule>[ \t]{0,3}\|?[ \t]{0,3}:?-{2,}+:?[ \t]{0,3}(?:\|[ \t]{0,3}:?-{2,}+:?[ \t]{0,3}){0,60}\|?[ \t]{0,3}$)"
    r"|(?P<line>[ \t]{0,12}(?:>[ \t]?){0,6}(?:\#{1,6}[ \t]+|[-*+•·‣][ \t]+|\(?\d{1,2}[.)][ \t]+|>[ \t]?)))"
    # What all others begin with stands first and alone: few characters are one of these.
    r"|(?=[<&!\[\]【|\\`*~_])(?:(?P<comment><!--(?:[^<>]++|(?!<!--)<)*+>(?<=-->))"
    r"|(?P<tag></?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>]{0,500})?/?>)"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,24});)"
    r"|(?P<image>!\[(?=[^\[\]\n]{0,300}\]\())"
    r"|(?P<link>\[(?=[^\[\]\n]{1,300}\]\())"
    r"|(?P<target>\]\([^()\s]{0,1000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?(?:\s\"[^\"\n]{0,200}\")?\))"
    r"|(?P<citation>\[\d{1,3}(?:\s?[,–-]\s?\d{1,3}){0,8}\]|【\d{1,3}[^】\n]{0,40}】)"
    r"|(?P<pipe>\|)"
    r"|(?P<escape>\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<code>`+)"
    r"|(?P<stars>\*{2,3}|(?<![\s\d])\*|\*(?![\s\d])|~~)"
    r"|(?P<bars>(?<![^\W_])_{1,3}(?=[^\W_])|(?<=[^\s_])_{1,3}(?![^\W_])))",
    re.MULTILINE,
)
# Tags in mid-word vanish; the others stand between words.
_INLINE_TAG_NAMES = "a abbr b bdi bdo code em font i kbd mark q s small span strong sub sup tt u var wbr"
_INLINE_TAGS = frozenset(_INLINE_TAG_NAMES.split())
_TAG_NAME = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)")


def strip_markup(view: View) -> View:
    """Remove markup from a view; the same one when it has none. Linear in its length.

    Gone are emphasis, headings, list marks, block quotes, inline code marks, the targets of links, table pipes and
    alignment rows, HTML tags and citation marks such as [1]; entities become their characters.
    """
    matches = list(find_in_pieces(_MARKUP, view.text))
    if not matches:
        return view
    replacements = [_replacement(str(match.lastgroup), match.group()) for match in matches]
    texts: list[str] = []
    at = 0
    for match, replacement in zip(matches, replacements, strict=True):
        texts += (view.text[at : match.start()], replacement)
        at = match.end()
    starts, ends = np.array([match.span() for match in matches], dtype=np.int64).T
    # How often each character counts: once, or not within a cut, whose first one counts for what replaces it.
    bounds = len(view.text) + 1
    inside = np.cumsum(np.bincount(starts, minlength=bounds) - np.bincount(ends, minlength=bounds))
    counts = 1 - inside[:-1]
    counts[starts] = list(map(len, replacements))
    return View("".join([*texts, view.text[at:]]), np.repeat(view.origin, counts))


def _replacement(kind: str, markup: str) -> str:
    if kind == "entity":
        return html.unescape(markup)
    if kind == "tag":
        name = _TAG_NAME.match(markup)
        return "" if name and name[1].casefold() in _INLINE_TAGS else " "
    return " " if kind in ("comment", "rule", "pipe") else ""
