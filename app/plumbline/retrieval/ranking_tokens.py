"""Candidates found in prose as whole tokens: `doc_1` is in "then doc_1。" and not in "doc_10" or "doc_1.pdf"."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

# Scripts written without spaces: an id may stand right beside their letters.
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
    """The candidates, ready to be found in text in one pass."""

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
        """Candidates in order of appearance, and tokens of a candidate's shape (`doc_99` beside `doc_1`) among them."""
        return list(self._scan(text, with_alike=True))

    def first(self, text: str) -> str | None:
        """The first candidate in a text."""
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
        """The longest candidate that starts at an atom, and how many atoms it has."""
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
