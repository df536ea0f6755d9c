"""A sample cut into sentences once for every tier."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from plumbline.judging.text.assertions import find_assertions, question_stems
from plumbline.judging.text.checkable import checkable_positions
from plumbline.judging.text.overlap import ContextIndex
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import Sentence, split_sentences
from plumbline.judging.text.structured import split_context
from plumbline.judging.text.words import Language, detect_language, has_letters


@dataclass(frozen=True)
class SegmentedSample:
    """A sample with the sentences of its answer and of each of its contexts.

    `sentences` holds every span of the answer in order, markup included; `context_sentences[i]` those of context i.
    `checkable` are the positions of the sentences that assert something. `index` holds the contexts' words, `stems`
    those of the question.
    `language` is that of the answer, or of the contexts when the answer has no letters ("42").
    """

    source: Sample
    sentences: tuple[Sentence, ...]
    context_sentences: tuple[tuple[Sentence, ...], ...]
    checkable: tuple[int, ...]
    index: ContextIndex
    language: Language
    stems: frozenset[str] = field(default=frozenset(), repr=False)

    @cached_property
    def assertions(self) -> tuple[str, ...]:
        """Return what each checkable sentence asserts: tiers without a judge compare that, a judge reads sentences."""
        return find_assertions(self.source, self.sentences, self.checkable, self.index, self.stems)

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
    return replace(
        case,
        source=source,
        context_sentences=kept,
        index=ContextIndex(kept, [case.index.readings.get(index, {}) for index in contexts]),
    )


def unread(sample: Sample) -> SegmentedSample:
    """Return an unsplit sample, for one whose deadline passed before its texts were split."""
    return SegmentedSample(sample, (), (), (), ContextIndex(()), "en")


def segment(sample: Sample) -> SegmentedSample:
    """Split the texts of a sample into sentences; linear in their length. Raises TierFailure `timeout`."""
    sentences = split_sentences(sample.answer)
    speaking = sample.answer if has_letters(sample.answer) else " ".join(sample.contexts)
    split = [split_context(context, lead=labels.lead) for context, labels in sample.labelled_contexts]
    context_sentences = tuple(each.sentences for each in split)
    index = ContextIndex(context_sentences, [each.readings for each in split])
    stems = question_stems(sample.question)
    return SegmentedSample(
        source=sample,
        sentences=sentences,
        context_sentences=context_sentences,
        checkable=checkable_positions(sentences, stems, index),
        index=index,
        language=detect_language(speaking),
        stems=stems,
    )
