"""Lexical features of each checkable sentence: how far the wording of the contexts covers it.

Chosen on human labels, every dataset left out once; docs/explanation/agreement.md says what each is worth.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice, pairwise
from statistics import fmean

from plumbline.ground.deadline import within_deadline
from plumbline.judging.quantities.context_amounts import ContextAmounts
from plumbline.judging.quantities.numerals import han_to_digits
from plumbline.judging.text import negation
from plumbline.judging.text.gram_cover import Cover, cover
from plumbline.judging.text.identifiers import KnownIdentifiers
from plumbline.judging.text.names import KnownNames, find_unknown_han
from plumbline.judging.text.open_clauses import has_open_clause, leaves_out_condition
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.structured_facts import StructuredFacts
from plumbline.judging.text.verdicts import Evidence
from plumbline.judging.text.words import (
    COMMON_CHARACTERS,
    FUNCTION_CHARACTERS,
    STEM,
    Words,
    split_characters,
    split_words,
    to_simplified,
)

# By name; the first says most by itself.
WORD_MEASURES = ("character_coverage", "near_pairs", "unknown_names", "unknown_numbers", "negation")
CHARACTER_MEASURES = ("characters", "unknown_names", "unknown_numbers", "negation")
# Measures that forbid `supported`, however much of the wording the contexts have: support is then below one half.
# On dev 90 % of the answers with a missing quantity and 82 % of those with a missing name are unfaithful, and .2 % of
# the faithful ones have a negation.
DOUBTS = ("unknown_names", "unknown_numbers", "negation")

# Beyond these counts one more says nothing new.
_MAX_NAMES = 3
_MAX_NUMBERS = 2
# Sentences with most of an answer's words that are compared with it for a negation.
_MAX_COMPARED = 3
# So few are calculated with together.
_FEW_LINES = 8
# A longer one is no sentence, and would be gone over for each sentence of the answer.
_LONGEST_COMPARED = 2_000
# Others with a negation that it may go against.
_MAX_DENYING = 16
_CHARACTERS_IN_GRAM = 4
# A text with more in common is on the contexts' subject anyway.
_RELATED = 0.75
# "All", "each", "only", "most": common as they are, a claim that has one and no context is often one that overstates.
_OVERSTATING = frozenset("都全每只最更必")
_WEIGHTLESS = FUNCTION_CHARACTERS - _OVERSTATING
_LIGHT = (COMMON_CHARACTERS | FUNCTION_CHARACTERS) - _OVERSTATING
# -ln(this - share): the last pairs weigh more than the first, and all of them is 3, not infinity.
_ABOVE_ALL = 1.05
# Runs of this many words, or Chinese characters, tell copied text from text on the same subject.
_UNITS_IN_RUN = 4
_NO_RUNS = (False,) * (_UNITS_IN_RUN - 1)


@dataclass(frozen=True, slots=True)
class Finding:
    """Measures of one sentence by name, and the most similar place in the contexts.

    `is_copy`: the place holds the sentence word for word; `unknown_names`, `unknown_numbers`: what no context has;
    `copied`: share in [0, 1] of its runs of four words, or of Chinese characters in such runs, that contexts have;
    `hard_reasons`: identifiers that no context has, and keys that structured contexts deny; `open_reasons`: codes of
    what forbids to pass the sentence as a copy, a clause that nothing covers or a condition left out. `rows`: the few
    sentences of the index that hold most of it, shortest first; `is_whole`: they hold all of it; `is_related`: the
    contexts have an amount of it, so that it is on their subject, however few of its words they have. Of a detector:
    `is_denied`, the contexts say the opposite; `unsupported_words` that it marked, with their characters.
    """

    measures: Mapping[str, float]
    evidence: Evidence | None = None
    is_copy: bool = False
    unknown_names: tuple[str, ...] = ()
    unknown_numbers: tuple[str, ...] = ()
    copied: float = 0.0
    is_denied: bool = False
    unsupported_words: tuple[str, ...] = ()
    hard_reasons: tuple[str, ...] = ()
    open_reasons: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    is_whole: bool = False
    is_related: bool = False

    @property
    def is_doubted(self) -> bool:
        return not self.is_copy and is_doubted(self.measures)


def is_doubted(measures: Mapping[str, float]) -> bool:
    """Return True if a measure forbids the verdict `supported`."""
    return any(measures.get(name, 0.0) for name in DOUBTS)


def measure_lexical_features(sample: SegmentedSample) -> dict[int, Finding]:
    """Measure the wording of each checkable sentence, by its position.

    English, and every language without measures of its own:
        `character_coverage` in [0, 1]: share of the distinct runs of four characters (words joined by single blanks)
            found in any context sentence, and in the best one: the mean of both.
        `near_pairs` in [-0.05, 3]: share of the neighbouring content words that stand near each other in a context
            sentence, as -ln(1.05 - share).
        `unknown_names` in [0, 3], `unknown_numbers` in [0, 2]: how many names, and how many amounts, dates and times,
            the contexts do not have.
        `negation` in {0, 1}: it repeats the sentences that hold most of it, or a clause of theirs, but for a negation.
    Chinese:
        `characters` in [0, 1]: share of the distinct characters in the best sentence, function characters apart; the
            commonest count half.
        `unknown_names` in [0, 3]: how many runs of characters that neither contexts nor question have have three
            uncommon ones: a name, most often.
        `unknown_numbers`, `negation`: as above.
    """
    return dict(zip(sample.checkable, KnownPassages(sample).measure(sample.assertions), strict=True))


class KnownPassages:
    """Distinct sentences of the contexts, shortest first, so that neither order nor repeats of contexts count."""

    def __init__(self, sample: SegmentedSample) -> None:
        self._by_language = _by_characters if sample.language == "zh" else _by_words
        self.index = index = sample.index
        rows: dict[str, int] = {}
        for row, text in enumerate(index.texts):
            rows.setdefault(text, row)
        self.texts = sorted(rows, key=lambda text: (len(text), text))
        self.rows = [rows[text] for text in self.texts]
        self.words = [index.words[row] for row in self.rows]
        self.vocabulary = frozenset().union(*(words.every for words in self.words))
        self.question = question = sample.source.question
        contexts = sample.source.contexts
        self.names = KnownNames(self.vocabulary, contexts, answer=sample.source.answer)
        self.asked_names = KnownNames(split_words(question).every, [question])
        self.amounts = ContextAmounts(contexts, index.lines, question)
        labels = [name for label in sample.source.context_labels for name in label.names]
        self._identifiers = KnownIdentifiers([question, *contexts, *labels])
        # Where a link leads to is no word of the sentence, and compared all the same.
        written = (sample.without_marks(sample.sentences[position].text) for position in sample.checkable)
        self._written = dict(zip(sample.assertions, written, strict=True))
        flags = [flag for each in index.flags.values() for flag in each]
        self._facts = StructuredFacts(index.structured, index.tables, flags)
        self._split_clauses = cache(lambda text: list(negation.split_clauses(text)))

    def measure(self, texts: Sequence[str]) -> list[Finding]:
        """Measure texts against the passages, as `measure_lexical_features` does the sentences of a sample."""
        return self._by_language(texts, self) if texts else []

    def features(
        self,
        text: str,
        measures: Mapping[str, float],
        covered: Cover,
        *,
        content: Sequence[str] | None = None,
        names: tuple[str, ...] = (),
        copied: float = 0.0,
    ) -> Finding:
        """Return the features of a sentence: its measures of wording, and those that any language has.

        `content`: its words of content, where they are known.
        """
        rows = tuple(self.rows[number] for number in covered.rows)
        best = [self.texts[number] for number in covered.rows[:_MAX_COMPARED]]
        identifiers = self._identifiers.find_unknown(self._written.get(text, text))
        missing = self.amounts.find_missing(text, self._surroundings(rows))
        numbers = (*missing, *self._facts.find_misplaced(text), *identifiers)
        best = [passage for passage in best if len(passage) <= _LONGEST_COMPARED]
        denied = self._facts.find_denied(text)
        is_open = {
            "clause_not_covered": covered.best < 1.0 and has_open_clause(text, self.index.best_share),
            "condition_left_out": any(leaves_out_condition(text, each) for each in best[:1]),
        }
        counted = {
            "unknown_numbers": float(min(_MAX_NUMBERS, len(numbers))),
            "negation": float(bool(denied) or self._is_denied(text, content, best)),
        }
        return Finding(
            {**measures, **counted},
            unknown_names=names,
            unknown_numbers=numbers,
            copied=copied,
            hard_reasons=(*identifiers, *denied),
            open_reasons=tuple(name for name, is_so in is_open.items() if is_so),
            rows=rows,
            is_whole=covered.best == 1.0,
            is_related=covered.best < _RELATED and not numbers and self.amounts.shares_amount(text),
        )

    def _surroundings(self, rows: Sequence[int]) -> list[str]:
        """Return the sentences that hold most of another, those next to them, or all of a short context."""
        lines = self.index.lines
        if len(lines) <= _FEW_LINES:
            return lines
        near = {near for row in rows[:_MAX_COMPARED] for near in (row - 1, row, row + 1) if 0 <= near < len(lines)}
        return [lines[row] for row in sorted(near)]

    @cached_property
    def _denying(self) -> list[tuple[str, frozenset[str]]]:
        """Return the passages that may deny a sentence, with the stems of their words."""
        denying = ((text, words) for text, words in zip(self.texts, self.words, strict=True) if negation.may_deny(text))
        short = (each for each in denying if len(each[0]) <= _LONGEST_COMPARED)
        return [(text, frozenset(word[:STEM] for word in words.content)) for text, words in islice(short, _MAX_DENYING)]

    def _is_denied(self, text: str, content: Sequence[str] | None, best: list[str]) -> bool:
        if len(text) > _LONGEST_COMPARED:
            return False
        near = best
        if not negation.may_deny(text):
            words = {word[:STEM] for word in content or split_words(text).content} if self._denying else set()
            near = [other for other, stems in self._denying if len(words & stems) >= negation.FEWEST_WORDS]
        if not near:
            return False
        claim = list(negation.split_clauses(text))
        return negation.is_denied(claim, (clause for other in near for clause in self._split_clauses(other)))


def _by_words(texts: Sequence[str], passages: KnownPassages) -> list[Finding]:
    words = [passages.index.split_words(text) for text in within_deadline(texts)]
    covers = cover(
        # One word of one character has no run of four: it is one itself.
        (_word_grams(asked) or frozenset(asked.every) for asked in words),
        (_word_grams(known).union(known.every) for known in passages.words),
    )
    pairs = Cooccurrence((known.content for known in passages.words), (asked.content for asked in words))
    found = []
    runs = _copied_runs([each.every for each in words], [each.every for each in passages.words])
    copies = [sum(each) / max(1, len(each)) for each in runs]
    for text, spoken, covered, copied in within_deadline(zip(texts, words, covers, copies, strict=True)):
        unknown = passages.names.find_unknown(text)
        # A name of the question is not made up, and proves nothing either.
        names = tuple(name for name in passages.asked_names.find_unknown(text) if name in unknown) if unknown else ()
        measures = {
            "character_coverage": (covered.anywhere + covered.best) / 2,
            "near_pairs": -math.log(_ABOVE_ALL - pairs.share(spoken.content)),
            "unknown_names": float(min(_MAX_NAMES, len(names))),
        }
        found.append(passages.features(text, measures, covered, content=spoken.content, names=names, copied=copied))
    return found


def _copied_runs(asked: Sequence[Sequence[str]], known: Sequence[Sequence[str]]) -> list[list[bool]]:
    """Return which of each text's runs of units stand in a known one; a short text is one run."""
    runs = [list(_runs(units, min(_UNITS_IN_RUN, len(units)))) for units in asked]
    wanted = frozenset(chain.from_iterable(runs))
    copied = set[tuple[Hashable, ...]]()
    for size in {len(run) for run in wanted}:
        for units in within_deadline(known):
            copied |= wanted.intersection(_runs(units, size))
    return [[run in copied for run in each] for each in runs]


def _runs(units: Sequence[Hashable], size: int) -> Iterable[tuple[Hashable, ...]]:
    return zip(*(units[start:] for start in range(size)), strict=False)


def _by_characters(texts: Sequence[str], passages: KnownPassages) -> list[Finding]:
    asked, known = (
        [split_characters(han_to_digits(text)) for text in within_deadline(sentences)]
        for sentences in (texts, passages.texts)
    )
    weighed = (_weigh_characters(units) for units in asked)
    singles = cover((each - _WEIGHTLESS or each for each in weighed), map(_weigh_characters, known))
    pairs = cover((frozenset(pairwise(units)) for units in asked), (frozenset(pairwise(units)) for units in known))
    vocabulary = frozenset(split_characters(passages.question)).union(*known)
    told = to_simplified("\n".join([passages.question, *passages.texts]))
    found = []
    # Where clauses are joined the runs between are new, and 的 or 为 comes and goes: units in a run count.
    kept = ([[unit for unit in units if unit not in _WEIGHTLESS] for units in of] for of in (asked, known))
    copies = [fmean(map(any, _runs([*_NO_RUNS, *runs, *_NO_RUNS], _UNITS_IN_RUN))) for runs in _copied_runs(*kept)]
    for text, single, pair, copied in within_deadline(zip(texts, singles, pairs, copies, strict=True)):
        names = find_unknown_han(han_to_digits(to_simplified(text)), vocabulary, told)
        measures = {
            "characters": single.best,
            "unknown_names": float(min(_MAX_NAMES, len(names))),
        }
        covered = pair if pair.best == 1.0 else single
        found.append(passages.features(text, measures, covered, names=names, copied=copied))
    return found


def _weigh_characters(units: Sequence[str]) -> frozenset[str]:
    """Return the distinct units, and each heavy one once more under another name, so that it counts twice."""
    return frozenset(units).union(f"\0{unit}" for unit in units if unit not in _LIGHT)


def _word_grams(words: Words) -> frozenset[str]:
    text = f" {' '.join(words.every)} "
    return frozenset(text[at : at + _CHARACTERS_IN_GRAM] for at in range(len(text) - _CHARACTERS_IN_GRAM + 1))


# Content words at most this far apart in one sentence of the contexts are near.
_NEAR = 3


class Cooccurrence:
    """Neighbouring content words of sentences, among the words of those asked about; linear in their length."""

    def __init__(self, sentences: Iterable[Sequence[str]], asked: Iterable[Sequence[str]]) -> None:
        wanted = frozenset(word[:STEM] for words in asked for word in words)
        # None: any word that is not asked about.
        self._pairs: set[tuple[str | None, str | None]] = set()
        self._known: set[str | None] = set()
        for words in within_deadline(sentences):
            cuts = [cut if (cut := word[:STEM]) in wanted else None for word in words]
            self._known.update(cuts)
            for distance in range(1, _NEAR + 1):
                self._pairs.update(zip(cuts, cuts[distance:], strict=False))

    def share(self, words: Sequence[str]) -> float:
        """Return the share in [0, 1] of neighbours in `words` near each other; 1 for one known word, 0 for none."""
        cut = [word[:STEM] for word in words]
        pairs = list(pairwise(cut))
        if not pairs:
            return float(self._known.issuperset(cut)) if cut else 0.0
        known, near = self._known, self._pairs
        found = [(a, b) in near or (b, a) in near or (a == b and a in known) for a, b in pairs]
        return sum(found) / len(pairs)
