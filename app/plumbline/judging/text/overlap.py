"""Index of the contexts' content words, and context utilization measured with it."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.structured import header_positions, read_rows
from plumbline.judging.text.words import Passage, Words, content_words, split_words

# Bounds on the work for one answer sentence, so that hostile text cannot make it quadratic. A sentence whose words
# stand in fewer places than the first is looked up exactly; beyond it the rarest words name the candidates.
_MAX_POSTINGS_READ = 4_000
_MAX_CANDIDATES = 32


@dataclass(frozen=True, slots=True)
class Match:
    """Context sentence that covers an answer sentence best.

    `share` in [0, 1] of its content words; `is_verbatim`: it contains the whole of it, after normalisation.
    """

    context: int
    sentence: Sentence
    share: float
    is_verbatim: bool


class ContextIndex:
    """Words (`words[row]`) of every context sentence (`places[row]`, with the number of its context); immutable.

    `texts[row]` is what it says; `readings`: of each context, by position, where that is not its text.
    """

    def __init__(self, contexts: Sequence[Sequence[Sentence]], readings: Sequence[Mapping[int, str]] = ()) -> None:
        self.readings = dict(enumerate(readings))
        self.texts: list[str] = []
        self.places: list[tuple[int, Sentence]] = []
        self.words: list[Words] = []
        self._distinct: list[frozenset[str]] = []
        self._postings: dict[str, list[int]] = defaultdict(list)
        self._passages: dict[int, Passage] = {}
        for context, sentences in enumerate(contexts):
            # A row says what it says under its header.
            headers = header_positions(sentences)
            rows = read_rows(sentences, headers) if headers else {}
            said = self.readings.get(context, {})
            for position, sentence in enumerate(within_deadline(sentences)):
                text = said.get(position, sentence.text)
                words, row = split_words(rows.get(position, text)), len(self.places)
                distinct = frozenset(words.content)
                for word in distinct:
                    self._postings[word].append(row)
                self.texts.append(text)
                self.places.append((context, sentence))
                self.words.append(words)
                self._distinct.append(distinct)

    @property
    def structured(self) -> Iterator[str]:
        """Yield what the lines of structured contexts say."""
        for said in self.readings.values():
            yield from said.values()

    def __contains__(self, word: object) -> bool:
        return word in self._postings

    def holds(self, row: int, text: str) -> bool:
        """Return True if the sentence of that row contains the text verbatim, as `Passage.contains` says."""
        passage = self._passages.get(row)
        if passage is None:
            passage = self._passages[row] = Passage(self.places[row][1].text)
        return passage.contains(text)

    def best_share(self, words: Collection[str]) -> float:
        """Return the largest share of the words that one context sentence holds, in [0, 1]; 0 for no words."""
        distinct = frozenset(words)
        return max(self._candidates(distinct).values(), default=0) / len(distinct) if distinct else 0.0

    def best_match(self, text: str, words: Collection[str]) -> Match | None:
        """Return the context sentence that covers most of the words, verbatim ones first; None when none has any."""
        distinct = frozenset(words)
        candidates = self._candidates(distinct)
        if not candidates:
            return None
        top = max(candidates.values())
        best = sorted(row for row, count in candidates.items() if count == top)[:_MAX_CANDIDATES]
        share = top / len(distinct)
        verbatim = next((row for row in best if share == 1.0 and self.holds(row, text)), None)
        context, sentence = self.places[best[0] if verbatim is None else verbatim]
        return Match(context, sentence, share, verbatim is not None)

    def _candidates(self, words: frozenset[str]) -> dict[int, int]:
        """Count the words shared with each candidate row; exact for every row returned."""
        shared: Counter[int] = Counter()
        read = 0
        known = sorted((word for word in words if word in self._postings), key=lambda w: (len(self._postings[w]), w))
        for word in known:
            postings = self._postings[word]
            if read and read + len(postings) > _MAX_POSTINGS_READ:
                return {row: len(words & self._distinct[row]) for row, _ in shared.most_common(_MAX_CANDIDATES)}
            shared.update(postings[:_MAX_POSTINGS_READ])
            read += len(postings)
        return shared


# Our reading of seed 4's "contains": 1.0 would be containment, which one changed word breaks, and a sentence that joins
# two of its source rarely has more than half of its words in either.
RELATED_SHARE = 0.5


def context_utilization(sentences: Sequence[Sentence], index: ContextIndex) -> float | None:
    """Return the share of the answer's sentences that are related to a context sentence, in [0, 1]; None without any.

    Related: one context sentence holds at least `RELATED_SHARE` of the sentence's content words after normalisation
    (NFKC, case, punctuation, white space, stopwords; Chinese as character bigrams). Markup is not
    a sentence here. After seed 4, "Context Utilization".
    """
    spoken = [sentence for sentence in sentences if sentence.kind != "markup"]
    if not spoken:
        return None
    shares = [index.best_share(content_words(sentence.text)) for sentence in spoken]
    return sum(share >= RELATED_SHARE for share in shares) / len(spoken)
