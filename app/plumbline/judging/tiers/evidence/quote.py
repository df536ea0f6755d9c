"""A quote in the forms in which it is looked for, and whether it is telling enough to be looked for at all."""

import re
from functools import cached_property

from plumbline.judging.text.words import has_content
from plumbline.judging.tiers.evidence.folding import View, fold, plain
from plumbline.judging.tiers.evidence.markup import strip_markup

# Shorter than this a "quote" stands in any text: a word of Latin letters, two Han characters.
_MIN_CHARACTERS = 3
_MIN_HAN_CHARACTERS = 2
# A part of a quote with "..." is looked for by itself, so it must be telling.
_MIN_PART_CHARACTERS = 12
_MIN_DENSE_PART_CHARACTERS = 5
_MAX_PARTS = 8
# A judge's quotes are no longer.
_MAX_PARTED_CHARACTERS = 4_000
# The blanks before it begin where they begin, or a million of them would be gone over a million times.
_ELLIPSIS = re.compile(r"(?:(?<!\s)\s++)?(?:[\[(]\s?)?(?:\.{3,}|…+|\. \. \.)(?:\s?[\])])?\s*")
_EDGES = " \"'.,;:!?()[]-。，、；：！？"


class Quote:
    """A quote in the forms that it is looked for in."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """Folded, then without marks at its edges too."""
        return _forms(plain(self.text))

    @cached_property
    def bare(self) -> tuple[str, ...]:
        """The same without markup."""
        return _forms(strip_markup(plain(self.text)))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """What stands between its ellipses; () when it has none, or parts too short to tell a place by."""
        if len(self.text) > _MAX_PARTED_CHARACTERS:
            return ()
        parts = [part.strip(_EDGES) for part in _ELLIPSIS.split(self.text)][:_MAX_PARTS]
        folded = tuple(_forms(strip_markup(plain(part)))[-1] for part in parts if part)
        return folded if len(folded) > 1 and all(map(_is_long_enough, folded)) else ()


def _forms(view: View) -> tuple[str, ...]:
    folded = fold(view).text
    return tuple(dict.fromkeys((folded.strip(), folded.strip(_EDGES))))


def says_something(quote: str) -> bool:
    """Whether the text has content, and enough of it to tell a place by."""
    letters = [character for character in quote if character.isalnum()]
    if not has_content(quote):
        return False
    return len(letters) >= _MIN_CHARACTERS or _han(quote) >= _MIN_HAN_CHARACTERS or any(c.isdigit() for c in letters)


def _is_long_enough(part: str) -> bool:
    is_dense = _han(part) >= _MIN_HAN_CHARACTERS and sum(map(str.isalnum, part)) >= _MIN_DENSE_PART_CHARACTERS
    return says_something(part) and (len(part) >= _MIN_PART_CHARACTERS or is_dense)


def _han(text: str) -> int:
    return sum("\u3400" <= character <= "\u9fff" for character in text)
