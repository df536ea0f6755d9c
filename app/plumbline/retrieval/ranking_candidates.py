"""Ids that an LLM could choose from, found in the items and the text of its reply."""

import re
from collections.abc import Sequence
from typing import Final

_QUOTES: Final = " \t\r\n\"'`“”‘’*"
_DECORATION: Final = _QUOTES + "()[]{}<>（）【】［］「」《》.,;:!?，。；：、！？"
_BRACKETS: Final = _QUOTES + "()[]（）【】［］「」"
_SENTENCE_ENDS: Final = ".,;:!?，。；：、！？"
_MAX_INDEX_DIGITS: Final = 6
_MAX_RANK_DIGITS: Final = 3
# More words are a sentence.
_MAX_ID_WORDS: Final = 4
# Longer candidates are found as whole items only; a limit keeps the search linear in the text.
_MAX_MARKED: Final = 200
# A candidate in the text becomes one character of Unicode's private planes: the one at its place.
_FIRST_MARK, _LAST_MARK = 0xF0000, 0x10FFFD
MARKS: Final = f"[{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}]"
MARK: Final = re.compile(MARKS)
# Circled numbers, and scripts written without spaces: an id may stand right next to their letters.
_UNSPACED: Final = "\u2460-\u2473\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff\uff00-\uffef"
_WORD: Final = rf"(?:[^\W{_UNSPACED}]|-)"
_ATOM: Final = re.compile(rf"{_WORD}++|\S")
# Text after or before a match that belongs to the same id.
_GLUED_AFTER: Final = re.compile(rf"{_WORD}|[.#/@]{_WORD}|::")
_GLUED_BEFORE: Final = re.compile(rf"{_WORD}[.#/@]\Z|::\Z|(?:^|.){_WORD}\Z", re.DOTALL)
_DIGITS: Final = re.compile("[0-9]+")
ROMANS: Final = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"]
# A position from 1 or 0, or a letter, in brackets: `[3]`; `number_positions` writes them so.
INDEX: Final = r"[\[(【［]([0-9]{1,6}+|[A-Z])[\])】］]"
NAMED_INDEX: Final = re.compile(INDEX)
_POSITION: Final = re.compile(
    r"(?<![^\W\d_])(?:passage|document|doc|item|option|choice|文档|文章|段落|选项)\s?+[:：]?+\s?+[\[(#【［]?+([0-9]{1,6}+|[A-Z](?![^\W_]))(?![0-9])[\])】］]?+"
    r"|(?<![0-9.])([0-9]{1,6}+)号|第([0-9]{1,6}+)[篇个条段份]|(?:(?<=[,，、>] )|^)#([0-9]{1,6}+)(?=[,，、]|\s?>|\Z)",
    re.IGNORECASE,
)
_ID_SIGN: Final = re.compile(r"[0-9_]|[^\W\d_][-:/@\#.][^\W\d_]")
# Brackets of a citation, the end of a Chinese sentence
_PROSE_SIGN: Final = re.compile(
    r"\][\[(]|\||[\u3400-\u9fff](?:\[|[A-Za-z]|[\u3400-\u9fff]{4})|[0-9_][^\W\d_]?[\u3400-\u9fff]\Z"
)


class Candidates:
    """Ids that an LLM could choose from, as whole tokens (`doc_1` is not in `doc_10`); without any, all are known."""

    def __init__(self, ids: Sequence[str] | None) -> None:
        self.are_given = ids is not None
        self._ids = tuple(ids or ())
        self._has_no_letters = not any(len(doc_id) == 1 and doc_id.isalpha() for doc_id in self._ids)
        self._has_positions = not any(map(_is_number, self._ids))
        self._place_by_id: dict[str, int] = {}
        self._lengths: dict[str, set[int]] = {}
        self._shapes: set[str] = set()
        for spell in (str, str.strip, lambda doc_id: doc_id.strip().casefold()):
            for place, doc_id in enumerate(self._ids):
                self._place_by_id.setdefault(spell(doc_id), place)
        for stripped in map(str.strip, self._ids):
            first = _ATOM.match(stripped)
            if first and len(stripped) <= _MAX_MARKED:
                self._lengths.setdefault(first[0], set()).add(len(stripped))
                if first[0] == stripped and (shape := _shape(stripped)) not in (stripped, "0"):
                    self._shapes.add(shape)

    @property
    def count(self) -> int:
        return len(self._ids)

    def mark(self, text: str, *, with_ranks: bool = True) -> str:
        """Replace each candidate by its mark; without `with_ranks` not those that may be ranks, of up to 4 digits."""
        parts, end = [], 0
        for atom in _ATOM.finditer(text) if self._lengths else ():
            start = atom.start()
            if start < end or atom[0] not in self._lengths:
                continue
            for stop in sorted((start + length for length in self._lengths[atom[0]]), reverse=True):
                place = self._place_by_id.get(text[start:stop], _LAST_MARK)
                may_rank = _is_number(text[start:stop]) and stop - start <= _MAX_RANK_DIGITS
                if place <= _LAST_MARK - _FIRST_MARK and _is_whole(text, start, stop) and (with_ranks or not may_rank):
                    parts += [text[end:start], chr(_FIRST_MARK + place)]
                    end = stop
                    break
        return "".join([*parts, text[end:]])

    def number_positions(self, marked: str) -> str:
        """Write each named position of a candidate as `[3]`: `Passage 3`, `Doc: 3`, `文档3`, `3号`."""
        return _POSITION.sub(lambda found: f"[{next(filter(None, found.groups())).upper()}]", marked)

    def without_marks(self, text: str) -> str:
        return MARK.sub("", text)

    def unmark(self, text: str) -> str:
        return MARK.sub(lambda mark: self._ids[ord(mark[0]) - _FIRST_MARK], text)

    def find(self, item: str) -> str | None:
        """Return the id that an item is, marked or not; None if it is no candidate or no id."""
        if not self.are_given:
            bare = bare_item(item)
            return bare if 0 < len(bare.split(None, _MAX_ID_WORDS)) < _MAX_ID_WORDS else None
        plain = item.strip(_DECORATION)
        for text in (item, item.strip(_QUOTES), plain, plain.casefold()):
            if text in self._place_by_id:
                return self._ids[self._place_by_id[text]]
        return self.unmark(plain) if MARK.fullmatch(plain) else None

    def find_known(self, item: str) -> str | None:
        return self.find(item) if self.are_given else None

    def find_all(self, items: Sequence[str], *, is_from_zero: bool = False) -> list[str | None]:
        """Return the id that each item of one ranking is: all by their ids, or all by their positions.

        Numbers are positions where they explain all items and the ids do not. They count from 1, from 0 where one of
        them is 0, or all of them could be (`is_from_zero`), as in a reranker's answer.
        """
        by_id = [self.find(item) for item in items]
        numbers = self._positions(items)
        found = [number for number in numbers if number is not None]
        if None not in by_id or not found or (any(by_id) and None in numbers):
            return by_id
        first = 0 if 0 in found or (is_from_zero and max(found) < len(self._ids)) else 1
        places = [-1 if number is None else number - first for number in numbers]
        if any(by_id) and not all(0 <= place < len(self._ids) for place in places):
            return by_id
        return [self._ids[place] if 0 <= place < len(self._ids) else None for place in places]

    def _positions(self, items: Sequence[str]) -> list[int | None]:
        """Return the number that each item is: in digits, in Roman numerals if all are, or as a letter."""
        plain = [self.number_positions(item.strip(_DECORATION)).strip(_DECORATION) for item in items]
        if all(text.lower() in ROMANS for text in plain) and any(len(text) > 1 for text in plain):
            return [ROMANS.index(text.lower()) + 1 for text in plain]
        return [self._position(text) for text in plain]

    def _position(self, plain: str) -> int | None:
        if len(plain) == 1 and plain.isascii() and plain.isupper() and self._has_no_letters:
            return ord(plain) - ord("A") + 1
        return int(plain) if _is_number(plain) and len(plain) <= _MAX_INDEX_DIGITS else None

    def are_as_offered(self, ids: Sequence[str]) -> bool:
        """Return True if ids stand in the order in which they were offered."""
        places = [self._place_by_id[doc_id] for doc_id in ids if doc_id in self._place_by_id]
        return len(places) == len(ids) and places == sorted(places)

    def is_made_up(self, item: str) -> bool:
        """Return True for an id with letters that looks like a candidate's: `doc_99` next to `doc_1`."""
        bare = bare_item(self.unmark(item))
        return _shape(bare) in self._shapes and not _is_number(bare)

    def knows(self, item: str) -> bool:
        if not self.are_given:
            return False
        position = self._positions([item])[0] if self._has_positions else None
        return self.find(item) is not None or (position is not None and position <= len(self._ids))

    def is_id(self, item: str) -> bool:
        """Return True for a candidate, `Passage 3`, and what looks like an id where there are no candidates."""
        return (
            self.knows(item)
            or NAMED_INDEX.fullmatch(item) is not None
            or (not self.are_given and looks_like_an_id(item))
        )

    def mentions(self, marked: str) -> list[str]:
        """Return the marks of a text in order, with tokens of a candidate's shape, `doc_99` next to `doc_1`."""
        return [each[0] for each in _ATOM.finditer(marked) if MARK.match(each[0]) or self._is_alike(marked, each)]

    def _is_alike(self, text: str, atom: re.Match[str]) -> bool:
        # every shape has a digit
        return not atom[0].isalpha() and _shape(atom[0]) in self._shapes and _is_whole(text, *atom.span())


def looks_like_an_id(text: str) -> bool:
    """Return True for one word with a digit, an underscore or a sign inside, as words of prose seldom have."""
    return len(text.split(None, 1)) == 1 and _ID_SIGN.search(text) is not None and not _PROSE_SIGN.search(text)


def bare_item(item: str) -> str:
    """Return an item without quotes, brackets and the end of a sentence."""
    return item.strip(_BRACKETS).rstrip(_SENTENCE_ENDS).strip(_BRACKETS)


def _is_whole(text: str, start: int, end: int) -> bool:
    return _GLUED_AFTER.match(text, end) is None and _GLUED_BEFORE.search(text[max(0, start - 2) : start]) is None


def _shape(token: str) -> str:
    return _DIGITS.sub("0", token)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
