"""Whether a run of terminators ends the sentence that it stands in."""

import re
from dataclasses import dataclass
from typing import Final

from plumbline.judging.text.abbreviations import shortens, starts_sentence
from plumbline.judging.text.blocks import is_cjk

# These end a sentence with or without white space after them.
STRONG_TERMINATORS: Final = "。｡．؟।॥۔።‼⁇⁈⁉！？"

# Longest abbreviation looked for, with its inner full stops.
_WORD_REACH_CHARS = 24
_ITEM_NUMBER_REACH_CHARS = 5

_STRONG = re.compile(f"[{STRONG_TERMINATORS}]")
_CONTINUES = frozenset("，、；：,;:")
_HALF_WIDTH = frozenset(".!?")
_LATIN = "0-9A-Za-z\u00c0-\u024f\u0370-\u052f"
_LAST_WORD = re.compile(rf"(?<![=/&%@_])[{_LATIN}]++(?:[.'’][{_LATIN}][{_LATIN}]*+)*+\Z")
_OF_WORDS = ".'’" + "".join(filter(re.compile(f"[{_LATIN}]").match, map(chr, range(0x0530))))
_GLUED = re.compile(r"[a-z)\]]{2}")
# “好。”她说。 The speaker named after the quote belongs to it; one that introduces another quote does not.
_SPEAKER_AFTER = re.compile(
    r"(?![没无不谁])[\u4e00-\u9fff·]{1,12}?(?:(?<![听据])说|(?<!知)道|问|回答|(?<!简)称|表示|指出|介绍)[。，,]"
)
# Tokenised text: "j . r . r . tolkien".
_SPACED_INITIAL = re.compile(r"(?<!\w)[A-Za-z]\s\Z")
_ITEM_NUMBER = re.compile(r"[:：,，;；]\s?\d{1,2}\Z")


@dataclass(slots=True)
class Stop:
    """A run of terminators and what surrounds it. Not frozen: there are many, and that takes twice as long."""

    text: str
    start: int
    run: str
    end: int  # after the closing quotes, brackets and citations that belong to the run
    limit: int  # of the block
    following: str  # excerpt, from the next word on
    has_gap: bool
    is_closed: bool  # by a quote or bracket
    is_cited: bool
    is_cased: bool

    @property
    def before(self) -> str:
        return self.text[self.start - 1 : self.start]

    @property
    def after(self) -> str:
        return self.text[self.end : self.end + 1]


def ends_sentence(stop: Stop) -> bool:
    """Whether a sentence ends at `stop`; brackets and quotes around it are the caller's business."""
    if stop.end == stop.limit:
        return True
    if stop.after in _CONTINUES:
        return False
    if stop.run in ";；":
        # The half-width one counts only where it stands for the Chinese one.
        return stop.run == "；" or (is_cjk(stop.before) and is_cjk(stop.following[:1]))
    if stop.run != "." and _STRONG.search(stop.run):
        return _strong_ends(stop)
    if stop.has_gap or stop.is_cited:
        return _spaced_ends(stop)
    return _glued_ends(stop)


def _strong_ends(stop: Stop) -> bool:
    if "．" in stop.run and not stop.has_gap:
        # A full-width decimal or a name such as 例．com; between Chinese characters it is a full stop.
        return is_cjk(stop.before) and is_cjk(stop.after) and not stop.after.isdigit()
    goes_on_after_quote = stop.after == "的" or _SPEAKER_AFTER.match(stop.following)
    return not (stop.is_closed and not stop.has_gap and goes_on_after_quote)


def _glued_ends(stop: Stop) -> bool:
    """Whether a half-width stop ends a sentence though no white space follows."""
    if "…" in stop.run or ".." in stop.run:
        return False
    if is_cjk(stop.following[:1]) and (is_cjk(stop.before) or "." not in stop.run):
        return True
    is_after_word = _GLUED.fullmatch(stop.text, stop.start - 2, stop.start) is not None
    return is_after_word and starts_sentence(stop.following, is_cased=True)


def _spaced_ends(stop: Stop) -> bool:
    """Whether a half-width stop with white space after it ends a sentence."""
    if stop.following[:1] in _CONTINUES:
        return False
    if "!" in stop.run or "?" in stop.run:
        return _exclamation_ends(stop)
    if stop.run != ".":
        return stop.following[:1].isupper() or is_cjk(stop.following[:1])
    return _period_ends(stop)


def _exclamation_ends(stop: Stop) -> bool:
    if not stop.following[:1].islower():
        return True
    if stop.is_closed:
        return False
    # "Jeopardy! is a show": in a text with capitals a small letter after "!" goes on.
    return "?" in stop.run or not stop.is_cased or stop.before.isspace()


def _period_ends(stop: Stop) -> bool:
    following = stop.following[:1]
    if following in _HALF_WIDTH or (stop.is_closed and following.islower()):
        return False
    if stop.before.isspace():
        return not (_SPACED_INITIAL.search(stop.text, max(0, stop.start - 3), stop.start) and _goes_on(stop))
    reach = max(0, stop.start - _WORD_REACH_CHARS)
    # From where the word can begin on: a search from further in front tries every character.
    begin = reach + len(stop.text[reach : stop.start].rstrip(_OF_WORDS))
    word = _LAST_WORD.search(stop.text, begin, stop.start)
    if word is None or (stop.is_cited and not following.islower()):
        return True
    if word.group().isdigit() and _is_item_number(stop):
        return False
    return not shortens(word.group(), stop.following, is_cased=stop.is_cased)


def _goes_on(stop: Stop) -> bool:
    return not starts_sentence(stop.following, is_cased=stop.is_cased)


def _is_item_number(stop: Stop) -> bool:
    """Whether the stop belongs to the first number of a list written in a line: `Steps: 1. Mix. 2. Bake.`"""
    return _ITEM_NUMBER.search(stop.text, max(0, stop.start - _ITEM_NUMBER_REACH_CHARS), stop.start) is not None
