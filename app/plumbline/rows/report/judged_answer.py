"""A judged answer as every page shows it: sentences with verdicts and claims, evidence marked in the contexts."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import Final, NamedTuple

from plumbline.judging.text.sample import Sample
from plumbline.rows.report.result_lines import (
    GRAVEST_FIRST,
    UNSUPPORTED,
    Citation,
    Claim,
    Evidence,
    OffsetUnit,
    RowResult,
    Verdict,
)
from plumbline.rows.report.text_blocks import Block, Piece, split_blocks

_CITED_GRAVITY: Final = ("supported", "partial", "not_supported", "wrong_passage", "no_such_passage")
# Characters of a context on both sides of a claim's quote, and of the quote.
_AROUND: Final = 240
_LONGEST_QUOTE: Final = 4_000
# Bounds of a brief answer: a report holds hundreds.
_BRIEF_AROUND: Final = 600
_BRIEF_CONTEXTS: Final = 20
_GAP: Final = " … "


class Span(NamedTuple):
    """A place in a text, in code points; `kind` and `sentence` as of `Piece`."""

    start: int
    end: int
    kind: str
    sentence: int = 0


class ShownContext(NamedTuple):
    """A context in pieces; `number` counts from 1."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return split_blocks(self.pieces)


class Passage(NamedTuple):
    """Evidence in its context, shortened on both sides; `context` counts from 1, and is None for an unknown quote.

    `is_located`: no quote of a judge; code found it for a decision model's verdict.
    """

    context: int | None
    pieces: tuple[Piece, ...]
    is_verified: bool
    is_located: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        return split_blocks(self.pieces)


class ShownClaim(NamedTuple):
    claim: Claim
    passages: tuple[Passage, ...]


class SentencePart(NamedTuple):
    """A part of a sentence; `citation`: of a citation mark, the gravest of the passages that it names."""

    text: str
    citation: Citation | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        return split_blocks((Piece(self.text),))


class ShownSentence(NamedTuple):
    """A sentence in parts, with the claims that can be checked.

    `number` counts from 0 and is None for text that no claim is about; `verdict`, the gravest, is None where no tier
    judged.
    """

    number: int | None
    text: str
    parts: tuple[SentencePart, ...]
    verdict: Verdict | None
    claims: tuple[ShownClaim, ...]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A result with its sentences, and with question and contexts of its sample; `hidden` contexts are left out."""

    result: RowResult
    sentences: tuple[ShownSentence, ...]
    question: str = ""
    contexts: tuple[ShownContext, ...] | None = None
    hidden: int = 0

    @property
    def faults(self) -> int:
        """Sentences that are not wholly supported."""
        return sum(sentence.verdict in UNSUPPORTED for sentence in self.sentences)

    @property
    def checked(self) -> int:
        """Sentences with claims that were judged."""
        return sum(sentence.verdict in GRAVEST_FIRST for sentence in self.sentences)


def judged_answer(
    result: RowResult, sample: Sample | None = None, *, is_brief: bool = False, is_blind: bool = False
) -> JudgedAnswer:
    """Return a result for a page.

    Args:
        sample: what was judged; without it there are no question and no contexts.
        is_brief: for a report, which finds the sample in a file of the user's: leave out one of another answer, shorten
            the texts, and show 20 contexts at most, those with evidence before others.
        is_blind: for labelling: no claims, verdicts or marks, which would tell how the answer was judged.
    """
    if is_brief and sample is not None and not _is_answer_of(sample.answer, result):
        sample = None
    contexts = () if sample is None else sample.contexts
    spans: dict[int, list[Span]] = {}
    for claim in () if is_blind else result.claims:
        for each in claim.evidence:
            if (
                each.context is not None
                and (span := _span(each, claim.verdict, contexts, claim.sentence + 1)) is not None
            ):
                spans.setdefault(each.context, []).append(span)
    sentences = tuple(_sentences(result, None if sample is None else sample.answer, contexts))
    if is_blind:
        sentences = tuple(
            each._replace(verdict=None, claims=(), parts=(SentencePart(each.text),)) for each in sentences
        )
    if sample is None:
        return JudgedAnswer(result, sentences)
    numbers: Sequence[int] = range(len(contexts))
    if is_brief:
        numbers = sorted(sorted(numbers, key=lambda number: (number not in spans, number))[:_BRIEF_CONTEXTS])
    shown = [ShownContext(number + 1, mark(contexts[number], spans.get(number, ()))) for number in numbers]
    if is_brief:
        shown = [context._replace(pieces=_shorten_pieces(context.pieces)) for context in shown]
    question = sample.question[:_BRIEF_AROUND] if is_brief else sample.question
    return JudgedAnswer(result, sentences, question, tuple(shown), len(contexts) - len(shown))


def _sentences(result: RowResult, answer: str | None, contexts: Sequence[str]) -> Iterator[ShownSentence]:
    cited: dict[int | None, list[Citation]] = {}
    for citation in result.citations:
        cited.setdefault(citation.sentence, []).append(citation)
    for number, text, claims in _split_answer(result, answer):
        checkable = [claim for claim in claims if claim.verdict != "not_a_claim"]
        found = {claim.verdict for claim in checkable}
        gravest: Verdict = next((verdict for verdict in GRAVEST_FIRST if verdict in found), "not_a_claim")
        yield ShownSentence(
            number,
            text,
            tuple(_cut_at_marks(text, cited.get(number, []))),
            None if result.status == "not_judged" else gravest,
            tuple(
                ShownClaim(claim, tuple(_passage(each, claim.verdict, contexts) for each in claim.evidence))
                for claim in checkable
            ),
        )


def _split_answer(result: RowResult, answer: str | None) -> Iterator[tuple[int | None, str, Sequence[Claim]]]:
    """Yield the sentences of an answer by number, text and claims, and the text between them that has words.

    Without the answer the text of a sentence is what the decision quotes of it, else the texts of its claims.
    """
    by_number: dict[int, list[Claim]] = {}
    for claim in result.claims:
        by_number.setdefault(claim.sentence, []).append(claim)
    quoted = quoted_sentences(result)
    if answer is None:
        for number, claims in sorted(by_number.items()):
            known = next((quoted[claim.id] for claim in claims if claim.id in quoted), None)
            yield number, known or " ".join(dict.fromkeys(claim.text for claim in claims)), claims
        return
    (cut, length), position = _cutter(answer, result.offset_unit), 0
    for number, claims in sorted(by_number.items()):
        start, end = claims[0].start, claims[0].end
        yield from _between(cut(position, start))
        yield number, cut(start, end), claims
        position = end
    yield from _between(cut(position, length))


def _between(text: str) -> Iterator[tuple[None, str, Sequence[Claim]]]:
    if any(map(str.isalnum, text)):
        yield None, text.strip(), ()


def _cut_at_marks(text: str, citations: list[Citation]) -> Iterator[SentencePart]:
    """Cut a sentence at its citation marks; a mark of several passages counts once."""
    position = 0
    for mark_text, same in groupby(citations, key=lambda each: each.text):
        found = text.find(mark_text, position)
        if found >= 0:
            yield SentencePart(text[position:found])
            yield SentencePart(mark_text, max(same, key=lambda each: _CITED_GRAVITY.index(each.verdict)))
            position = found + len(mark_text)
    yield SentencePart(text[position:])


def quoted_sentences(result: RowResult) -> Mapping[str, str]:
    return {each.claim: each.sentence for each in result.decision.because} if result.decision else {}


def _is_answer_of(answer: str, result: RowResult) -> bool:
    """Return False if the claims are for certain about another answer."""
    (cut, length), quoted = _cutter(answer, result.offset_unit), quoted_sentences(result)
    for claim in result.claims:
        text = cut(claim.start, claim.end)
        if claim.end > length or text != text.strip() or not text.startswith(quoted.get(claim.id, "")):
            return False
        if result.tier != "llm" and text != claim.text:
            return False
    return True


def _cutter(text: str, unit: OffsetUnit) -> tuple[Callable[[int, int], str], int]:
    """Return a function that cuts the text by offsets, and the length of the text."""
    if unit == "code_point":
        return (lambda start, end: text[start:end]), len(text)
    units = text.encode("utf-16-le", "surrogatepass")
    return (lambda start, end: units[2 * start : 2 * end].decode("utf-16-le", "replace")), len(units) // 2


def _passage(evidence: Evidence, verdict: Verdict, contexts: Sequence[str]) -> Passage:
    number = None if evidence.context is None else evidence.context + 1
    span, is_located = _span(evidence, verdict, contexts), evidence.kind == "located"
    if span is None or evidence.context is None:
        # Without the sample the result's word is all there is.
        return Passage(
            number, (Piece(evidence.quote[:_LONGEST_QUOTE]),), evidence.verified and not contexts, is_located
        )
    context, (start, end, kind, _) = contexts[evidence.context], span
    low, high = max(0, start - _AROUND), min(len(context), end + _AROUND)
    cut = min(end, start + _LONGEST_QUOTE)
    pieces = (
        Piece(("…" if low else "") + context[low:start]),
        Piece(context[start:cut] + ("…" if cut < end else ""), kind),
        Piece(context[end:high] + ("…" if high < len(context) else "")),
    )
    return Passage(number, tuple(each for each in pieces if each.text), evidence.verified, is_located)


def _span(evidence: Evidence, verdict: Verdict, contexts: Sequence[str], sentence: int = 0) -> Span | None:
    """Return the place of a quote in its context; None if it is not there to the letter."""
    if evidence.context is None or not evidence.quote or not 0 <= evidence.context < len(contexts):
        return None
    context, quote = contexts[evidence.context], evidence.quote
    # Offsets can count in UTF-16, or without the title of the context.
    start = evidence.start if evidence.start is not None and context.startswith(quote, evidence.start) else None
    start = context.find(quote) if start is None else start
    kind = verdict if verdict in _KINDS else "nearest"
    return None if start < 0 else Span(start, start + len(quote), kind, sentence)


# Where places overlap, the first of these is shown.
_KINDS: Final = ("contradicted", "partial", "supported", "nearest")


def mark(text: str, spans: Sequence[Span]) -> tuple[Piece, ...]:
    """Cut a text at the ends of the spans; where spans overlap, the gravest evidence wins. Takes n log n of them."""
    changes: dict[int, list[tuple[tuple[int, int], int]]] = {0: [], len(text): []}
    for span in spans:
        key = (_KINDS.index(span.kind), span.sentence)
        changes.setdefault(span.start, []).append((key, 1))
        changes.setdefault(span.end, []).append((key, -1))
    open_spans: Counter[tuple[int, int]] = Counter()
    gravest: list[tuple[int, int]] = []
    starts: list[tuple[int, tuple[int, int] | None]] = []
    for place in sorted(changes):
        for key, change in changes[place]:
            open_spans[key] += change
            if change > 0:
                heappush(gravest, key)
        while gravest and not open_spans[gravest[0]]:
            heappop(gravest)
        now = gravest[0] if gravest else None
        if place < len(text) and (not starts or starts[-1][1] != now):
            starts.append((place, now))
    ends = [*(place for place, _ in starts[1:]), len(text)]
    return tuple(
        Piece(text[start:end]) if now is None else Piece(text[start:end], _KINDS[now[0]], now[1])
        for (start, now), end in zip(starts, ends, strict=False)
    )


def _shorten_pieces(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Keep of long text around the marks what is next to them; of a text without marks its beginning."""
    last = len(pieces) - 1

    def shorten(place: int, text: str) -> str:
        if len(text) <= 2 * _BRIEF_AROUND:
            return text
        head = "" if not place and place != last else text[:_BRIEF_AROUND]
        return f"{head}{_GAP}{'' if place == last else text[-_BRIEF_AROUND:]}"

    return tuple(each if each.kind else Piece(shorten(place, each.text)) for place, each in enumerate(pieces))
