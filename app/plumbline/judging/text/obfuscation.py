"""Obfuscated text: hidden characters and look-alike letters."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice

from plumbline.ground.phrases import Phrases

# Cyrillic and Greek letters and the Latin ones that they look like.
LOOKALIKES = dict(zip(*Phrases("judging/text/judge_instructions").read("lookalikes"), strict=True))
# Greek letters that science writes next to Latin ones.
_SCIENTIFIC = frozenset("αβγδεζηθικλμνξοπρστυφχψωΔΣΩΓΛΠΦΨ")
_MIXED = re.compile(f"[A-Za-z][{''.join(LOOKALIKES)}]|[{''.join(LOOKALIKES)}][A-Za-z]")
_LETTERS = re.compile(r"[^\W\d_]{1,40}")
_WORD_REACH_CHARACTERS = 40
_MAX_LOOKED_AT = 50
_SOFT_HYPHEN = "\u00ad"
_MIN_ZERO_WIDTH = 3
_DIRECTIONAL = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
_LAST_TAG, _FIRST_TAG = 0xE0FFF, 0xE0000


def find_obfuscation(text: str) -> set[str]:
    """Return the kinds of obfuscation that hide a text from people or filters."""
    found = {
        "hidden_characters": _hides_text(text),
        "homoglyphs": not text.isascii() and _has_homoglyphs(remove_hidden(text)),
    }
    return {kind for kind, is_found in found.items() if is_found}


def _hides_text(text: str) -> bool:
    """Return True if hidden characters serve no typographer: tags, forced directions, several inside words."""
    inside = 0
    for at in find_hidden(text):
        character, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
        if character in _DIRECTIONAL or _FIRST_TAG <= ord(character) <= _LAST_TAG:
            return True
        # It stands between two letters, or between two others of its kind.
        if character != _SOFT_HYPHEN and all(each.isalpha() or is_hidden(each) for each in (before, after)):
            inside += 1
        if inside >= _MIN_ZERO_WIDTH:
            return True
    return False


def _has_homoglyphs(text: str) -> bool:
    """Return True if a word mixes Latin letters with look-alikes, and with no other letters."""
    for match in islice(_MIXED.finditer(text), _MAX_LOOKED_AT):
        first = max(0, match.start() - _WORD_REACH_CHARACTERS)
        words = _LETTERS.finditer(text, first, match.end() + _WORD_REACH_CHARACTERS)
        word = next(each.group() for each in words if each.end() > match.start())
        foreign = [letter for letter in word if not unicodedata.name(letter, "").startswith("LATIN")]
        if all(letter in LOOKALIKES and letter not in _SCIENTIFIC for letter in foreign):
            return True
    return False


# Soft hyphen, combining grapheme joiner, Arabic letter mark, Hangul fillers, Mongolian separators, zero-width ones,
# bidi controls, invisible operators, BOM, tags, and the variation selectors that emoji have no use for.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# The joiner between two emoji makes one of them; Persian and Indic letters need both joiners.
_JOINERS = "\u200c\u200d"
_JOINED = re.compile(
    "(?<=[\u0600-\u06ff\u0900-\u0dff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])"
    "[\u200c\u200d](?=[\u0600-\u06ff\u0900-\u0dff\u2600-\u27bf\U0001f000-\U0001faff])"
)
# A waved black flag and tags are the flag of a region, such as Scotland's.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")


def find_hidden(text: str) -> Iterator[int]:
    """Yield the places of hidden characters that no script or emoji needs, ascending; linear in the text."""
    if text.isascii():
        return
    in_flags = {at for match in _FLAG.finditer(text) for at in range(*match.span())}
    for match in _HIDDEN.finditer(text):
        at = match.start()
        if at not in in_flags and not (match.group() in _JOINERS and _JOINED.match(text, at)):
            yield at


def remove_hidden(text: str) -> str:
    """Return the text without hidden characters, the same string when it has none."""
    if text.isascii() or not _HIDDEN.search(text):
        return text
    if not (_FLAG.search(text) or _JOINED.search(text)):
        return _HIDDEN.sub("", text)
    kept, start = [], 0
    for at in find_hidden(text):
        kept.append(text[start:at])
        start = at + 1
    return "".join([*kept, text[start:]]) if kept else text


def is_hidden(character: str) -> bool:
    return _HIDDEN.match(character) is not None
