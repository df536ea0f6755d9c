"""What costs nothing and knows nothing: scores that any judge of faithfulness has to beat, from their definitions."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import LCSseq

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.words import STOP_WORDS

# Texts to vectors of shape (len(texts), dimension), of any length but 0.
Encode = Callable[[Sequence[str]], npt.NDArray[np.floating]]

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
# The seed names no list; these are the service's.
_STOP_WORDS: Final = STOP_WORDS["english"] | STOP_WORDS["chinese"]
_WORDS: Final = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+")


def shortness(sample: Sample) -> float:
    """Minus the answer's number of characters: shorter answers first. A rank score, at most 0."""
    return -float(len(sample.answer))


def rouge_l_precision(sample: Sample) -> float:
    """Share of the answer's words that lie on a longest common subsequence with the joined contexts, in [0, 1].

    Lin, "ROUGE: a package for automatic evaluation of summaries", 2004, equation 3, with the contexts as the reference
    and one sequence of words each, no stemming. 0 for an answer without a word.
    """
    answer = split_words(sample.answer)
    if not answer:
        return 0.0
    return float(LCSseq.similarity(answer, split_words("\n".join(sample.contexts)))) / len(answer)


def seed_word_overlap(sample: Sample) -> float:
    """Seed 4's method 3 to the letter: share of the answer's words, stopwords out, that the contexts have, in [0, 1].

    Each word counts once. 0 for an answer without a word that is no stopword.
    """
    answer = frozenset(split_words(sample.answer)) - _STOP_WORDS
    if not answer:
        return 0.0
    return len(answer & frozenset(split_words("\n".join(sample.contexts)))) / len(answer)


def seed_embedding_similarity(samples: Sequence[Sample], encode: Encode) -> list[float]:
    """Seed 4's method 2 to the letter, a score in [0, 1] for each sample, in order.

    The cosine of each answer sentence with the joined contexts as one text, their mean over sentences, and the
    logistic function of that: the seed names neither midpoint nor slope, so they are 0 and 1, and a score lies between
    0.27 and 0.73. What a model cannot read of a long context does not count. `encode` is called once, with every text
    once; 0 for an answer without a sentence or without contexts.
    """
    texts_of = [_texts(sample) for sample in samples]
    texts = list(dict.fromkeys(text for texts in texts_of for text in texts))
    if not texts:
        return [0.0] * len(samples)
    vectors = np.asarray(encode(texts), dtype=np.float64)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    row_of = {text: row for row, text in enumerate(texts)}
    return [_similarity(vectors[[row_of[text] for text in texts]]) for texts in texts_of]


def split_words(text: str) -> list[str]:
    """The text's words in order, lower-cased, without punctuation; each Han character is one."""
    words: list[str] = _WORDS.findall(text.lower())
    return words


def _texts(sample: Sample) -> list[str]:
    """The joined contexts and the sentences of the answer; empty where either has no letter or digit."""
    contexts = "\n".join(sample.contexts)
    sentences = [each.text for each in split_sentences(sample.answer) if each.kind != "markup"]
    return [contexts, *sentences] if sentences and split_words(contexts) else []


def _similarity(vectors: npt.NDArray[np.float64]) -> float:
    """Of the first vector with the others; vectors of length 1."""
    if not len(vectors):
        return 0.0
    return 1.0 / (1.0 + math.exp(-float((vectors[1:] @ vectors[0]).mean())))
