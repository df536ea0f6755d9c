"""The encoding of a text file by its bytes, and its text as UTF-8: GB18030 (GBK), UTF-16, Windows-1252.

UTF-8 comes first. Other encodings are read where the bytes leave no doubt; else the caller is asked for the name.
"""

import codecs
import io
import re
import unicodedata
from typing import BinaryIO, Final

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText, join_texts

UTF_8: Final = "utf-8"
HOW_TO_NAME: Final = CodedText("name_encoding")
# The finding and the expectation of one row
NOT_UTF_8: Final = (CodedText("not_utf8"), CodedText("utf8_or_encoding_named"))
SAMPLE_BYTES: Final = 1 << 18
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCK_BYTES: Final = 1 << 16
# Compared by charset-normalizer; only the first two are taken without being named.
_RIVALS: Final = ["gb18030", "cp1252", "cp1250", "cp1251", "mac_roman", "big5", "shift_jis", "euc_kr"]
_MOST_COMPARED: Final = 1 << 15
# Of its coherence less its mess, between encodings that read a text alike; chosen on texts of a few rows.
_MARGIN: Final = 0.05
# Of every two bytes, the one that is zero in text with ASCII's commas, quotes and line ends
_ZEROS_APART: Final = 0.95
_LEAST_ZEROS: Final = 0.01
# The common half of GB 2312's characters, and the share of them in running text
_COMMON: Final = re.compile(rb"[\xb0-\xd7]")
_COMMON_SHARE: Final = 0.7
# Letters and signs of Western texts; others that Windows-1252 has are those of another code page, read wrongly.
_WESTERN: Final = frozenset("àâäáãåæçèéêëìíîïñòóôöõøœùúûüß“”‘’„‚–—…•€£°·§«»¿¡©®™²³½¼´ºª\xa0")
# Signs inside a word, and letters where Western words have none: Hungarian, Romanian, Polish and Slovak, read wrongly
_MISREAD: Final = re.compile(r"[a-z][¿¡£³²°§«»ªº´][a-z]|õ(?!e)|\A(?!.*ão).*ã|ê\b|eï[aou]", re.IGNORECASE | re.DOTALL)


def detect_encoding(sample: bytes) -> str:
    """Return the encoding of a file by its first bytes, as Python names it; raise InvalidInput if several fit.

    Lines that are no UTF-8 in a file that is UTF-8 or ASCII elsewhere stay as they are: each costs its own row.
    """
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if (wide := _wide(sample)) is not None:
        return wide
    sample = _cut(sample, SAMPLE_BYTES)
    if _reads(sample, UTF_8):
        return UTF_8
    lines = sample.splitlines()
    foreign = [line for line in lines if not line.isascii()]
    bad = [line for line in foreign if not _reads(line, UTF_8)]
    if len(bad) * 2 <= len(foreign):
        return UTF_8
    certain, likely = _compare(_cut(b"\n".join(foreign), _MOST_COMPARED))
    if certain is not None:
        return certain
    if len(bad) * 2 < len(lines) and len(lines) > len(foreign) + 1:
        return UTF_8
    looks = [CodedText("looks_like", encoding=likely)] if likely else []
    raise InvalidInput(join_texts([CodedText("encoding_uncertain"), *looks, HOW_TO_NAME]))


def _cut(text: bytes, size: int) -> bytes:
    """Return the beginning of a text, at most about `size` bytes, that ends with a whole character."""
    if len(text) < size:
        return text
    # No byte below 0x40 is a part of a longer character
    whole = re.match(rb".*[\x00-\x3f]", text[:size], re.DOTALL)
    return whole[0] if whole else text[:size]


def _wide(sample: bytes) -> str | None:
    """Return the form of UTF-16 without a mark, known by the zeros next to ASCII; None if it is none."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if not even + odd or even + odd < _LEAST_ZEROS * len(sample):
        return None
    if max(even, odd) < _ZEROS_APART * (even + odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _compare(text: bytes) -> tuple[str | None, str | None]:
    """Return the encoding that text is certainly in, or None, and the one that it looks most like."""
    import charset_normalizer  # noqa: PLC0415 - only where a file is no UTF-8

    found = charset_normalizer.from_bytes(text, cp_isolation=_RIVALS)
    points = {name: each.coherence - each.chaos for each in found for name in each.could_be_from_charset}
    points = {name: worth for name, worth in points.items() if name in _RIVALS}
    best = max(points.values(), default=0.0)
    close = [name for name, worth in points.items() if worth >= best - _MARGIN]
    if "cp1252" in close:
        read = text.decode("cp1252")
        if not _MISREAD.search(read) and all(each.isascii() or each.lower() in _WESTERN for each in read):
            return "cp1252", None
    multibyte = [name for name in close if name in ("gb18030", "big5", "shift_jis", "euc_kr")]
    if multibyte == ["gb18030"] and _is_common_chinese(text):
        return "gb18030", None
    return None, close[0] if len(close) == 1 else None


def _is_common_chinese(text: bytes) -> bool:
    characters = [each for each in text.decode("gb18030") if unicodedata.category(each) == "Lo"]
    common = sum(_COMMON.match(each.encode("gb18030")) is not None for each in characters)
    return bool(characters) and common >= _COMMON_SHARE * len(characters)


def _reads(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def check_encoding(name: str) -> str:
    """Return the name of an encoding as Python knows it; raise InvalidInput if there is none of text."""
    try:
        info = codecs.lookup(name)
    except LookupError:
        info = None
    if info is None or not getattr(info, "_is_text_encoding", True):
        raise InvalidInput(CodedText("encoding_unknown", name=quoted(name)), place="--encoding")
    return info.name


class RecodedStream(io.RawIOBase):
    """A file's bytes in UTF-8; bytes that are no text of its encoding stay no text, and cost their own row."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(
            "surrogateescape" if "utf" not in encoding else "replace"
        )
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._rest:
            block = self._file.read(_BLOCK_BYTES)
            self._rest = self._decoder.decode(block, not block).encode("utf-8", "surrogatepass")
            if not block:
                break
        data, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(data)] = data
        return len(data)
