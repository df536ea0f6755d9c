"""Forms in which an LLM writes a ranking: bracketed items, chains of `>`, lines, and candidate ids in prose."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

# Scripts written without spaces: an id may stand right next to their letters.
_UNSPACED: Final = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff\uff00-\uffef"
_WORD: Final = rf"(?:[^\W{_UNSPACED}]|-)"
_ATOM: Final = re.compile(rf"{_WORD}++|\S")
# What makes the text after or before a match part of the same id.
_GLUED_AFTER: Final = re.compile(rf"{_WORD}|[.#/@]{_WORD}|::")
_GLUED_BEFORE: Final = re.compile(rf"{_WORD}[.#/@]\Z|::\Z|(?:^|.){_WORD}\Z", re.DOTALL)
_DIGITS: Final = re.compile("[0-9]+")
# Longer candidates are found as whole lines only; a limit keeps the search linear in the text.
_MAX_ATOMS: Final = 32
_END: Final = ""


class CandidateTokens:
    """Candidate ids, found as whole tokens in one pass: `doc_1`, but not in `doc_10` or `doc_1.pdf`."""

    def __init__(self, candidates: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        self._shapes: set[str] = set()
        for doc_id in candidates:
            atoms = _ATOM.findall(doc_id)
            if not 0 < len(atoms) <= _MAX_ATOMS:
                continue
            node = self._root
            for atom in atoms:
                node = node.setdefault(atom, {})
            node[_END] = doc_id
            if len(atoms) == 1 and _shape(doc_id) not in (doc_id, "0"):
                self._shapes.add(_shape(doc_id))

    def mentions(self, text: str) -> list[str]:
        """Return candidates in order of appearance, with tokens of a candidate's shape (`doc_99` next to `doc_1`)."""
        return list(self._scan(text, with_alike=True))

    def first(self, text: str) -> str | None:
        """Return the first candidate in a text."""
        return next(self._scan(text, with_alike=False), None)

    def _scan(self, text: str, *, with_alike: bool) -> Iterator[str]:
        spans = [match.span() for match in _ATOM.finditer(text)]
        index = 0
        while index < len(spans):
            start, end = spans[index]
            doc_id, taken = self._longest(text, spans, index)
            if doc_id is not None:
                yield doc_id
            elif with_alike and self._is_alike(text, start, end):
                yield text[start:end]
            index += max(taken, 1)

    def _longest(self, text: str, spans: list[tuple[int, int]], index: int) -> tuple[str | None, int]:
        """Return the longest candidate that starts at an atom, and its number of atoms."""
        node: dict[str, Any] = self._root
        found: tuple[str | None, int] = (None, 0)
        start = spans[index][0]
        for depth in range(min(_MAX_ATOMS, len(spans) - index)):
            atom_start, end = spans[index + depth]
            child = node.get(text[atom_start:end])
            if child is None:
                break
            node = child
            doc_id = node.get(_END)
            if doc_id is not None and text.startswith(doc_id.strip(), start) and _is_whole(text, start, end):
                found = (doc_id, depth + 1)
        return found

    def _is_alike(self, text: str, start: int, end: int) -> bool:
        return bool(self._shapes) and _shape(text[start:end]) in self._shapes and _is_whole(text, start, end)


def _is_whole(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 2) : start]
    return _GLUED_AFTER.match(text, end) is None and _GLUED_BEFORE.search(before) is None


def _shape(token: str) -> str:
    return _DIGITS.sub("0", token)


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
    """Remove `<think>` blocks: an unclosed one runs to the end, an unopened one from the start."""
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
    """Yield items of brackets in a row, `[3] > [1]` or `[a], [b]` or `[a, b]`; a lone one only if it is all."""
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
    """Yield items joined by `>`: single tokens, or anything in one pair of brackets."""
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
        # prose ends one chain and may start another
        if index > 0:
            chain.append(words[0])
            yield chain
        chain = [part.rsplit(None, 1)[-1]] if index < len(parts) - 1 else []
    if chain:
        yield chain


def listed(text: str, *, tokens: CandidateTokens | None, names_known: Callable[[str], bool]) -> Iterator[list[str]]:
    """Yield items of numbered or bulleted lines; failing those, of lines that hold only ids.

    `tokens` finds candidates inside of a line; `names_known` returns True for a whole item that is a candidate.
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
    """Return the id that a line is about; None if it names none."""
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
    """Return pieces between line ends and commas if each is an id; None if the text is prose."""
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
