"""Rules for the end of a sentence: terminators, abbreviations, initials and what follows them."""

import re
from dataclasses import dataclass
from typing import Final

from plumbline.ground.phrases import Phrases
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
# Not the minutes of 7:40.
_ITEM_NUMBER = re.compile(r"(?:[:：,，;；]\s|(?<!\d)[:：,，;；])\d{1,2}\Z")


@dataclass(slots=True)
class Stop:
    """A run of terminators and its surroundings. Not frozen: there are many, and that takes twice as long."""

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
    """Return True if a sentence ends at `stop`; brackets and quotes around it are up to the caller."""
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
    """Return True if a half-width stop ends a sentence though no white space follows."""
    if "…" in stop.run or ".." in stop.run:
        return False
    if is_cjk(stop.following[:1]) and (is_cjk(stop.before) or "." not in stop.run):
        return True
    is_after_word = _GLUED.fullmatch(stop.text, stop.start - 2, stop.start) is not None
    return is_after_word and starts_sentence(stop.following, is_cased=True)


def _spaced_ends(stop: Stop) -> bool:
    """Return True if a half-width stop with white space after it ends a sentence."""
    if stop.following[:1] in _CONTINUES:
        return False
    if "!" in stop.run or "?" in stop.run:
        # "Jeopardy! is a show": in a text with capitals a small letter after "!" continues the sentence.
        ends_before_small = "?" in stop.run or not stop.is_cased or stop.before.isspace()
        return not stop.following[:1].islower() or (ends_before_small and not stop.is_closed)
    if stop.run != ".":
        return stop.following[:1].isupper() or is_cjk(stop.following[:1])
    return _period_ends(stop)


def _period_ends(stop: Stop) -> bool:
    following = stop.following[:1]
    if following in _HALF_WIDTH or (stop.is_closed and following.islower()):
        return False
    if stop.before.isspace():
        is_initial = _SPACED_INITIAL.search(stop.text, max(0, stop.start - 3), stop.start)
        return is_initial is None or starts_sentence(stop.following, is_cased=stop.is_cased)
    reach = max(0, stop.start - _WORD_REACH_CHARS)
    # The word begins here at the earliest: a search from further in front tries every character.
    begin = reach + len(stop.text[reach : stop.start].rstrip(_OF_WORDS))
    word = _LAST_WORD.search(stop.text, begin, stop.start)
    if word is None or (stop.is_cited and not following.islower()):
        return True
    reach = max(0, stop.start - _ITEM_NUMBER_REACH_CHARS)
    # The first number of a list written in a line: `Steps: 1. Mix. 2. Bake.` And a day: "am 1. Februar".
    is_number = word.group().isdigit()
    if is_number and (_ITEM_NUMBER.search(stop.text, reach, stop.start) or _MONTH.match(stop.following)):
        return False
    return not shortens(word.group(), stop.following, is_cased=stop.is_cased)


_PHRASES = Phrases("judging/text/sentence_ends")
_NUMBERED, _PREFIXES, _CALENDAR, _CLOCK, _COMPANIES_AND_RANKS, _SHORTENED, _STARTERS = (
    _PHRASES.words(f"en.{name}")
    for name in ("numbered", "prefixes", "calendar", "clock", "companies_and_ranks", "shortened", "starters")
)
_MONTH = re.compile(rf"(?:{_PHRASES.pattern('en.months')})\b")
_NUMBER = re.compile(r"[#(]?[A-Z]?\d|[IVXLC]+\b|of\b")
_INITIALS = re.compile(r"[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+|[A-Z]")
_LEADING_WORD = re.compile(r"[^\W\d_]+")
_AFTER_CLOCK = re.compile(_PHRASES.pattern("en.after_clock"))
_VOWELS = frozenset("aeiouyàáâäæèéêëìíîïòóôöøùúûü")


def shortens(word: str, following: str, *, is_cased: bool) -> bool:
    """Return True if the full stop between `word` and `following` leaves the sentence open.

    `word` is without the stop: "Dr", "e.g", "U.S"; `following` an excerpt after white space, opening quotes and
    brackets; `is_cased`: the text has capitals, without which a small letter tells nothing.

    Words that may also end a sentence ("Inc.", "U.S.", an initial) end it only before a word that commonly starts
    one ("The", "He"): joining two sentences costs less than cutting a name in two.
    """
    key = word.lower()
    if key in _PREFIXES or (key in _NUMBERED and _NUMBER.match(following)):
        return True
    if key in _CALENDAR:
        # Without capitals "sun." and "sat." are words like any other.
        return following[:1].isdigit() or (
            is_cased and word[0].isupper() and not starts_sentence(following, is_cased=True)
        )
    if key in _CLOCK:
        may_go_on = not following[:1].isupper() or _AFTER_CLOCK.match(following) is not None
        return may_go_on and not starts_sentence(following, is_cased=is_cased)
    if is_cased and following[:1].islower() and (key in _SHORTENED or _VOWELS.isdisjoint(key)):
        return True
    if len(word) == 1 and word.islower():
        may_end = not is_cased
    else:
        may_end = key in _COMPANIES_AND_RANKS or _INITIALS.fullmatch(word) is not None
    return may_end and not starts_sentence(following, is_cased=is_cased)


def starts_sentence(following: str, *, is_cased: bool) -> bool:
    """Return True if `following` starts with a word that often starts a sentence: an article, pronoun, conjunction."""
    match = _LEADING_WORD.match(following)
    if match is None or match.group().lower() not in _STARTERS or following[match.end() : match.end() + 1] == ".":
        return False
    return not is_cased or following[0].isupper()
