"""Which neighbours of a sentence are near each other in the contexts."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judging.tiers.lexical_features import Cooccurrence
from tests.making.cases import load_cases

_WORDS = st.lists(st.sampled_from(["lamp", "keeper", "gate", "rope", "harbour", "harbours"]), max_size=8)


def _share(asked: str, *sentences: str) -> float:
    words = asked.split()
    return Cooccurrence([sentence.split() for sentence in sentences], [words]).share(words)


@pytest.mark.parametrize(
    ("asked", "sentence", "share"),
    load_cases("cooccurrence", "neighbours_count_when_a_sentence_has_them_at_most_three_words_apart"),
)
def test_neighbours_count_when_a_sentence_has_them_at_most_three_words_apart(
    asked: str, sentence: str, share: float
) -> None:
    assert _share(asked, sentence) == share


def test_words_that_nobody_asks_for_still_keep_others_apart() -> None:
    pairs = Cooccurrence([["keeper", "a", "b", "c", "lamp"]], [["keeper", "lamp"]])

    assert pairs.share(["keeper", "lamp"]) == 0.0


@pytest.mark.parametrize(("asked", "share"), [("lamp", 1.0), ("rope", 0.0), ("", 0.0)])
def test_a_word_without_neighbours_counts_when_the_contexts_have_it(asked: str, share: float) -> None:
    assert _share(asked, "keeper lights lamp") == share


@given(st.lists(_WORDS, max_size=4), _WORDS)
def test_the_share_is_that_of_a_search_of_every_pair_of_places(sentences: list[list[str]], asked: list[str]) -> None:
    share = Cooccurrence(sentences, [asked, ["other"]]).share(asked)

    assert share == _naive(sentences, asked)


def _naive(sentences: Sequence[Sequence[str]], asked: Sequence[str]) -> float:
    cut = [[word[:5] for word in words] for words in sentences]
    near = {
        frozenset((words[i], words[j]))
        for words in cut
        for i in range(len(words))
        for j in range(i + 1, min(i + 4, len(words)))
    }
    pairs = list(pairwise(word[:5] for word in asked))
    if not pairs:
        return float(any(asked[0][:5] in words for words in cut)) if asked else 0.0
    known = {word for words in cut for word in words}
    near |= {frozenset((word,)) for word in known}
    return sum(frozenset(pair) in near for pair in pairs) / len(pairs)
