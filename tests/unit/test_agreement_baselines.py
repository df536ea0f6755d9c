"""The scores that know nothing: by hand, and the longest common subsequence against the textbook's table."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.agreement_baselines import (
    rouge_l_precision,
    seed_embedding_similarity,
    seed_word_overlap,
    shortness,
    split_words,
)
from plumbline.judging.text.sample import Sample
from tests.making.cases import load_cases


def sample(answer: str, *contexts: str) -> Sample:
    return Sample("", contexts, answer)


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Cormen et al., section 15.4: quadratic, and plain to see."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_shorter_answers_come_first() -> None:
    assert shortness(sample("ab")) == -2.0
    assert shortness(sample("磨坊建于")) == -4.0
    assert shortness(sample("")) == 0.0


def test_words_are_lower_case_without_punctuation_and_han_characters_one_by_one() -> None:
    assert split_words("The mill's 12,5 kW_max — GPT-4是OK") == [
        *("the", "mill", "s", "12", "5", "kw", "max", "gpt", "4", "是", "ok")
    ]


@pytest.mark.parametrize(
    ("answer", "contexts", "precision"), load_cases("agreement_baselines", "rouge_l_precision_by_hand")
)
def test_rouge_l_precision_by_hand(answer: str, contexts: tuple[str, ...], precision: float) -> None:
    assert rouge_l_precision(sample(answer, *contexts)) == pytest.approx(precision)


@given(st.lists(st.sampled_from(["a", "b", "cc", "dd", "是"]), min_size=1, max_size=90), st.data())
def test_the_subsequence_is_as_long_as_the_tables(answer: list[str], data: st.DataObject) -> None:
    context = data.draw(st.lists(st.sampled_from(["a", "b", "cc", "dd", "是"]), max_size=150))

    precision = rouge_l_precision(sample(" ".join(answer), " ".join(context)))

    assert precision == pytest.approx(longest_common_subsequence(answer, context) / len(answer))


def test_a_long_context_takes_no_long_time() -> None:
    words = [f"w{place % 997}" for place in range(60_000)]

    assert rouge_l_precision(sample(" ".join(words[:600]), " ".join(words))) == 1.0


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


def test_every_text_is_encoded_once_and_empty_samples_are_zero() -> None:
    encode = Encoder({"A mill.": (0, 1), "It stands.": (1, 0), "It fell.": (0, -2)})
    samples = [
        sample("It stands.", "A mill."),
        sample("", "A mill."),
        sample("It fell.", "A mill."),
        sample("It stands."),
        sample("It stands.", "—"),
    ]

    scores = seed_embedding_similarity(samples, encode)

    assert scores == pytest.approx([0.5, 0.0, 1 / (1 + math.e), 0.0, 0.0])
    assert encode.asked == [["A mill.", "It stands.", "It fell."]]
    assert seed_embedding_similarity([sample("", "")], encode) == [0.0]
    assert len(encode.asked) == 1
