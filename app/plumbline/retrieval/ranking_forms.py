"""The forms in which an LLM writes a ranking as text: brackets in a row, chains of `>`, and lines."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from plumbline.retrieval.ranking_tokens import CandidateTokens

_THINK_TAG: Final = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
# No opening bracket inside: a search that fails stops at the next one, so no character is read twice.
_BRACKETED: Final = re.compile(r"[\[【［]([^\[\]【】［］]*+)[\]】］]")
_BETWEEN_BRACKETS: Final = " \t\r\n>＞≻,，、;；="
_MAX_BETWEEN: Final = 16
_SEPARATOR: Final = re.compile(r"[,，、;；]")
# With room or a bracket on both sides: `<urn:uuid:…>` ends in a sign that chains nothing.
_LINK: Final = re.compile(r"(?<=[\s\]】］])[>＞≻](?=[\s\[【［])")
_CHAIN_LENGTH: Final = 2
_BULLET: Final = r"(?:[-*+•·‣▪–—]\s++|\#{1,6}\s++)"
_RANK: Final = (
    r"(?:\*\*)?+(?:[(（]?+[0-9]{1,4}+(?:[.．、:：]|[)）])(?![0-9])"
    r"|\#[0-9]{1,4}+[.:：)]?+(?=\s)"
    r"|rank\s?+[0-9]{1,4}+\s?+[.:：)-]"
    r"|第[0-9一二三四五六七八九十]{1,4}+[名位个]?+\s?+[:：、.]?+)(?:\*\*)?+"
)
_PREFIX: Final = re.compile(rf"\s*+(?:{_BULLET}(?>(?:{_RANK})?)|{_RANK})\s*+", re.IGNORECASE)
_NAMED_INDEX: Final = re.compile(
    r"(?:(?:passage|document|doc|文档|段落)\s?+[\[(#【［]?+|[\[(【［])([0-9]{1,6}+)(?![0-9])[\])】］]?+", re.IGNORECASE
)
_AFTER_ID: Final = re.compile(r"\s*+(?:[-–—:：(（|,，=]|\Z)")
_FENCE: Final = "```"


def without_reasoning(text: str) -> str:
    """The text without `<think>` blocks: an unclosed one runs to the end, an unopened one from the start."""
    kept: list[str] = []
    position, is_inside = 0, False
    for tag in _THINK_TAG.finditer(text):
        is_closing = bool(tag[1])
        if is_closing and not is_inside:
            kept.clear()
        elif not is_closing and not is_inside:
            kept.append(text[position : tag.start()])
        is_inside = not is_closing
        position = tag.end()
    if not is_inside:
        kept.append(text[position:])
    return "".join(kept)


def bracketed(text: str) -> Iterator[list[str]]:
    """Items of brackets in a row, `[3] > [1]` or `[a], [b]` or `[a, b]`; a lone one only when it is all there is."""
    group: list[str] = []
    previous_end = 0
    for match in _BRACKETED.finditer(text):
        gap = text[previous_end : match.start()] if match.start() - previous_end <= _MAX_BETWEEN else "…"
        if group and gap.strip(_BETWEEN_BRACKETS):
            yield from [group] if len(group) >= _CHAIN_LENGTH else []
            group = []
        group.extend(item.strip() for item in _SEPARATOR.split(match[1]) if item.strip())
        previous_end = match.end()
    stripped = text.strip()
    if len(group) >= _CHAIN_LENGTH or (group and _BRACKETED.fullmatch(stripped)):
        yield group


def chained(text: str) -> Iterator[list[str]]:
    """Items joined by `>`: single tokens, or anything in one pair of brackets."""
    parts = _LINK.split(text)
    if len(parts) < _CHAIN_LENGTH:
        return
    chain: list[str] = []
    for index, part in enumerate(parts):
        words = part.split(None, 1)
        if not words:
            continue
        if len(words) == 1 or _BRACKETED.fullmatch(part.strip()):
            chain.append(part.strip())
            continue
        # prose ends one chain and may begin another
        if index > 0:
            chain.append(words[0])
            yield chain
        chain = [part.rsplit(None, 1)[-1]] if index < len(parts) - 1 else []
    if chain:
        yield chain


def listed(text: str, *, tokens: CandidateTokens | None, names_known: Callable[[str], bool]) -> Iterator[list[str]]:
    """Items of numbered or bulleted lines; failing those, of lines that hold nothing but ids.

    Args:
        text: the reply.
        tokens: finds candidates inside of a line; None without candidates.
        names_known: whether a whole item is a candidate; False without candidates.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_FENCE)]
    prefixes = [None if names_known(line) else _PREFIX.match(line) for line in lines]
    if any(prefixes):
        items = [
            line if prefix is None else _item(line[prefix.end() :], tokens, names_known)
            for line, prefix in zip(lines, prefixes, strict=True)
            if prefix is not None or names_known(line)
        ]
        yield [item for item in items if item]
        return
    plain = _plain(lines, tokens, names_known)
    if plain:
        yield plain


def _item(content: str, tokens: CandidateTokens | None, names_known: Callable[[str], bool]) -> str | None:
    """The id that a line is about; None when it names none."""
    if names_known(content):
        return content
    mentioned = tokens.first(content) if tokens else None
    if mentioned is not None:
        return mentioned
    index = _NAMED_INDEX.match(content)
    if tokens and index and names_known(index[1]):
        return index[1]
    words = content.split(None, 1)
    if not words:
        return None
    looks_like_an_id = len(words) == 1 or any(char.isdigit() for char in words[0])
    return words[0] if looks_like_an_id or _AFTER_ID.match(words[1]) else None


def _plain(lines: list[str], tokens: CandidateTokens | None, names_known: Callable[[str], bool]) -> list[str] | None:
    """Pieces between line ends and commas when each is an id; None when the text is prose."""
    pieces = []
    for line in lines:
        if names_known(line):
            pieces.append(line)
        elif not line.endswith((":", "：")):
            pieces.extend(piece.strip() for piece in _SEPARATOR.split(line) if piece.strip())
    for piece in pieces:
        if not names_known(piece) and (len(piece.split(None, 1)) > 1 or (tokens and tokens.first(piece) is not None)):
            return None
    return pieces
