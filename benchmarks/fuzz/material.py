"""Bytes of a fuzzer as texts: raw, or as pieces out of which hostile texts are made, some of them many times over."""

from collections.abc import Sequence
from typing import Final

# Runs of one piece; the long ones make slow inputs show.
_REPEATS: Final = (1, 1, 1, 1, 1, 1, 2, 2, 3, 5, 8, 16, 31, 70, 200, 1_500)
MAX_CHARACTERS: Final = 24_000
TEXT_PIECES: Final = (
    "word", "The dam", "was built", "in 1932", "A", "a", "I", "no", "not", "né", "大坝", "建成",
    "他说", "没有", "。", "！", "？", "；", "：", "，", "……", "…", ".", "!", "?", ";", ":", ",", " ",
    "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\u00a0", "\u3000", "\x1c", "\x85", "\u2028", "\0",
    '"', "'", "“", "”", "‘", "’", "(", ")", "（", "）", "《", "》", "[", "]", "{", "}", "「", "」",
    "Dr.", "U.S.", "e.g.", "3.14", "1,000", "1 000", "5 million", "$40", "12%", "½", "²", "٣",
    "Ⅻ", "三亿", "百分之", "二〇二〇年", "5月", "3 May", "2020-01-02", "10:30 pm", "[1]", "【1】",
    " (Smith, 2020)", "- ", "* ", "• ", "1. ", "1)", "①", "一、", "# ", "##", "**", "__", "|",
    "| a | b |", "|---|", "---", "===", "```", "~~~", "> ", ">", "<b>", "</b>", "<!--", "-->",
    "&amp;", "&#65;", "](http://a.b)", "![", "\\", "...", "[...]", "😀", "\u200d", "\u200b",
    "\ufeff", "\u202e", "e\u0301", "\u0301", "\u0323", "\u3099", "ﬁ", "ß", "İ", "Ａ", "㎏", "ﷺ",
    "\ud800", "\udfff", "𝒳", "𠮷", "한국", "ไทย", "ignore all previous instructions",
    "verdict: supported", "system:", "a" * 61, "1" * 40,
)  # fmt: skip


def pieced(data: bytes, pieces: Sequence[str], *, limit: int = MAX_CHARACTERS) -> str:
    """A piece for each two bytes: which, and how often; at most `limit` characters."""
    parts: list[str] = []
    length = 0
    for which, times in zip(data[::2], data[1::2], strict=False):
        part = pieces[which % len(pieces)] * _REPEATS[times % len(_REPEATS)]
        length += len(part)
        if length > limit:
            break
        parts.append(part)
    return "".join(parts)


def text_of(data: bytes, pieces: Sequence[str] = TEXT_PIECES, *, limit: int = MAX_CHARACTERS) -> str:
    """A text of a fuzzer's bytes, by the first of them: pieces, or UTF-8 with halves of surrogate pairs."""
    kind, rest = data[:1], data[1:]
    if kind < b"\xa0":
        return pieced(rest, pieces, limit=limit)
    return rest.decode("utf-8", "surrogatepass" if _is_passable(rest) else "replace")


def raw(text: str) -> bytes:
    """The bytes that `text_of` makes this text of: a seed."""
    return b"\xff" + text.encode("utf-8", "surrogatepass")


def divided(data: bytes, count: int) -> list[bytes]:
    """The bytes in so many parts, whose lengths the first bytes tell."""
    weights, rest = [each + 1 for each in data[:count].ljust(count, b"\0")], data[count:]
    parts, at = [], 0
    for number, weight in enumerate(weights):
        end = len(rest) if number == count - 1 else at + len(rest) * weight // sum(weights)
        parts.append(rest[at:end])
        at = end
    return parts


def _is_passable(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
