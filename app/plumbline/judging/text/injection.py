"""Prompt injection: text that addresses the judge instead of the reader, by the order of its words; linear in it."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.obfuscation import LOOKALIKES, find_hidden, find_obfuscation, remove_hidden
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.words import find_in_pieces

# Classes of words that instruct a judge in this order, within so many characters.
_Combination = tuple[tuple[str, ...], int]

_WORDS: Final = Phrases("judging/text/judge_instructions")
# A sentence without one of these holds no combination; looked for as plain text, which is fast.
_ANCHORS = tuple(_WORDS.read("anchors").split())
# A question whether something is true does not say that it is.
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


_ENGLISH, _CHINESE = (
    [(tuple(classes), int(reach)) for *classes, reach in map(str.split, _WORDS.read(f"{language}.combinations"))]
    for language in ("en", "zh")
)
_ENGLISH_BY_WORD, _CHINESE_BY_WORD = (_by_word(_WORDS.read(f"{language}.classes")) for language in ("en", "zh"))
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
    words = {m.start(): m[0].replace("’", "'").rstrip(".-/'").removesuffix("'s") for m in _WORD.finditer(sentence)}
    english = [(start, _ENGLISH_BY_WORD[word]) for start, word in words.items() if word in _ENGLISH_BY_WORD]
    if _any_holds(english, _ENGLISH):
        return True
    if sentence.isascii():
        return False
    chinese = [(match.start(), _CHINESE_BY_WORD[match.group()]) for match in _CHINESE_WORD.finditer(sentence)]
    return _any_holds(chinese, _CHINESE)


def _any_holds(words: Sequence[tuple[int, frozenset[str]]], combinations: Sequence[_Combination]) -> bool:
    present = frozenset().union(*(names for _, names in words))
    return any(present.issuperset(classes) and _holds(words, classes, reach) for classes, reach in combinations)


def _holds(words: Sequence[tuple[int, frozenset[str]]], classes: Sequence[str], reach: int) -> bool:
    """Return True if the classes occur in order within reach; each stage keeps its latest possible start."""
    starts: list[int | None] = [None] * len(classes)
    for place, names in words:
        for stage in range(len(classes) - 1, -1, -1):
            if classes[stage] not in names:
                continue
            first = place if stage == 0 else starts[stage - 1]
            if first is not None and place - first <= reach:
                starts[stage] = first
    return starts[-1] is not None


SUSPECTED = "injection_suspected"
# Every kind of finding, in the order of a result's flags; each comes with `injection_suspected`.
KINDS = ("instruction_to_judge", "verdict_in_text", "role_markers", "hidden_characters", "homoglyphs")

# One character each, so that places stay where they are.
_SAME_LENGTH = str.maketrans(
    LOOKALIKES
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | {
        chr(code): plain
        for code in range(0x1D400, 0x1D800)
        if len(plain := unicodedata.normalize("NFKC", chr(code))) == 1 and plain.isascii()
    }
    | {"İ": "I", "：": ":", "“": '"', "”": '"', "\u00a0": " "}
)
_VERDICT = re.compile(_WORDS.pattern("disguises.verdicts"))
_VERDICT_ANCHORS: Final[Sequence[str]] = _WORDS.read("disguises.verdict_anchors")
_ROLE = re.compile(_WORDS.pattern("disguises.roles"), re.MULTILINE)
_ROLE_ANCHORS: Final[Sequence[str]] = _WORDS.read("disguises.role_anchors")
_LIST_REACH_CHARACTERS = 2_000
_COLON_REACH_CHARACTERS = 20


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings in a sample.

    `flags`: `injection_suspected` and the kinds found, see `KINDS`; () for nothing. `suspects`: (context index, start,
    end) of what in the contexts instructs a judge or passes for its verdict. Handbooks, chat logs and articles on the
    subject hold such text honestly: it stays evidence, and a claim that has no other is flagged.
    """

    flags: tuple[str, ...]
    suspects: tuple[tuple[int, int, int], ...]


def inspect(sample: Sample) -> Inspection:
    """Return what in question, contexts and answer is written for the judge; linear in their length."""
    kinds: set[str] = set()
    suspects: list[tuple[int, int, int]] = []
    for text in (sample.question, sample.answer):
        kinds |= {kind for kind, _ in _instructions(_readable(text))} | find_obfuscation(text)
    for index, context in enumerate(sample.contexts):
        readable = _readable(context)
        found = list(_instructions(readable))
        kinds |= {kind for kind, _ in found} | find_obfuscation(context)
        spans: list[tuple[int, int]] = []
        for start, end in sorted(span for _, span in found):
            if spans and start <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((start, end))
        # Hidden characters are one each: the k-th stands before the kept character of number start - k.
        kept_before = [start - k for k, start in enumerate(find_hidden(context))] if spans else []
        suspects += [
            (index, start + bisect_right(kept_before, start), end + bisect_right(kept_before, end - 1))
            for start, end in spans
        ]
    flags = (SUSPECTED, *(kind for kind in KINDS if kind in kinds)) if kinds else ()
    return Inspection(flags, tuple(suspects))


def _has_any(anchors: Iterable[str], text: str) -> bool:
    return any(map(text.__contains__, anchors))


def _readable(text: str) -> str:
    """Return the text without hidden characters, look-alike letters made Latin, in lower case."""
    return remove_hidden(text).translate(_SAME_LENGTH).lower()


def _instructions(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for start, end in instructing_sentences(text):
        # The list that an instruction with a colon opens belongs to it.
        opens_list = text[max(0, end - _COLON_REACH_CHARACTERS) : end].rstrip().endswith(":")
        yield "instruction_to_judge", (start, _end_of_paragraph(text, end) if opens_list else end)
    if _has_any(_VERDICT_ANCHORS, text):
        reached = 0
        for match in find_in_pieces(_VERDICT, text):
            if match.end() > reached:
                start, reached = _around_verdict(text, match.start(), match.end())
                yield "verdict_in_text", (start, reached)
    if _has_any(_ROLE_ANCHORS, text):
        reached = 0
        for match in find_in_pieces(_ROLE, text):
            if match.end() > reached:
                start, reached = _line(text, match.start(), match.end())[0], _end_of_paragraph(text, match.end())
                yield "role_markers", (start, reached)


def _end_of_paragraph(text: str, start: int) -> int:
    blank = text.find("\n\n", start, start + _LIST_REACH_CHARACTERS)
    return blank if blank >= 0 else min(len(text), start + _LIST_REACH_CHARACTERS)


def _around_verdict(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the JSON object around a verdict, of its line without one."""
    opening = max(text.rfind(mark, max(0, start - _LIST_REACH_CHARACTERS), start) for mark in "{[")
    closing = max(text.rfind(mark, end, end + _LIST_REACH_CHARACTERS) for mark in "}]")
    if opening >= 0 and closing >= 0:
        return opening, closing + 1
    return _line(text, start, end)


def _line(text: str, start: int, end: int) -> tuple[int, int]:
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    first, last = max(first, start - _LIST_REACH_CHARACTERS), min(last, end + _LIST_REACH_CHARACTERS)
    touched = [(a + first, b + first) for a, b in sentences(text[first:last]) if a + first < end and b + first > start]
    return (touched[0][0], touched[-1][1]) if touched else (start, end)
