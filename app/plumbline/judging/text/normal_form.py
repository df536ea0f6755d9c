"""Unicode's normal form NFKC, in time that grows with the text whatever its marks are."""

import re
import unicodedata
from functools import cache

# Unicode's Stream-Safe Text Format (UAX #15, section 13) allows so many marks in a row; no language needs more.
_MAX_MARKS = 30
# Where marks are in the basic plane: beside Han, Hangul and private use.
_BLOCKS_WITH_MARKS = ((0x0300, 0x3400), (0xA66F, 0xAC00), (0xFB1E, 0x10000))
# All scripts beyond it that have marks: `re` is slow with many stretches there, and a cut between letters does no harm.
_BEYOND = "\U000101fd-\U0001e94a"


def nfkc(text: str) -> str:
    """The text in NFKC; of more than 30 combining marks in a row, each 30 are put in order by themselves.

    `unicodedata` sorts the marks of one letter by insertion: a million of them in the wrong order would take hours.
    """
    if text.isascii():
        return text
    cuts = [match.end() for match in _long_runs().finditer(text)]
    if not cuts:
        return unicodedata.normalize("NFKC", text)
    bounds = zip([0, *cuts], [*cuts, len(text)], strict=True)
    return "".join([unicodedata.normalize("NFKC", text[start:end]) for start, end in bounds])


@cache
def _long_runs() -> re.Pattern[str]:
    """So many characters in a row of which nothing but marks is left when they are taken apart."""
    characters = (chr(code) for block in _BLOCKS_WITH_MARKS for code in range(*block))
    return re.compile(f"[{''.join(filter(is_mark, characters))}{_BEYOND}]{{{_MAX_MARKS}}}")


def is_mark(character: str) -> bool:
    """Whether a character is a combining mark, or becomes one when it is taken apart."""
    if unicodedata.combining(character):
        return True
    return bool(
        unicodedata.decomposition(character) and unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
    )
