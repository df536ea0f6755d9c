"""Characters that no reader sees: zero-width, bidirectional controls, tags; attackers hide text with them."""

import re
from collections.abc import Iterator

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


def hidden_places(text: str) -> Iterator[int]:
    """Where a character stands that nobody sees and no script or emoji needs, ascending; linear in the text."""
    if text.isascii():
        return
    in_flags = {at for match in _FLAG.finditer(text) for at in range(*match.span())}
    for match in _HIDDEN.finditer(text):
        at = match.start()
        if at not in in_flags and not (match.group() in _JOINERS and _JOINED.match(text, at)):
            yield at


def cleaned(text: str) -> str:
    """The text without hidden characters, the same string when it has none."""
    if text.isascii() or not _HIDDEN.search(text):
        return text
    if not (_FLAG.search(text) or _JOINED.search(text)):
        return _HIDDEN.sub("", text)
    kept, start = [], 0
    for at in hidden_places(text):
        kept.append(text[start:at])
        start = at + 1
    return "".join([*kept, text[start:]]) if kept else text


def is_hidden(character: str) -> bool:
    """Whether nobody sees this character, whatever stands around it."""
    return _HIDDEN.match(character) is not None
