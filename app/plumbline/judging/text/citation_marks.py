"""Citation marks of an answer, and the contexts that they name."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import content_words, is_han

_WORDED = (
    r"(?:sources?|docs?|documents?|passages?|contexts?|refs?|references?|citations?|cite|chunks?"
    r"|来源|文档|资料|片段|段落|参考)"
)
_SPAN = re.compile(
    # [1], [2, 3], [^1^], 【1】, 【4:0†source】, (source 1), [doc-7]: what stands in the brackets decides.
    r"[\[【(（［〔]([^\[\]【】()（）［］〔〕\n]{1,120})[\]】)）］〕]"
    r"|<(?:sup|ref|source|cite)>\s{0,3}([0-9][0-9 ,;–-]{0,20})\s{0,3}</"
    r"(?:sup|ref|source|cite)>"
    # m² and x³ are no marks.
    r"|(?:(?<=[.。,，;；:：!?！？”\"'’」』）)\]])|(?<=[a-zA-Z]{3})|(?<=[\u4e00-\u9fff]))"
    r"([¹²³⁰⁴-⁹]{1,6}(?:[ ,，、][¹²³⁰⁴-⁹]{1,3}){0,6})"
    # ① behind a statement; before one it counts the items of a list.
    r"|(?:(?<=\S)|(?<=\S )|\A)(?<![①-⑳图表式第])([①-⑳]{1,6})(?=\s{0,3}(?:[.。,，;；:：!?！？)）」』”\"'’]|\Z|\n))"
    # ChatGPT's search: the turn, the kind and the passage, which counts from 0.
    r"|\ue200?cite((?:\ue202?turn\d{1,3}[a-z]{2,10}\d{1,3}){1,9})\ue201?"
    rf"|(?i:\baccording to |根据|依据)({_WORDED} ?\d{{1,3}})(?![\w年])"
)
_MAY_CITE = re.compile(
    r"[\[【(（［〔¹²³⁰⁴-⁹①-⑳]|<(?:sup|ref|source|cite)>|citeturn|\ue202turn|(?i:according to )|[根依]据"
)
_TURN_PASSAGE = re.compile(r"turn\d+[a-z]+(\d+)")
_ZERO = re.compile(r"[\[【]\^?0\^?[\]】]")
_CODE = re.compile(r"`[^`\n]{0,200}`")
_NUMBER = r"[\^#]?\d{1,3}\^?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s?(?:[,;、–—~-]|至|and|&|和)\s?{_NUMBER}){{0,12}}", re.IGNORECASE)
_WORDED_NUMBERS = re.compile(
    rf"(?:(?:see|cf\.?|from|via)\s|(?:参见|引用自|引自|出自|见)\s?)?{_WORDED}[ .:#_]{{0,2}}{_NUMBERS.pattern}"
    rf"(?:\s?[,;、]\s?{_WORDED}[ .:#_]{{0,2}}{_NUMBERS.pattern}){{0,6}}",
    re.IGNORECASE,
)
# File search of OpenAI's assistants: the message, and in it the passage, which counts from 0.
_MESSAGE_PASSAGE = re.compile(r"(\d{1,3}):(\d{1,3})†.*", re.DOTALL)
_NUMBER_AND_LINES = re.compile(r"(\d{1,3})†.*", re.DOTALL)
_RANGE = re.compile(r"(\d{1,3})\^?(?:\s?(?:[–—~-]|至)\s?\^?(\d{1,3}))?")
_LONGEST_RANGE = 20
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_CIRCLED_ONE = ord("①")
# "[1, p. 4]", "[2，第5页]": where in the passage.
_PAGE = re.compile(r"\s?[,;:]\s?(?:pp?\.? ?|pages? |第 ?)\d{1,4}(?:\s?[–—~-]\s?\d{1,4})?(?: ?页)?\Z", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s?[,;、]\s?")
_SEPARATORS = re.compile(r"[ ,，、]")
_OWN_LABEL = re.compile(r"\s*[\[【]\^?([0-9]{1,3})\]?】?[\])】:.]?\s")
_SHAPE = re.compile(r"(\d+)|([^\W\d_]+)")
# "[^1]: title", and what follows the heading of a list of sources.
_DEFINITION = re.compile(r"\s*(?:[-*•]\s{1,3})?[\[【]\^?[\w-]{1,20}\^?[\]】]\s?[:：]")
_SOURCES = re.compile(
    r"[\s#*_>-]{0,12}(?:references?|sources?|citations?|bibliography|works cited|footnotes?|notes?"
    r"|参考(?:资料|文献|来源)?|(?:信息|资料)?来源|引用|出处|注释?)[*_ ]{0,4}(?:[:：]|\Z)",
    re.IGNORECASE,
)
# "[1] https://...", "2. [Guide](...)": a line of sources, also without a heading above them.
_SOURCE_LINE = re.compile(
    r"\s*(?:[-*•]\s{1,3})?(?:[\[【［]\^?\d{1,3}\^?[\]】］]\s?[^\s\[【［]|\d{1,2}[.)]\s{1,3}(?:\[|https?://|www\.))"
)
_BETWEEN_BOUNDS = re.compile(r"\s?[-–—~至]\s?")
_TRACKING = re.compile(r"[?&]utm_\w{1,20}=[\w.-]{1,60}|#:~:text=.*")
_ENTRY = re.compile(r"\s*(?:[-*•]\s{1,3})?(?:[\[【]\^?\d{1,3}\^?[\]】]|\d{1,2}[.)、])")
# Fewer content words are no statement ("According to [2], ...").
_STATEMENT_WORDS, _STATEMENT_HAN = 2, 3


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


class _Resolver:
    """Finds the context of a label: by id, title or source; by the number it begins with; by position."""

    def __init__(self, sample: Sample, base: int) -> None:
        self._count, self._base = len(sample.contexts), base
        self._by_name: dict[str, int] = {}
        for index, labels in enumerate(sample.context_labels):
            for name in labels.names:
                self._by_name.setdefault(_folded(name), index)
        self._shapes = {
            _shape(_folded(labels.id)) for labels in sample.context_labels if labels.id and not labels.id.isdigit()
        }
        own = [_OWN_LABEL.match(context) for context in sample.contexts]
        numbers = [match[1] for match in own if match]
        # "[3] text": passages that carry their numbers are cited by them.
        is_numbered = bool(own) and len(set(numbers)) == len(own)
        self._by_number: Mapping[int, int] | None = (
            {int(number): index for index, number in enumerate(numbers)} if is_numbered else None
        )

    def named(self, label: str) -> int | None:
        return self._by_name.get(_folded(label))

    def is_like_an_id(self, label: str) -> bool:
        return _shape(_folded(label)) in self._shapes

    def numbered(self, number: int, *, base: int | None = None) -> int | None:
        if base is None:
            if (named := self._by_name.get(str(number))) is not None:
                return named
            if self._by_number is not None:
                return self._by_number.get(number)
        index = number - (self._base if base is None else base)
        return index if 0 <= index < self._count else None

    def is_number_of_a_passage(self, number: int) -> bool:
        """Return False for a number that is rather a year, a size or the bound of an interval."""
        return self.numbered(number) is not None or self._base <= number <= max(99, self._count)


class FoundMarks(NamedTuple):
    """Marks by the position of their sentence, and the positions of the sentences that list sources."""

    by_sentence: Mapping[int, tuple[CitationMark, ...]]
    listed: frozenset[int]


def find_marks(sample: Sample, sentences: Sequence[Sentence], *, base: int | None = None) -> FoundMarks:
    """Find the citation marks of an answer, offsets in the answer.

    Marks: [1], [2, 3], [1-3], [^1], [^1^], 【1】, 【4:0†source】, (source 1), [文档1], [cite: 1], [1, p. 4],
    superscripts, ① behind a statement, <sup>1</sup>, "according to source 1", and a bracket with an id, title
    or source of a context. A number means the context with that id, else the one whose text begins with it
    ("[3] ..."), else the position, counted from `base`; None: from 0 if the answer cites [0], else from 1. Code
    and lists of sources have none, and a mark that stands in a context was copied with it. A line of marks
    alone, also behind "Source:", belongs to the sentence before it.
    """
    if not _MAY_CITE.search(sample.answer):
        return FoundMarks({}, frozenset())
    if base is None:
        base = 0 if _ZERO.search(sample.answer) else 1
    resolver = _Resolver(sample, base)
    copied = _marks_of_contexts(sample)
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
                marks = tuple(mark for mark in _marks_in(sentence, resolver) if mark.text not in copied)
                if marks and not _says_something(_without(sentence, marks)[heading.end() :]):
                    found[last] = found.get(last, ()) + marks
                    is_listing = False
            continue
        if sentence.kind == "code":
            continue
        marks = tuple(mark for mark in _marks_in(sentence, resolver) if mark.text not in copied)
        is_bare = last is not None and not _says_something(_without(sentence, marks))
        if not is_bare:
            last = position
        if marks and last is not None:
            found[last] = found.get(last, ()) + marks
    return FoundMarks(found, frozenset(listed))


def cited_statements(sentence: Sentence, marks: Sequence[CitationMark]) -> tuple[CitedStatement, ...]:
    """Return the statements of a sentence, each with the marks that follow it; text behind the last mark is in none.

    Marks with no statement before them ("According to [2], ...") are for the one behind them.
    """
    groups: list[tuple[str, list[CitationMark]]] = []
    at = sentence.start
    for mark in sorted(marks, key=lambda each: each.start):
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
    return tuple(CitedStatement(text.strip(), tuple(each)) for text, each in groups)


def _marks_in(sentence: Sentence, resolver: _Resolver) -> Iterator[CitationMark]:
    code = [match.span() for match in _CODE.finditer(sentence.text)] if "`" in sentence.text else []
    before: re.Match[str] | None = None
    for match in _SPAN.finditer(sentence.text):
        if any(start <= match.start() < end for start, end in code):
            continue
        start, end = sentence.start + match.start(), sentence.start + match.end()
        named = _named(match, resolver)
        # "[1]-[3]" names what is between them, too.
        if before and named and _BETWEEN_BOUNDS.fullmatch(sentence.text, before.end(), match.start()):
            bounds = f"{before[1]}-{match[1]}"
            if _NUMBERS.fullmatch(bounds):
                named = _numbered(_listed(bounds)[1:], resolver) or named
        before = match
        for label, context in named:
            yield CitationMark(match.group(), start, end, label, context)


def _first_source(sentences: Sequence[Sentence]) -> int:
    """Return the position from which on an answer only lists sources; such lines before it are its statements."""
    first = len(sentences)
    while first and (_SOURCE_LINE.match(sentences[first - 1].text) or sentences[first - 1].kind == "markup"):
        first -= 1
    said = sentences[:first]
    is_style = any(_OWN_LABEL.match(each.text) for each in said) or not any(_SPAN.search(each.text) for each in said)
    return len(sentences) if is_style else first


def _marks_of_contexts(sample: Sample) -> frozenset[str]:
    """Return the marks within contexts, those that they begin with apart."""
    found: set[str] = set()
    for context in sample.contexts:
        label = _OWN_LABEL.match(context)
        found.update(match.group() for match in _SPAN.finditer(context, label.end() if label else 0))
    return frozenset(found)


def _named(match: re.Match[str], resolver: _Resolver) -> list[tuple[str, int | None]]:
    """Return what the brackets name; nothing if they are no mark."""
    inside, tagged, raised, circled, turned, worded = match.groups()
    if circled:
        raised = " ".join(str(ord(digit) - _CIRCLED_ONE + 1) for digit in circled)
    if raised or turned:
        return _raised(raised, resolver) if raised else _turned(turned, resolver)
    content = unicodedata.normalize("NFKC", inside or tagged or worded).strip().rstrip("\\")
    is_round = match.group()[0] in "(（"
    if message := _MESSAGE_PASSAGE.fullmatch(content):
        return [(f"{message[1]}:{message[2]}", resolver.numbered(int(message[2]), base=0))]
    if lines := _NUMBER_AND_LINES.fullmatch(content):
        return [(lines[1], resolver.numbered(int(lines[1])))]
    if (context := resolver.named(content)) is not None:
        return [(content, context)]
    content = _PAGE.sub("", content)
    if _WORDED_NUMBERS.fullmatch(content) or (not is_round and _NUMBERS.fullmatch(content)):
        return _numbered(_listed(content), resolver)
    parts = _SEPARATOR.split(content)
    contexts = [resolver.named(part) for part in parts]
    likely = [
        context is not None or (not is_round and resolver.is_like_an_id(part))
        for part, context in zip(parts, contexts, strict=True)
    ]
    return list(zip(parts, contexts, strict=True)) if all(likely) else []


def _raised(numbers: str, resolver: _Resolver) -> list[tuple[str, int | None]]:
    """Return what superscripts name: numbers, or the digits of one that is no number of a passage."""
    given = [int(each) for each in _SEPARATORS.split(numbers.translate(_SUPERSCRIPTS))]
    digits = [int(digit) for number in given for digit in str(number)]
    has_all = all(resolver.numbered(each) is not None for each in given)
    is_run = not has_all and all(resolver.numbered(each) is not None for each in digits)
    return _numbered(digits if is_run else given, resolver)


def _turned(labels: str, resolver: _Resolver) -> list[tuple[str, int | None]]:
    """Return what ChatGPT's "turn0search1" name: a passage with that id, or by its number."""
    found: list[tuple[str, int | None]] = []
    for label in _TURN_PASSAGE.finditer(labels):
        named = resolver.named(label[0])
        found.append((label[0], resolver.numbered(int(label[1]), base=0) if named is None else named))
    return found


def _listed(content: str) -> list[int]:
    numbers: list[int] = []
    for first, last in _RANGE.findall(content):
        start, end = int(first), int(last or first)
        numbers += range(start, end + 1) if start <= end < start + _LONGEST_RANGE else (start, end)
    return list(dict.fromkeys(numbers))


def _numbered(numbers: Sequence[int], resolver: _Resolver) -> list[tuple[str, int | None]]:
    if not all(map(resolver.is_number_of_a_passage, numbers)):
        return []
    return [(str(number), resolver.numbered(number)) for number in numbers]


def _without(sentence: Sentence, marks: Sequence[CitationMark]) -> str:
    text = sentence.text
    for mark in reversed(marks):
        text = text[: mark.start - sentence.start] + " " + text[mark.end - sentence.start :]
    return text


def _slice(sentence: Sentence, start: int, end: int) -> str:
    return sentence.text[max(0, start - sentence.start) : max(0, end - sentence.start)]


def _says_something(text: str) -> bool:
    if sum(map(is_han, text)) >= _STATEMENT_HAN:
        return True
    return any(c.isalnum() for c in text) and len(content_words(text)) >= _STATEMENT_WORDS


def _folded(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().strip()
    return _TRACKING.sub("", folded).rstrip("/") if folded.startswith("http") else folded


def _shape(label: str) -> str:
    return _SHAPE.sub(lambda match: "0" if match[1] else "a", label)
