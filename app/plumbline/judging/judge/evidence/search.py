"""Search for a judge's quotes in the contexts."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from plumbline.ground.deadline import within_deadline
from plumbline.judging.judge.evidence.quotes import Aligner, Quote, View, fold, plain, says_something, strip_markup
from plumbline.judging.quantities.comparison import Facts, facts_in, same_numbers
from plumbline.judging.text.names import KnownNames
from plumbline.judging.text.negation import is_turned
from plumbline.judging.text.segmentation import Sentence, split_sentences
from plumbline.judging.text.segmented_sample import ContextIndex
from plumbline.judging.text.verdicts import Evidence
from plumbline.judging.text.words import split_words

# The parts of a quote with "..." stand in one neighbourhood.
_MAX_GAP_CHARACTERS = 1_000
_MAX_OCCURRENCES = 1_000
# A judge's quotes have 4,000 characters at most; of a longer one fewer places are tried.
_MAX_CHARACTERS_TRIED = 4_000_000
_MAX_FUZZY_CHARACTERS = 2_000
_NEIGHBOURHOOD_CHARACTERS = 1_500

_Place = tuple[int, int]


class SearchableContext:
    """A context, its folded forms, and the stretches of it that read like instructions to a judge."""

    def __init__(self, text: str, suspects: Sequence[_Place], sentences: Sequence[Sentence]) -> None:
        self.text = text
        self._sentences = sentences
        self._suspects = sorted(suspects)
        self._suspect_ends = [end for _, end in self._suspects]

    def find_exactly(self, quote: Quote) -> Iterator[_Place]:
        yield from self._whole(_occurrences(quote.text, self.text), len(quote.text), None)

    def find_folded(self, quote: Quote) -> Iterator[_Place]:
        """Yield matches after folding, and then without markup on either side."""
        for form in quote.folded:
            yield from self._whole(_occurrences(form, self._folded.text), len(form), self._folded)
        if self._stripped is self._folded and quote.bare == quote.folded:
            return
        for form in quote.bare:
            yield from self._whole(_occurrences(form, self._stripped.text), len(form), self._stripped)

    def find_parts(self, quote: Quote) -> Iterator[_Place]:
        """Yield spans from the first to the last part of a quote with ellipses, in order and near each other."""
        if not quote.parts:
            return
        view, (head, *tail) = self._stripped, quote.parts
        for start in _occurrences(head, view.text):
            end = start + len(head)
            for part in tail:
                at = view.text.find(part, end, end + _MAX_GAP_CHARACTERS + len(part))
                if at < 0:
                    break
                end = at + len(part)
            else:
                yield from self._whole(iter((start,)), end - start, view)

    def find_nearly(self, quote: Quote) -> Iterator[_Place]:
        """Yield fuzzy matches that keep every number, negation and reversing word."""
        wanted = quote.bare[-1]
        if len(wanted) > _MAX_FUZZY_CHARACTERS:
            return
        view = self._stripped
        for start, end in self._aligner.align(wanted):
            passage = view.text[start:end]
            if same_numbers(wanted, passage) and not is_turned(wanted, passage):
                yield from self._whole(iter((start,)), end - start, view)

    def is_instruction(self, place: _Place) -> bool:
        """Return True if less than half of the stretch, or nothing with content, is outside of instructions."""
        start, end = place
        left, at = [], start
        for number in range(bisect_right(self._suspect_ends, start), len(self._suspects)):
            first, last = self._suspects[number]
            if first >= end:
                break
            left.append(self.text[at : max(at, first)])
            at = min(end, last)
        rest = "".join([*left, self.text[at:end]])
        return at > start and (2 * len(rest.strip()) < end - start or not says_something(rest))

    def sentences_around(self, place: _Place, *, reach: int) -> str:
        """Return the sentences that the place touches, and `reach` more on either side."""
        sentences = self._sentences
        first = bisect_right(sentences, place[0], key=lambda sentence: sentence.end)
        after = bisect_left(sentences, place[1], key=lambda sentence: sentence.start)
        if first >= after:
            return self.text[place[0] : place[1]]
        # a text without stops is one long sentence
        begin = max(sentences[max(0, first - reach)].start, place[0] - _NEIGHBOURHOOD_CHARACTERS)
        end = min(sentences[min(len(sentences), after + reach) - 1].end, place[1] + _NEIGHBOURHOOD_CHARACTERS)
        return self.text[min(begin, place[0]) : max(end, place[1])]

    @cached_property
    def _folded(self) -> View:
        return fold(plain(self.text))

    @cached_property
    def _stripped(self) -> View:
        bare = strip_markup(plain(self.text))
        return self._folded if bare.text == self.text else fold(bare)

    @cached_property
    def _aligner(self) -> Aligner:
        return Aligner(self._stripped)

    def _whole(self, starts: Iterator[int], length: int, view: View | None) -> Iterator[_Place]:
        for start in starts:
            place = view.place(start, start + length) if view else (start, start + length)
            if self.text[place[1] - 1] in ".," and _is_inside_number(self.text, place[1]):
                # The judge cut its quote behind "3." of "3.2": what stands before that number is its quote.
                said = self.text[slice(*place)].rstrip("0123456789.,")
                place = (place[0], place[0] + len(said)) if says_something(said) else place
            if not (_is_inside_number(self.text, place[0]) or _is_inside_number(self.text, place[1])):
                yield place


class EvidenceSearch:
    """Search for quotes in the contexts of one sample; safe for any number of threads.

    Args:
        suspects: (context, start, end) of stretches that read like instructions to a judge: a quote is rather found
            elsewhere. Those of one context do not overlap.
        sentences, index: of each context, and their words, where they are known.
        question: its names and amounts are not made up.
        without_marks: returns words of the answer without its citation marks.
    """

    def __init__(
        self,
        contexts: Sequence[str],
        *,
        suspects: Sequence[tuple[int, int, int]] = (),
        sentences: Sequence[Sequence[Sentence]] | None = None,
        index: ContextIndex | None = None,
        question: str = "",
        without_marks: Callable[[str], str] = str,
    ) -> None:
        self.texts = tuple(contexts)
        self.question = question
        self.without_marks = without_marks
        suspects_by_context: dict[int, list[_Place]] = {}
        for context, start, end in suspects:
            suspects_by_context.setdefault(context, []).append((start, end))
        if sentences is None:
            sentences = [split_sentences(text) for text in contexts]
        self._contexts = [
            SearchableContext(text, suspects_by_context.get(i, ()), spans)
            for i, (text, spans) in enumerate(zip(contexts, sentences, strict=True))
        ]
        self.index = ContextIndex(sentences) if index is None else index

    def locate(self, quote: str, *, context: int | None = None) -> Evidence | None:
        """Find a quote in any context, or in the one of that index alone; None for an empty quote.

        Looked for as it is, then after folding (NFKD, case, quote marks, dashes, white space, hidden characters), then
        without markup, then part by part around an ellipsis, then by an alignment of at least 0.9 with every number
        and negation in place. A quote that cuts a number ("5 million" in "15 million") is not there.
        """
        if not quote.strip():
            return None
        found: Evidence | None = None
        for index, place in islice(self._places(quote, context), _MAX_OCCURRENCES):
            is_instruction = self._contexts[index].is_instruction(place)
            if found is None or not is_instruction:
                found = Evidence(index, self.texts[index][place[0] : place[1]], *place, verified=True)
            if not is_instruction:
                break
        return found or Evidence(None, quote, None, None, verified=False)

    def stands_verbatim(self, quote: str) -> bool:
        """Return True if some context has the quote letter for letter, so that `locate` is quick as a rule."""
        wanted = quote.strip()
        return any(wanted in text for text in self.texts)

    def is_instruction(self, context: int, sentence: Sentence) -> bool:
        return self._contexts[context].is_instruction((sentence.start, sentence.end))

    def stands_in_instruction(self, evidence: Evidence) -> bool:
        """Return True if verified evidence is text that reads like an instruction to a judge."""
        if evidence.context is None or evidence.start is None or evidence.end is None:
            return False
        return self._contexts[evidence.context].is_instruction((evidence.start, evidence.end))

    def around(self, evidence: Evidence, *, reach: int) -> str:
        """Return the sentences of the context that verified evidence touches, and `reach` more on either side."""
        if evidence.context is None or evidence.start is None or evidence.end is None:
            return ""
        return self._contexts[evidence.context].sentences_around((evidence.start, evidence.end), reach=reach)

    @cached_property
    def facts(self) -> Facts:
        return facts_in("\n".join(self.texts))

    @cached_property
    def names(self) -> KnownNames:
        words = frozenset(split_words(self.question).every).union(*(words.every for words in self.index.words))
        return KnownNames(words, [self.question, *self.texts])

    def _places(self, quote: str, context: int | None) -> Iterator[tuple[int, _Place]]:
        if not says_something(quote):
            return
        sought = Quote(quote)
        searched = range(len(self._contexts)) if context is None else (context,)
        for find in (
            SearchableContext.find_exactly,
            SearchableContext.find_folded,
            SearchableContext.find_parts,
            SearchableContext.find_nearly,
        ):
            for index in searched:
                yield from ((index, place) for place in within_deadline(find(self._contexts[index], sought)))


def _occurrences(wanted: str, text: str) -> Iterator[int]:
    start = text.find(wanted) if wanted else -1
    for _ in range(min(_MAX_OCCURRENCES, _MAX_CHARACTERS_TRIED // max(1, len(wanted)) + 1)):
        if start < 0:
            return
        yield start
        start = text.find(wanted, start + 1)


def _is_inside_number(text: str, place: int) -> bool:
    """Return True if a number continues over this place, its decimals and thousands included."""
    before, after = text[max(0, place - 2) : place], text[place : place + 2]
    if not before or not after:
        return False
    left = before[:-1] if before[-1] in ".," and after[0] not in ".," else before[-1]
    right = after[1:] if after[0] in ".," else after[0]
    return left.isdigit() and right.isdigit()
