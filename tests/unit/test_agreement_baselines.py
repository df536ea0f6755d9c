"""The scores that know nothing: by hand, and the longest common subsequence against the textbook's table."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.agreement_baselines import (
    rouge_l_precision,
    seed_embedding_similarity,
    seed_word_overlap,
    split_words,
)
from plumbline.judging.text.sample import Sample
from tests.making.cases import load_cases


def sample(answer: str, *contexts: str) -> Sample:
    return Sample("", contexts, answer)


def test_words_are_lower_case_without_punctuation_and_han_characters_one_by_one() -> None:
    assert split_words("The mill's 12,5 kW_max — GPT-4是OK") == [
        *("the", "mill", "s", "12", "5", "kw", "max", "gpt", "4", "是", "ok")
    ]


@pytest.mark.parametrize(
    ("answer", "contexts", "precision"), load_cases("agreement_baselines", "rouge_l_precision_by_hand")
)
def test_rouge_l_precision_by_hand(answer: str, contexts: tuple[str, ...], precision: float) -> None:
    assert rouge_l_precision(sample(answer, *contexts)) == pytest.approx(precision)


@pytest.mark.parametrize(
    ("answer", "contexts", "share"), load_cases("agreement_baselines", "the_seeds_word_overlap_by_hand")
)
def test_the_seeds_word_overlap_by_hand(answer: str, contexts: tuple[str, ...], share: float) -> None:
    assert seed_word_overlap(sample(answer, *contexts)) == pytest.approx(share)


class Encoder:
    """Two dimensions, told text by text; lengths other than 1 on purpose."""

    def __init__(self, vector_by_text: dict[str, tuple[float, float]]) -> None:
        self._vector_by_text = vector_by_text
        self.asked: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        self.asked.append(list(texts))
        return np.array([self._vector_by_text[text] for text in texts])


def test_the_seeds_similarity_is_the_logistic_of_the_mean_cosine_with_the_whole_context() -> None:
    # Cosines with (2, 0): 1 for (3, 0), 0.6 for (3, 4). Mean 0.8.
    encode = Encoder({"A mill.\nA barn.": (2, 0), "It stands.": (3, 0), "It fell.": (3, 4)})

    (score,) = seed_embedding_similarity([sample("It stands. It fell.", "A mill.", "A barn.")], encode)

    assert score == pytest.approx(1 / (1 + math.exp(-0.8)))
