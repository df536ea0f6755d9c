"""Citation marks of an answer, and the contexts that they name."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases
from plumbline.judging.text.citation_labels import MAY_MARK, OWN_LABEL, LabelResolver, find_candidates
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import content_words, is_han

# "[cite_start]", and the tags around a statement.
_FRAME = re.compile(r"\[cite_(?:start|end)\] ?|</?c(?:ite|o)\b[^<>]{0,60}>")
_LONGEST_OPENED = 4_000
_CODE = re.compile(r"`[^`\n]{0,200}`")
# "[^1]: title", and what follows the heading of a list of sources.
_DEFINITION = re.compile(r"\s*(?:[-*•]\s{1,3})?[\[【]\^?[\w-]{1,20}\^?[\]】]\s?[:：]")
_LAYOUT = Phrases("judging/text/layout")
_SOURCES = re.compile(_LAYOUT.pattern("sources.heading"), re.IGNORECASE)
_SOURCE_LINE = re.compile(_LAYOUT.pattern("sources.line"))
_ENTRY = re.compile(r"\s*(?:[-*•]\s{1,3})?(?:[\[【]\^?\d{1,3}\^?[\]】]|\d{1,2}[.)、])")
# Fewer content words are no statement ("According to [2], ...").
_STATEMENT_WORDS, _STATEMENT_HAN = 2, 3
# Characters before a mark that show that one in a context is the same.
_COPIED_REACH = 12


@dataclass(frozen=True, slots=True)
class CitationMark:
    """One passage named by a mark: "[1, 2]" is two of them. `context` is None if there is no such passage."""

    text: str
    start: int
    end: int
    label: str
    context: int | None


@dataclass(frozen=True, slots=True)
class CitedStatement:
    """The part of a sentence that the marks behind it are for, without the marks."""

    text: str
    marks: tuple[CitationMark, ...]


@dataclass(frozen=True, slots=True)
class FoundMarks:
    """Marks by the position of their sentence, and the positions of the sentences that list sources."""

    by_sentence: Mapping[int, tuple[CitationMark, ...]]
    listed: frozenset[int]
    texts: frozenset[str]


def find_marks(sample: Sample, sentences: Sequence[Sentence], *, base: int | None = None) -> FoundMarks:
    """Find the citation marks of an answer, offsets in the answer.

    Marks: [1], [2, 3], [1-3], [^1], [^1^], 【1】, 【4:0†source】, (source 1), [文档1], [cite: 1], [web:1], [1, p. 4],
    <sup>1</sup>, Claude's and Cohere's tags around a statement, links, "according to source 1", "source 1 says", and a
    bracket with an id, title or source of a context. A number means the context with that id, else the one whose text
    begins with it ("[3] ..."), else the position, counted from `base`; None: from 0 if the answer cites [0], else from
    1. Code and lists of sources have none, and a mark that stands behind the same words in a context was copied with
    them. A line of marks alone, also behind "Source:",
    belongs to the sentence before it.
    """
    if not MAY_MARK.search(sample.answer):
        return FoundMarks({}, frozenset(), frozenset())
    reader = _MarkReader(sample, base)
    found: dict[int, tuple[CitationMark, ...]] = {}
    listed: set[int] = set()
    last: int | None = None
    is_listing, first_source = False, _first_source(sentences)
    for position, sentence in enumerate(sentences):
        heading = _SOURCES.match(sentence.text)
        is_listing = (is_listing and bool(_ENTRY.match(sentence.text))) or heading is not None
        if is_listing or position >= first_source or _DEFINITION.match(sentence.text):
            listed.add(position)
            # "Source: [1]" is said of the sentence before it.
            if heading and heading.end() < len(sentence.text) and last is not None:
                marks = reader.read(sentence)
                if marks and not _says_something(_without(sentence, marks)[heading.end() :]):
                    found[last] = found.get(last, ()) + marks
                    is_listing = False
            continue
        if sentence.kind == "code":
            continue
        marks = reader.read(sentence)
        is_bare = last is not None and not _says_something(_without(sentence, marks))
        if not is_bare:
            last = position
        if marks and last is not None:
            found[last] = found.get(last, ()) + marks
    texts = frozenset(mark.text for marks in found.values() for mark in marks)
    return FoundMarks(found, frozenset(listed), texts)


def cited_statements(sentence: Sentence, marks: Sequence[CitationMark]) -> tuple[CitedStatement, ...]:
    """Return the statements of a sentence, each with the marks that follow it; text behind the last mark is in none.

    Marks with no statement before them ("According to [2], ...") are for the one behind them.
    """
    groups: list[tuple[str, list[CitationMark]]] = []
    at = sentence.start
    for mark in within_deadline(sorted(marks, key=lambda each: each.start)):
        between = _slice(sentence, at, mark.start)
        at = max(at, mark.end)
        if groups and not _says_something(between):
            groups[-1][1].append(mark)
        else:
            groups.append((between, [mark]))
    rest = _slice(sentence, at, sentence.end)
    if groups and not _says_something(groups[0][0]):
        if len(groups) > 1:
            groups[1] = (f"{groups[0][0]} {groups[1][0]}", groups[0][1] + groups[1][1])
            del groups[0]
        else:
            groups[0] = (f"{groups[0][0]} {rest}", groups[0][1])
    elif groups and not _says_something(rest):
        groups[-1] = (f"{groups[-1][0]} {rest}", groups[-1][1])
    return tuple(CitedStatement(_FRAME.sub("", text).strip(), tuple(each)) for text, each in groups)


def strip_marks(text: str, marks: Container[str]) -> str:
    """Return the text with a blank in place of each of these marks, and without the tags around statements."""
    pieces: list[str] = []
    at = 0
    for match in find_candidates(text):
        # "Source 1" is a word of its sentence.
        if match.group() in marks and not (match["worded"] or match["said"]):
            pieces += (text[at : match.start()], " ")
            at = match.end()
    return _FRAME.sub("", "".join((*pieces, text[at:])))


class _MarkReader:
    """Reads the marks of an answer, sentence by sentence in their order: a tag may be open around several."""

    def __init__(self, sample: Sample, base: int | None) -> None:
        self._answer = sample.answer
        self._resolver = LabelResolver(sample, base)
        self._contexts = sample.contexts
        self._opened: list[CitationMark] = []

    def read(self, sentence: Sentence) -> tuple[CitationMark, ...]:
        code = [match.span() for match in _CODE.finditer(sentence.text)] if "`" in sentence.text else []
        found: list[CitationMark] = []
        for match in within_deadline(find_candidates(self._answer, sentence.start, sentence.end)):
            at = match.start() - sentence.start
            if any(start <= at < end for start, end in code):
                continue
            named = self._resolver.read(match)
            if named and _with_what_precedes(match) in self._copied_marks:
                continue
            marks = [CitationMark(match.group(), *match.span(), label, context) for label, context in named]
            if match["opened"]:
                is_closed = self._answer.find("</c", match.end(), match.end() + _LONGEST_OPENED) >= 0
                self._opened = marks if is_closed else []
            elif match["closed"]:
                around = self._opened or marks
                found += [replace(each, text=match.group(), start=match.start(), end=match.end()) for each in around]
                self._opened = []
            else:
                found += marks
        return (*found, *self._opened)

    @cached_property
    def _copied_marks(self) -> frozenset[str]:
        """Return the marks within contexts with the words before them, those that they begin with apart."""
        found: set[str] = set()
        for context in self._contexts:
            label = OWN_LABEL.match(context)
            found.update(map(_with_what_precedes, find_candidates(context, label.end() if label else 0)))
        return frozenset(found)


def _with_what_precedes(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - _COPIED_REACH) : match.end()]


def _first_source(sentences: Sequence[Sentence]) -> int:
    """Return the position from which on an answer only lists sources; such lines before it are its statements."""
    first = len(sentences)
    while first and (_SOURCE_LINE.match(sentences[first - 1].text) or sentences[first - 1].kind == "markup"):
        first -= 1
    said = sentences[:first]
    is_style = any(OWN_LABEL.match(each.text) for each in said) or not any(
        any(find_candidates(each.text)) for each in said
    )
    return len(sentences) if is_style else first


def _without(sentence: Sentence, marks: Sequence[CitationMark]) -> str:
    text = sentence.text
    for mark in reversed(marks):
        text = text[: mark.start - sentence.start] + " " + text[mark.end - sentence.start :]
    return text


def _slice(sentence: Sentence, start: int, end: int) -> str:
    return sentence.text[max(0, start - sentence.start) : max(0, end - sentence.start)]


def _says_something(text: str) -> bool:
    if not text.isascii() and sum(map(is_han, text)) >= _STATEMENT_HAN:
        return True
    return any(c.isalnum() for c in text) and len(content_words(text)) >= _STATEMENT_WORDS
