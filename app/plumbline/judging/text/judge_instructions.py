"""Detection of sentences that tell a judge how to judge, by the order of their words: linear in any stranger's text."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Combination:
    """Classes of words that instruct a judge in this order, within `reach` characters."""

    classes: tuple[str, ...]
    reach: int


_WORDS: Final[dict[str, Any]] = tomllib.loads(
    files("plumbline.judging.text").joinpath("judge_instructions.toml").read_text(encoding="utf-8")
)
# A sentence without one of these holds no combination; looked for as plain text, which is fast.
_ANCHORS = tuple(_WORDS["anchors"].split())
# To ask whether something is true is not to say that it is.
_QUESTION = re.compile(r"(?:是否|能否|whether\b)[^，。,.]{0,16}")
_WORD = re.compile(r"[a-z0-9][a-z0-9./%'’-]*")
# The look behind lets a run be tried once: from each of its marks it would take the square of its length.
_END = re.compile(r"(?<![.!?])[.!?]++(?=[\s\"'”’)]|\Z)|[。！？\n]+")
# A sentence without an end is read in stretches of this length.
_MAX_SENTENCE_CHARACTERS = 600


def _by_word(classes: Mapping[str, str]) -> dict[str, frozenset[str]]:
    names: dict[str, set[str]] = {}
    for name, words in classes.items():
        for word in words.split():
            names.setdefault(word.casefold(), set()).add(name)
    return {word: frozenset(found) for word, found in names.items()}


def _combinations(lines: Sequence[str]) -> tuple[Combination, ...]:
    return tuple(Combination(tuple(classes), int(reach)) for *classes, reach in map(str.split, lines))


_ENGLISH, _CHINESE = (_combinations(_WORDS[language]["combinations"]) for language in ("en", "zh"))
_ENGLISH_BY_WORD, _CHINESE_BY_WORD = (_by_word(_WORDS[language]["classes"]) for language in ("en", "zh"))
_CHINESE_WORD = re.compile("|".join(map(re.escape, sorted(_CHINESE_BY_WORD, key=len, reverse=True))))


def may_instruct(text: str) -> bool:
    """Return True if a lower-cased text holds a word that every instruction to a judge has."""
    return any(map(text.__contains__, _ANCHORS))


def instructing_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences [start:end) of a lower-cased text that tell a judge how to judge."""
    if not may_instruct(text):
        return
    for start, end in sentences(text):
        sentence = text[start:end]
        if may_instruct(sentence) and _instructs(sentence):
            yield start, end


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield rough sentences of a text, at most 600 characters each; a line's end is one of theirs."""
    start = 0
    for end in chain((match.end() for match in _END.finditer(text)), (len(text),)):
        for first in range(start, end, _MAX_SENTENCE_CHARACTERS):
            yield first, min(end, first + _MAX_SENTENCE_CHARACTERS)
        start = end


def _instructs(sentence: str) -> bool:
    sentence = _QUESTION.sub(" ", sentence)
    english = [
        (m.start(), _ENGLISH_BY_WORD[w]) for m in _WORD.finditer(sentence) if (w := _bare(m[0])) in _ENGLISH_BY_WORD
    ]
    if _any_holds(english, _ENGLISH):
        return True
    if sentence.isascii():
        return False
    chinese = [(match.start(), _CHINESE_BY_WORD[match.group()]) for match in _CHINESE_WORD.finditer(sentence)]
    return _any_holds(chinese, _CHINESE)


def _any_holds(words: Sequence[tuple[int, frozenset[str]]], combinations: Sequence[Combination]) -> bool:
    present = frozenset().union(*(names for _, names in words))
    return any(present.issuperset(each.classes) and _holds(words, each) for each in combinations)


def _bare(word: str) -> str:
    return word.replace("’", "'").rstrip(".-/'").removesuffix("'s")


def _holds(words: Sequence[tuple[int, frozenset[str]]], combination: Combination) -> bool:
    """Return True if the classes occur in order within reach; each stage keeps its latest possible start."""
    classes = combination.classes
    starts: list[int | None] = [None] * len(classes)
    for place, names in words:
        for stage in range(len(classes) - 1, -1, -1):
            if classes[stage] not in names:
                continue
            first = place if stage == 0 else starts[stage - 1]
            if first is not None and place - first <= combination.reach:
                starts[stage] = first
    return starts[-1] is not None
