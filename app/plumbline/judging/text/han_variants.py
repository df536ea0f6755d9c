"""Traditional Chinese characters as simplified ones, for comparison; each keeps its place."""

import re
from functools import cache

# Beyond the basic block and extension A no variant is in common use.
_BLOCKS = ((0x3400, 0x4DC0), (0x4E00, 0xA000))


def to_simplified(text: str) -> str:
    """Return the text with traditional characters in their simplified form, character by character.

    Both sides of a comparison go through it, so that a character with two simplified forms (乾) still meets itself.
    """
    if text.isascii() or not _traditional().search(text):
        return text
    return text.translate(_simplified_by_code())


@cache
def _simplified_by_code() -> dict[int, str]:
    """Read the table of characters out of OpenCC, 3,800 of them."""
    import opencc  # noqa: PLC0415

    characters = [chr(code) for block in _BLOCKS for code in range(*block)]
    converted = opencc.OpenCC("t2s").convert("\n".join(characters)).split("\n")
    pairs = zip(characters, converted, strict=True)
    return {ord(old): new for old, new in pairs if old != new and len(new) == 1}


@cache
def _traditional() -> re.Pattern[str]:
    return re.compile(f"[{''.join(map(chr, _simplified_by_code()))}]")
