"""Samples of plain English for benchmarks: made from a seed, or of the sentences of a file; no text comes twice.

A typical sample has 5 contexts of 8 sentences, 184 words, and an answer of 5 sentences that say some of it in
other words. Samples of one shape that are made have as many words, so that they cost the same.
"""

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from benchmarks.prose_words import ADJECTIVES, AGENTS, DEEDS, FORMS, OPENINGS, PARTS, REASONS, SERVICES, THINGS, TOWNS
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import segment

T = TypeVar("T")

CONTEXTS, SENTENCES, ANSWER = 5, 8, 5
# Of the sentences of answers that share most of them: how many there are to choose from.
_POOL = 8
_READABLE_CHARACTERS = range(40, 400)


Wording = Literal["paraphrase", "copy", "report"]


class Statement(NamedTuple):
    """A sentence of a context, and one that says the same in other words."""

    source: str
    paraphrase: str


class Prose:
    """Samples, one after another.

    Args:
        statements: what they are made of; each is used once.
        rows: typical samples that are there already; None: they are made.

    Raises:
        ValueError: of each method: there are no more.
    """

    def __init__(self, statements: Iterator[Statement], rows: Iterator[Sample] | None = None) -> None:
        self._statements = statements
        self._rows = rows

    def typical(self) -> Sample:
        """A sample as most are."""
        if self._rows is None:
            return self.shaped()
        return _all(self._rows, 1)[0]

    def small(self) -> Sample:
        """One context of one sentence, and an answer of one."""
        return self.shaped(1, 1, 1)

    def shaped(
        self,
        contexts: int = CONTEXTS,
        sentences: int = SENTENCES,
        answer: int = ANSWER,
        *,
        wording: Wording = "paraphrase",
    ) -> Sample:
        """So many contexts of so many sentences, and an answer of so many that is true to them.

        Args:
            answer: at most 4 times as many as the contexts have.
            wording: of the answer's sentences: other words, a copy, or a copy after one of `OPENINGS`.
        """
        texts, told = self._contexts(contexts, sentences)
        said = [each.paraphrase if wording == "paraphrase" else each.source for each in _spread(told, answer)]
        openings = OPENINGS[1:] if wording == "report" else OPENINGS
        return _sample(texts, [_opened(opening, sentence) for opening in openings for sentence in said][:answer])

    def sharing(self, answers: int, *, shared: int) -> list[Sample]:
        """So many samples with the same contexts, of whose answers' sentences `shared` come from a common few."""
        texts, told = self._contexts(CONTEXTS, SENTENCES)
        wordings = [_opened(opening, each.paraphrase) for opening in OPENINGS for each in told]
        pool, own = wordings[:_POOL], iter(wordings[_POOL:])
        return [
            _sample(texts, [pool[(number + k) % _POOL] for k in range(shared)] + _all(own, ANSWER - shared))
            for number in range(answers)
        ]

    def _contexts(self, contexts: int, sentences: int) -> tuple[list[str], list[Statement]]:
        told = _all(self._statements, contexts * sentences)
        texts = [
            " ".join(each.source for each in told[start : start + sentences])
            for start in range(0, len(told), sentences)
        ]
        return texts, told


def made_prose(seed: int) -> Prose:
    """Prose of a vocabulary of plain words; the same for the same seed."""
    return Prose(_once(_made(random.Random(seed))))  # noqa: S311


def prose_of(path: Path, seed: int) -> Prose:
    """Prose of the English rows of a JSONL file with `contexts` and `answer`, in an order of the seed.

    Rows that a tier has to judge are the typical samples, as they are; all others are put together of their sentences.
    """
    rows = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row.get("lang", "en") == "en":
                rows.append(Sample("", tuple(row["contexts"]), row["answer"]))
    random.Random(seed).shuffle(rows)  # noqa: S311
    return Prose(_once(_stated(rows)), (row for row in dict.fromkeys(rows) if _is_for_a_tier(row)))


def tier_texts(sample: Sample) -> list[str]:
    """The texts that tier embedding has read: the sentences of the answer, then those of the contexts."""
    case = segment(sample)
    answer = [case.sentences[position].text for position in case.checkable]
    told = [each.text for sentences in case.context_sentences for each in sentences if each.kind != "markup"]
    return list(dict.fromkeys([*answer, *told]))


def _made(random_: random.Random) -> Iterator[Statement]:
    number = 0
    while True:
        words = {
            "adjective": random_.choice(ADJECTIVES),
            "thing": random_.choice(THINGS),
            "town": random_.choice(TOWNS),
            "agent": random_.choice(AGENTS),
            "deed": random_.choice(DEEDS),
            "parts": random_.choice(PARTS),
            "reason": random_.choice(REASONS),
            "service": random_.choice(SERVICES),
            "year": random_.randrange(1801, 2020),
            "number": random_.randrange(12, 990),
        }
        source, paraphrase = FORMS[number % len(FORMS)]
        yield Statement(_sentence(source.format(**words)), _sentence(paraphrase.format(**words)))
        number += 1


def _is_for_a_tier(sample: Sample) -> bool:
    case = segment(sample)
    return bool(case.checkable) and case.has_context and case.language == "en"


def _stated(rows: list[Sample]) -> Iterator[Statement]:
    for row in rows:
        told = [each for context in row.contexts for each in _readable(context)]
        said = _readable(row.answer)
        for number, source in enumerate(told):
            yield Statement(source, said[number] if number < len(said) else f"As is said, {source}")


def _readable(text: str) -> list[str]:
    sentences = (" ".join(each.text.split()) for each in split_sentences(text) if each.kind == "prose")
    return [each for each in sentences if len(each) in _READABLE_CHARACTERS and each[-1] in ".!?"]


def _once(statements: Iterator[Statement]) -> Iterator[Statement]:
    seen: set[str] = set()
    for each in statements:
        if not seen & {each.source, each.paraphrase}:
            seen |= {each.source, each.paraphrase}
            yield each


def _opened(opening: str, sentence: str) -> str:
    return opening + sentence[0].lower() + sentence[1:] if opening else sentence


def _spread(items: list[T], count: int) -> list[T]:
    """Some of the items, from all over the list."""
    return items[:: max(1, (len(items) - 1) // count)][:count]


def _all(items: Iterator[T], count: int) -> list[T]:
    found = list(islice(items, count))
    if len(found) < count:
        raise ValueError("the file holds too few sentences or rows for this run; take fewer rounds or a larger file")
    return found


def _sample(contexts: list[str], answer: list[str]) -> Sample:
    return Sample("", tuple(contexts), " ".join(answer))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
