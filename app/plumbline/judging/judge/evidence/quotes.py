"""Quotes in the forms in which they are searched: folded, without markup, in place; fuzzy alignment with a text."""

import html
import re
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.fuzz import partial_ratio_alignment, ratio

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.obfuscation import is_hidden
from plumbline.judging.text.words import find_in_pieces, has_content, to_simplified

Offsets = NDArray[np.int64]

_PATTERNS = Phrases("judging/judge/evidence/quotes")
_QUOTE_MARKS = {mark: plain for plain, marks in _PATTERNS.read("marks").items() for mark in marks}
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
        # It does what follows letter by letter, in a tenth of the time.
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

# What all marks but those of a line begin with stands first and alone: few characters are one of these.
_MARKUP = re.compile(
    rf"^(?:{_PATTERNS.pattern('markup_of_line')})|(?=[<&!\[\]【|\\`*~_])(?:{_PATTERNS.pattern('markup')})", re.MULTILINE
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


# Shorter than this a "quote" stands in any text: a word of Latin letters, two Han characters.
_MIN_CHARACTERS = 3
_MIN_HAN_CHARACTERS = 2
# A part of a quote with "..." is looked for by itself, so it must be telling.
_MIN_PART_CHARACTERS = 12
_MIN_DENSE_PART_CHARACTERS = 5
_MAX_PARTS = 8
# A judge's quotes are no longer.
_MAX_PARTED_CHARACTERS = 4_000
_ELLIPSIS, _GLUE = (re.compile(_PATTERNS.pattern(name)) for name in ("ellipsis", "glue"))
_LABEL = re.compile(_PATTERNS.pattern("label"), re.IGNORECASE)
_EDGES = " \"'.,;:!?()[]-。，、；：！？"


def separate_quotes(text: str) -> tuple[str, ...]:
    """Return the quotes that a text consists of, without labels and short parts; () if it is but one quote."""
    if len(text) > _MAX_PARTED_CHARACTERS:
        return ()
    unlabelled = _LABEL.sub("\n", text).strip()
    glued = [part.strip(_EDGES) for part in _GLUE.split(unlabelled)][:_MAX_PARTS]
    if len(glued) == 1:
        return () if unlabelled == text.strip() else (unlabelled,)
    return tuple(part for part in glued if _is_long_enough(part))


class Quote:
    """A quote in the forms in which it is searched."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """Return it folded, then without marks at its edges too."""
        return _forms(plain(self.text))

    @cached_property
    def bare(self) -> tuple[str, ...]:
        return _forms(strip_markup(plain(self.text)))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Return the parts between its ellipses; () without any, or if a part is too short to tell a place by."""
        if len(self.text) > _MAX_PARTED_CHARACTERS:
            return ()
        parts = [part.strip(_EDGES) for part in _ELLIPSIS.split(self.text)][:_MAX_PARTS]
        folded = tuple(_forms(strip_markup(plain(part)))[-1] for part in parts if part)
        return folded if len(folded) > 1 and all(map(_is_long_enough, folded)) else ()


def _forms(view: View) -> tuple[str, ...]:
    folded = fold(view).text
    return tuple(dict.fromkeys((folded.strip(), folded.strip(_EDGES))))


def says_something(quote: str) -> bool:
    if not has_content(quote):
        return False
    letters = list(islice(filter(str.isalnum, quote), _MIN_CHARACTERS))
    return len(letters) == _MIN_CHARACTERS or _han(quote) >= _MIN_HAN_CHARACTERS or any(c.isdigit() for c in letters)


def _is_long_enough(part: str) -> bool:
    is_dense = _han(part) >= _MIN_HAN_CHARACTERS and sum(map(str.isalnum, part)) >= _MIN_DENSE_PART_CHARACTERS
    return says_something(part) and (len(part) >= _MIN_PART_CHARACTERS or is_dense)


def _han(text: str) -> int:
    return sum("\u3400" <= character <= "\u9fff" for character in text)


# Of 100: a quote with a slip of the pen is still that quote (DESIGN 4.1). Below this length one letter is too much.
_FUZZY_SCORE = 90.0
_FUZZY_MIN_CHARACTERS = 16
# Words anchor the alignment: Latin and numbers whole, Han in pairs.
_ANCHOR = re.compile(r"[\u3400-\u9fff](?=([\u3400-\u9fff]))|[^\W_\u3400-\u9fff]{2,40}")
# Bounds on the work for one quote, so that hostile text cannot make it quadratic.
_MAX_ANCHORS = 48
_MAX_PLACES_READ = 4_000
_MAX_REGIONS = 4
_SLACK = 0.25
_WORD_CHARACTER = re.compile(r"[^\W_\u3400-\u9fff]")
_LONGEST_WORD = 40


class Aligner:
    """Fuzzy aligner of quotes with one text. Only the regions where the quote's rarest words gather are compared."""

    def __init__(self, view: View) -> None:
        self._text = view.text

    def align(self, quote: str) -> list[tuple[int, int]]:
        """Return stretches [start:end) that equal the quote but for a tenth of its characters, best first.

        They are widened to whole words. A short quote has none.
        """
        if len(quote) < _FUZZY_MIN_CHARACTERS:
            return []
        if len(quote) > len(self._text):
            # Alignment would look for the shorter in the longer: for the text in the quote.
            return [(0, len(self._text))] if ratio(quote, self._text, score_cutoff=_FUZZY_SCORE) else []
        slack = int(len(quote) * _SLACK) + 1
        found: list[tuple[float, int, int]] = []
        for shift in self._shifts(quote, slack):
            first = max(0, shift - slack)
            region = self._text[first : shift + len(quote) + 2 * slack]
            if len(region) < len(quote):
                first = max(0, len(self._text) - len(quote))
                region = self._text[first:]
            alignment = partial_ratio_alignment(quote, region, score_cutoff=_FUZZY_SCORE)
            if alignment:
                start = self._widen(first + alignment.dest_start, -1)
                found.append((-alignment.score, start, self._widen(first + alignment.dest_end, 1)))
        return [(start, end) for _, start, end in sorted(found)]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for match in find_in_pieces(_ANCHOR, self._text):
            places[match.group() + (match[1] or "")].append(match.start())
        return places

    def _shifts(self, quote: str, slack: int) -> list[int]:
        """Return where the quote would start in the text, by most of its words; coarse to `slack` characters."""
        anchors = [(match.group() + (match[1] or ""), match.start()) for match in _ANCHOR.finditer(quote)]
        known = [(word, at) for word, at in anchors if word in self._places]
        # The rarest words tell most; those that stand everywhere are passed over.
        known.sort(key=lambda anchor: len(self._places[anchor[0]]))
        votes: Counter[int] = Counter()
        read = 0
        for word, at in known[:_MAX_ANCHORS]:
            for place in self._places[word][:_MAX_PLACES_READ]:
                votes[(place - at) // slack] += len(word)
            read += len(self._places[word])
            if read > _MAX_PLACES_READ:
                break
        # The votes of one place may fall into two neighbouring bins.
        strength = {bin_: count + votes.get(bin_ + 1, 0) for bin_, count in votes.items()}
        best = sorted(strength, key=lambda bin_: (-strength[bin_], bin_))[:_MAX_REGIONS]
        return [max(0, bin_ * slack) for bin_ in best]

    def _widen(self, place: int, step: int) -> int:
        """Return the edge of the word that the place is inside of, before it or (`step` 1) after it."""
        text = self._text
        for _ in range(_LONGEST_WORD):
            if not (0 < place < len(text) and all(map(_WORD_CHARACTER.match, text[place - 1 : place + 1]))):
                break
            place += step
        return place
