"""A sample cut into sentences once for every tier: words of the contexts, and assertions of the answer's sentences."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases
from plumbline.judging.text.blocks import LIST_MARKER, has_word
from plumbline.judging.text.boilerplate import strip_boilerplate
from plumbline.judging.text.checkable import checkable_positions, declines, name_missing
from plumbline.judging.text.citation_marks import FoundMarks, find_marks, strip_marks
from plumbline.judging.text.gram_cover import MAX_CANDIDATES, count_shared
from plumbline.judging.text.refusals import is_answered
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import Sentence, split_sentences
from plumbline.judging.text.short_answers import question_assertions, says_yes_or_no
from plumbline.judging.text.structured import (
    Flag,
    TableRow,
    header_positions,
    read_members,
    read_table,
    split_context,
)
from plumbline.judging.text.words import (
    CITATION_MARK,
    STEM,
    Language,
    Passage,
    Words,
    content_words,
    detect_language,
    is_han,
    is_in_a_language,
    split_tokens,
    split_words,
)

# Bounds on the work for one answer sentence, so that hostile text cannot make it quadratic. A sentence whose words
# stand in fewer places than the first is looked up exactly; beyond it the rarest words name the candidates.
_MAX_POSTINGS_READ = 4_000


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

    `texts[row]` is what it says; `readings`: of each context, by position, where that is not its text; `flags`: of each
    context, the values that affirm or deny their key; `tables`: rows of Markdown tables.
    """

    def __init__(
        self,
        contexts: Sequence[Sequence[Sentence]],
        readings: Sequence[Mapping[int, str]] = (),
        *,
        flags: Sequence[Sequence[Flag]] = (),
        words_by_text: dict[str, Words] | None = None,
    ) -> None:
        self.readings = dict(enumerate(readings))
        self.flags = dict(enumerate(flags))
        self.tables: list[TableRow] = []
        # Words of each text that was split for this sample.
        self.words_by_text: dict[str, Words] = {} if words_by_text is None else words_by_text
        self.texts: list[str] = []
        self.places: list[tuple[int, Sentence]] = []
        self.words: list[Words] = []
        self._distinct: list[frozenset[str]] = []
        self.rows: dict[int, str] = {}
        self._postings: dict[str, list[int]] = defaultdict(list)
        self._passages: dict[int, Passage] = {}
        for context, sentences in enumerate(contexts):
            # A row says what it says under its header.
            headers = header_positions(sentences)
            table = read_table(sentences, headers) if headers else {}
            self.tables += [row for row in table.values() if row.cells]
            rows = {position: row.text for position, row in table.items()}
            said = self.readings.get(context, {})
            for position, sentence in enumerate(within_deadline(sentences)):
                text = said.get(position, sentence.text)
                words, row = self.split_words(rows.get(position, text)), len(self.places)
                if position in rows:
                    self.rows[row] = rows[position]
                distinct = frozenset(words.content)
                for word in distinct:
                    self._postings[word].append(row)
                self.texts.append(text)
                self.places.append((context, sentence))
                self.words.append(words)
                self._distinct.append(distinct)

    def split_words(self, text: str) -> Words:
        """Return the words of a text of the sample, which is split once."""
        words = self.words_by_text.get(text)
        if words is None:
            words = self.words_by_text[text] = split_words(text)
        return words

    @property
    def lines(self) -> list[str]:
        """Return what the sentences say, those of tables under their headers."""
        return [self.rows.get(row, text) for row, text in enumerate(self.texts)]

    @property
    def structured(self) -> Iterator[str]:
        """Yield what the lines of structured contexts say."""
        for said in self.readings.values():
            yield from said.values()

    def __contains__(self, word: object) -> bool:
        return word in self._postings

    def passage(self, row: int) -> Passage:
        """Return the sentence of that row as a text in which copies are looked for."""
        passage = self._passages.get(row)
        if passage is None:
            passage = self._passages[row] = Passage(self.places[row][1].text)
        return passage

    def best_share(self, words: Collection[str]) -> float:
        """Return the largest share of the words that one context sentence holds, in [0, 1]; 0 for no words."""
        distinct = frozenset(words)
        return max(self._candidates(distinct).values(), default=0) / len(distinct) if distinct else 0.0

    def near(self, words: Collection[str]) -> list[str]:
        """Return what the sentences with most of the words say, a few of them."""
        return [self.texts[row] for row, _ in Counter(self._candidates(frozenset(words))).most_common(MAX_CANDIDATES)]

    def best_match(self, text: str, words: Collection[str]) -> Match | None:
        """Return the context sentence that covers most of the words, verbatim ones first; None when none has any."""
        distinct = frozenset(words)
        candidates = self._candidates(distinct)
        if not candidates:
            return None
        top = max(candidates.values())
        best = sorted(row for row, count in candidates.items() if count == top)[:MAX_CANDIDATES]
        share = top / len(distinct)
        verbatim = next((row for row in best if share == 1.0 and self.passage(row).contains(text)), None)
        context, sentence = self.places[best[0] if verbatim is None else verbatim]
        return Match(context, sentence, share, verbatim is not None)

    def _candidates(self, words: frozenset[str]) -> Mapping[int, int]:
        return count_shared(words, self._postings, self._distinct, limit=_MAX_POSTINGS_READ)


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
    shares = [index.best_share(index.split_words(sentence.text).content) for sentence in spoken]
    return sum(share >= RELATED_SHARE for share in shares) / len(spoken)


_MAY_BE_MARKED = re.compile(r"[*_`#>\[【<(（~|¹²³⁰⁴-⁹]")
_HEADING_OR_QUOTE = re.compile(r"\s*(?:>\s?){0,8}(?:#{1,6}\s+)?")
_CHECKBOX = re.compile(r"\[[ xX✓]\]\s")
_FENCE_LINE = re.compile(r"^[ \t>]{0,8}(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{1,500}(?:\s\"[^\"\n]{0,200}\")?\)")
_NOISE = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9]{0,9}(?:\s[^<>]{0,200})?/?>|\*{1,3}|__|~~|`+"
    rf"|{CITATION_MARK}|(?<=[.。,，;；!?！？”\"）)])[¹²³⁰⁴-⁹]{{1,4}}"
)
_MAY_BE_NUMBERED = re.compile(r"\d(?:(?<=[a-z#.] \d)|(?<=#\d)|(?<=[料档段落源]\d)|(?<=[料档段落源] \d))", re.IGNORECASE)
_LAYOUT = Phrases("judging/text/layout")
_SOURCE_NOUNS = _LAYOUT.words("sources.nouns")
_NUMBERED_SOURCE = re.compile(_LAYOUT.pattern("sources.numbered"), re.IGNORECASE)


def question_stems(question: str) -> frozenset[str]:
    """Return the words of a question up to five characters, and its Chinese characters one by one."""
    stems: set[str] = set()
    for token in split_tokens(question):
        stems.update(token if is_han(token) else (token[:STEM],))
    return frozenset(stems)


def _plain(text: str, sentence: Sentence) -> str:
    """Return the text without the marks of Markdown and of citations."""
    if sentence.kind == "code":
        body = _FENCE_LINE.sub("", text).strip()
        return body or text
    start = _HEADING_OR_QUOTE.match(text)
    at = start.end() if start else 0
    marker = LIST_MARKER.match(text, at)
    if marker and has_word(text, marker.end(), len(text)):
        at = marker.end()
    plain = text[at:].strip()
    if _MAY_BE_MARKED.search(plain):
        plain = _NOISE.sub(" ", _LINK.sub(r"\1", _CHECKBOX.sub("", plain, count=1))).strip()
    if _MAY_BE_NUMBERED.search(plain) and (not plain.isascii() or any(map(plain.lower().__contains__, _SOURCE_NOUNS))):
        plain = _NUMBERED_SOURCE.sub(r"\1", plain)
    return plain if has_word(plain, 0, len(plain)) else text


@dataclass(frozen=True)
class SegmentedSample:
    """A sample with the sentences of its answer and of each of its contexts.

    `sentences` holds every span of the answer in order, markup included; `context_sentences[i]` those of context i.
    `checkable` are the positions of the sentences that assert something, `answered_refusals` those of them that say
    that the contexts lack what they have. `index` holds the contexts' words, `stems` those of the question.
    `language` is that of the answer, or of the contexts when the answer has no letters ("42").
    """

    source: Sample
    sentences: tuple[Sentence, ...]
    context_sentences: tuple[tuple[Sentence, ...], ...]
    checkable: tuple[int, ...]
    index: ContextIndex
    language: Language
    stems: frozenset[str] = field(default=frozenset(), repr=False)
    answered_refusals: frozenset[int] = frozenset()

    @cached_property
    def marks(self) -> FoundMarks:
        """Return the citation marks of the answer, their base left to find."""
        return find_marks(self.source, self.sentences)

    def without_marks(self, text: str) -> str:
        """Return words of the answer without its citation marks: their numbers and names are no claims."""
        return strip_marks(text, self.marks.texts) if self.marks.texts else text

    @cached_property
    def assertions(self) -> tuple[str, ...]:
        """Return what each checkable sentence asserts: tiers without a judge compare that, a judge reads sentences.

        Left out: marks of lists, headings, emphasis, links and citations; openers; the syntax of JSON. A table row is
        read with its header, "Yes." and "No." with the question. A sentence of which nothing would be left is returned
        whole.
        """
        sentences: Sequence[Sentence] = self.sentences
        if self.marks.texts:
            sentences = [each._replace(text=self.without_marks(each.text)) for each in within_deadline(sentences)]
        rows = read_table(sentences, header_positions(sentences))
        asked: dict[bool, str] | None = None
        found = []
        for position in within_deadline(self.checkable):
            sentence = sentences[position]
            source = _FENCE_LINE.sub("", sentence.text) if sentence.kind == "code" else sentence.text
            if members := read_members(source):
                found.append(members)
                continue
            said = rows[position].text if position in rows else sentence.text
            is_yes = says_yes_or_no(plain := _plain(said, sentence))
            if is_yes is not None and asked is None:
                asked = question_assertions(self.source.question)
            if is_yes is not None and asked:
                found.append(asked[is_yes])
                continue
            text = strip_boilerplate(plain, self.stems)
            found.append(text.strip() if has_word(text, 0, len(text)) else sentence.text)
        return tuple(found)

    @property
    def is_empty(self) -> bool:
        """Return True if the answer holds no letter and no digit."""
        return all(sentence.kind == "markup" for sentence in self.sentences)

    @property
    def has_context(self) -> bool:
        """Return True if any context holds a letter or a digit."""
        return any(sentence.kind != "markup" for sentences in self.context_sentences for sentence in sentences)

    @property
    def needs_judge(self) -> bool:
        return not self.is_empty and bool(self.checkable) and self.has_context


def restrict_to_contexts(case: SegmentedSample, contexts: Sequence[int]) -> SegmentedSample:
    """Return the sample with some of its contexts alone, by their indices."""
    kept = tuple(case.context_sentences[index] for index in contexts)
    source = replace(case.source, contexts=tuple(case.source.contexts[index] for index in contexts), context_labels=())
    readings = [case.index.readings.get(index, {}) for index in contexts]
    flags = [case.index.flags.get(index, ()) for index in contexts]
    index = ContextIndex(kept, readings, flags=flags, words_by_text=case.index.words_by_text)
    return replace(case, source=source, context_sentences=kept, index=index)


def segment(sample: Sample) -> SegmentedSample:
    """Split the texts of a sample into sentences; linear in their length. Raises TierFailure `timeout`."""
    sentences = split_sentences(sample.answer)
    speaking = sample.answer if is_in_a_language(sample.answer) else " ".join(sample.contexts)
    split = [split_context(context, lead=labels.lead) for context, labels in sample.labelled_contexts]
    context_sentences = tuple(each.sentences for each in split)
    index = ContextIndex(context_sentences, [each.readings for each in split], flags=[each.flags for each in split])
    stems = question_stems(sample.question)
    checkable = checkable_positions(sentences, stems, index)
    said = [position for position in checkable if says_yes_or_no(sentences[position].text) is not None]
    if said and not question_assertions(sample.question):
        # "Yes." in answer to nothing
        checkable = tuple(position for position in checkable if position not in said)
    refusals = [] if checkable else [place for place, each in enumerate(sentences) if declines(each)]
    answered = frozenset(
        position
        for position in within_deadline(refusals)
        for asked in (sample.question, name_missing(sentences[position].text))
        if asked and is_answered(asked, index.near(content_words(asked)))
    )
    return SegmentedSample(
        source=sample,
        sentences=sentences,
        context_sentences=context_sentences,
        checkable=checkable or tuple(sorted(answered)),
        index=index,
        language=detect_language(speaking),
        stems=stems,
        answered_refusals=answered,
    )
