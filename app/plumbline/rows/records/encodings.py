"""The encoding of a text file by its bytes, and its text as UTF-8: GB18030 (GBK), UTF-16, Windows-1252.

UTF-8 comes first. Others are read where charset-normalizer leaves no doubt; else the caller is asked for the name.
"""

import codecs
import io
import re
from collections.abc import Sequence
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
_WIDE: Final = ("utf_16_le", "utf_16_be")
# The first two are taken without being named; charset-normalizer reads Greek as Cyrillic, for one.
_NARROW: Final = (
    "gb18030", "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "mac_roman", "big5",
    "cp874", "shift_jis", "euc_jp", "euc_kr",
)  # fmt: skip
# Nothing tells these apart but their words, so a text is taken for Windows-1252 only where they read it alike.
_LATIN: Final = ("cp1252", "cp1250", "cp1254", "cp1257")
# Of coherence less chaos; none of 14,000 files of news and of messages in 35 languages is read wrongly with it.
_MARGIN: Final = 0.05


def detect_encoding(sample: bytes) -> str:
    """Return the encoding of a file by its first bytes, as Python names it; raise InvalidInput if several fit.

    Lines that are no UTF-8 in a file that is UTF-8 or ASCII elsewhere stay as they are: each costs its own row.
    """
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if b"\0" in sample and (wide := _likeliest(sample[: len(sample) // 2 * 2], (UTF_8, *_WIDE))) in _WIDE:
        return wide.replace("_", "-")
    # A row that is longer than the sample may end within a character, of which no byte is below 0x40.
    if len(sample) >= SAMPLE_BYTES and (whole := re.match(rb".*[\x00-\x3f]", sample, re.DOTALL)):
        sample = whole[0]
    lines = sample.splitlines()
    foreign = [line for line in lines if not line.isascii()]
    bad = [line for line in foreign if not _reads(line)]
    if len(bad) * 2 <= len(foreign):
        return UTF_8
    text = b"\n".join(foreign)
    likely = _likeliest(text, _NARROW)
    if likely == "gb18030" or (likely == "cp1252" and len({text.decode(each, "replace") for each in _LATIN}) == 1):
        return likely
    if len(bad) * 2 < len(lines) and len(lines) > len(foreign) + 1:
        return UTF_8
    looks = [CodedText("looks_like", encoding=likely)] if likely else []
    raise InvalidInput(join_texts([CodedText("encoding_uncertain"), *looks, HOW_TO_NAME]))


def _likeliest(text: bytes, encodings: Sequence[str]) -> str:
    """Return the encoding that reads the text best, or the first of several that read it alike; empty if in doubt."""
    import charset_normalizer  # noqa: PLC0415 - only where a file is no UTF-8

    found = charset_normalizer.from_bytes(text, cp_isolation=list(encodings))
    best = max((each.coherence - each.chaos for each in found), default=0.0)
    close = [each for each in found if each.coherence - each.chaos >= best - _MARGIN]
    names = [name for each in close for name in each.could_be_from_charset]
    if len({str(each) for each in close}) != 1:
        return ""
    return next((name for name in encodings if name in names), "")


def _reads(line: bytes) -> bool:
    try:
        line.decode(UTF_8)
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
