"""Question and contexts of a shown row, with the passages marked that its claims rest on."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from plumbline.judging.text.sample import Sample
from plumbline.rows.report.result_lines import RowResult

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


def shown_source(sample: Sample, result: RowResult) -> ShownSource | None:
    """Return question and contexts, those with evidence before others; None if another answer was judged."""
    if not all(sentence.text in sample.answer for sentence in result.sentences):
        return None
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
