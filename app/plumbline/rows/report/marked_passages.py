"""The sentences of a shown answer, and its question and contexts with the passages marked that claims rest on."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from plumbline.judging.text.sample import Sample
from plumbline.rows.report.result_lines import OffsetUnit, RowResult

# Of what stands beside a marked passage; a page holds hundreds of rows.
_MOST_AROUND: Final = 600
_MOST_CONTEXTS: Final = 20
_GAP: Final = " … "


class Piece(NamedTuple):
    """A part of a text. `kind`: `evidence`, `nearest` (the passage nearest to an unsupported claim), else empty."""

    text: str
    kind: str = ""


class Span(NamedTuple):
    """A place in a text, in code points."""

    start: int
    end: int
    kind: str


class ShownContext(NamedTuple):
    """A context in parts; `number` counts from 0, as evidence does."""

    number: int
    parts: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ShownSource:
    """The texts that an answer was judged by; `hidden` counts the contexts that are not shown."""

    question: str
    contexts: tuple[ShownContext, ...]
    hidden: int


class SpannedClaim(Protocol):
    """A claim whose sentence is `answer[start:end]`."""

    @property
    def id(self) -> str: ...
    @property
    def sentence(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


C = TypeVar("C", bound=SpannedClaim)


class AnswerSentence(NamedTuple, Generic[C]):
    """A sentence with its claims; `number` is None for text of the answer that no claim is about."""

    number: int | None
    text: str
    claims: tuple[C, ...]


def answer_sentences(
    claims: Iterable[C], answer: str | None, *, unit: OffsetUnit, quoted: Mapping[str, str] = MappingProxyType({})
) -> list[AnswerSentence[C]]:
    """Return the sentences of an answer in order.

    Args:
        answer: None: a sentence is what is quoted of it, else the text of its claims.
        unit: of the claims' offsets.
        quoted: texts of sentences, by the id of a claim.
    """
    by_number: dict[int, list[C]] = {}
    for claim in claims:
        by_number.setdefault(claim.sentence, []).append(claim)
    groups = [(number, tuple(by_number[number])) for number in sorted(by_number)]
    if answer is None:
        return [AnswerSentence(number, _text_of(group, quoted), group) for number, group in groups]
    found: list[AnswerSentence[C]] = []
    (cut, _), position = _cutter(answer, unit), 0
    for number, group in groups:
        found += _rest(cut(position, group[0].start))
        position = group[0].end
        found.append(AnswerSentence(number, cut(group[0].start, position), group))
    return [*found, *_rest(cut(position, None))]


def _text_of(claims: Sequence[SpannedClaim], quoted: Mapping[str, str]) -> str:
    known = next((quoted[claim.id] for claim in claims if claim.id in quoted), None)
    return " ".join(dict.fromkeys(claim.text for claim in claims)) if known is None else known


def _rest(text: str) -> list[AnswerSentence[Any]]:
    return [AnswerSentence(None, text.strip(), ())] if any(map(str.isalnum, text)) else []


def _cutter(text: str, unit: OffsetUnit) -> tuple[Callable[[int, int | None], str], int]:
    """Return a function that cuts the text by offsets, and the length of the text."""
    if unit == "code_point":
        return (lambda start, end: text[start:end]), len(text)
    units = text.encode("utf-16-le", "surrogatepass")

    def cut(start: int, end: int | None) -> str:
        return units[2 * start : None if end is None else 2 * end].decode("utf-16-le", "replace")

    return cut, len(units) // 2


def is_answer_of(answer: str, result: RowResult) -> bool:
    """Return False if the claims are for certain about another answer."""
    (cut, length), quoted = _cutter(answer, result.offset_unit), quoted_sentences(result)
    for claim in result.claims:
        text = cut(claim.start, claim.end)
        if claim.end > length or text != text.strip() or not text.startswith(quoted.get(claim.id, "")):
            return False
        if result.tier != "llm" and text != claim.text:
            return False
    return True


def quoted_sentences(result: RowResult) -> Mapping[str, str]:
    """Return the sentences of the claims that decided against an answer, by id."""
    return {each.claim: each.sentence for each in result.decision.because} if result.decision else {}


def shown_source(sample: Sample, result: RowResult) -> ShownSource:
    """Return question and contexts, those with evidence before others."""
    quotes: dict[int, list[str]] = {}
    for claim in result.claims:
        # No claim rests on what is only nearest to it.
        for item in claim.evidence if claim.verdict != "not_mentioned" else ():
            if item.verified and item.context is not None:
                quotes.setdefault(item.context, []).append(item.quote)
    numbers = sorted(range(len(sample.contexts)), key=lambda number: (number not in quotes, number))[:_MOST_CONTEXTS]
    contexts = tuple(
        ShownContext(number, mark_passages(sample.contexts[number], quotes.get(number, ())))
        for number in sorted(numbers)
    )
    return ShownSource(sample.question[:_MOST_AROUND], contexts, len(sample.contexts) - len(contexts))


def mark(text: str, spans: Sequence[Span]) -> tuple[Piece, ...]:
    """Cut a text at the ends of the spans; where spans overlap, `evidence` wins. Takes n log n of the spans."""
    changes: dict[int, Counter[str]] = {0: Counter(), len(text): Counter()}
    for span in spans:
        changes.setdefault(span.start, Counter())[span.kind] += 1
        changes.setdefault(span.end, Counter())[span.kind] -= 1
    open_spans: Counter[str] = Counter()
    starts: list[tuple[int, str]] = []
    for place in sorted(changes):
        open_spans.update(changes[place])
        kind = "evidence" if open_spans["evidence"] else next((each for each in open_spans if open_spans[each]), "")
        if place < len(text) and (not starts or starts[-1][1] != kind):
            starts.append((place, kind))
    ends = [*(place for place, _ in starts[1:]), len(text)]
    return tuple(Piece(text[start:end], kind) for (start, kind), end in zip(starts, ends, strict=False))


def mark_passages(text: str, quotes: Iterable[str]) -> tuple[Piece, ...]:
    """Return the text in parts: each quote where it first stands, and what is around them, shortened if it is long."""
    spans = [
        Span(start, start + len(quote), "evidence")
        for quote in dict.fromkeys(quotes)
        if quote and (start := text.find(quote)) >= 0
    ]
    pieces = mark(text, spans)
    last = len(pieces) - 1
    return tuple(
        each if each.kind else Piece(_shortened(each.text, is_first=not place, is_last=place == last))
        for place, each in enumerate(pieces)
    )


def _shortened(text: str, *, is_first: bool, is_last: bool) -> str:
    """Return what is next to the marks on its sides; the beginning of a text without marks."""
    if len(text) <= 2 * _MOST_AROUND:
        return text
    head = "" if is_first and not is_last else text[:_MOST_AROUND]
    return f"{head}{_GAP}{'' if is_last else text[-_MOST_AROUND:]}"
