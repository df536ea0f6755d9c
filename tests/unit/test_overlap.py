"""The index of the contexts' words: what covers a sentence best, and that hostile text cannot slow it down."""

from itertools import product

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import ContextIndex
from plumbline.judging.text.words import content_words
from tests.making.cases import load_cases


def _index(*contexts: str) -> ContextIndex:
    return ContextIndex([split_sentences(context) for context in contexts])


@pytest.mark.parametrize(
    ("contexts", "text", "found", "share", "is_verbatim"), load_cases("overlap", "the_best_match_of_a_sentence")
)
def test_the_best_match_of_a_sentence(
    *, contexts: tuple[str, ...], text: str, found: tuple[int, str], share: float, is_verbatim: bool
) -> None:
    index, words = _index(*contexts), content_words(text)

    match = index.best_match(text, words)

    assert match is not None
    assert (match.context, match.sentence.text, match.is_verbatim) == (*found, is_verbatim)
    assert index.best_share(words) == match.share == share


@pytest.mark.parametrize(("contexts", "text"), [(["Orwin fishes."], "lamp"), (["Orwin fishes."], ""), ([], "lamp")])
def test_without_a_word_in_common_nothing_matches(contexts: list[str], text: str) -> None:
    assert _index(*contexts).best_match(text, content_words(text)) is None


def test_a_word_is_in_the_index_when_any_context_has_it_as_a_content_word() -> None:
    index = _index("Orwin fishes.", "The lamp burns.")

    assert "orwin" in index
    assert "lamp" in index
    assert "the" not in index
    assert "trout" not in index


def test_places_and_words_are_those_of_the_sentences_in_order() -> None:
    index = _index("Orwin fishes. The sea.", "The lamp burns.")

    assert [(context, sentence.text) for context, sentence in index.places] == [
        (0, "Orwin fishes."),
        (0, "The sea."),
        (1, "The lamp burns."),
    ]
    assert [(words.every, words.content) for words in index.words] == [
        (("orwin", "fishes"), ("orwin", "fishes")),
        (("the", "sea"), ("sea",)),
        (("the", "lamp", "burns"), ("lamp", "burns")),
    ]


def test_contexts_of_repeated_words_give_the_share_of_one_sentence() -> None:
    index = _index(*["Keeper lamp harbour storm. " * 250] * 20)
    sentence = "The keeper lit the lamp in the harbour during the storm."

    match = index.best_match(sentence, content_words(sentence))

    # keeper, lamp, harbour and storm of five: "lit" stands nowhere.
    assert match is not None
    assert match.share == 0.8


def test_an_answer_of_many_distinct_common_words_has_the_share_of_its_best_sentence() -> None:
    vocabulary = ["".join(letters) for letters in product("bcdfghjk", "aeiou", "lmnprstv", "q")]
    contexts = [" ".join(vocabulary[start : start + 40]) + ". " for start in range(0, 320, 40)]
    index = _index(*["".join(contexts)] * 20)

    match = index.best_match("", vocabulary)

    # One context sentence holds 40 of the 320 words.
    assert match is not None
    assert match.share == 0.125


def test_a_rare_word_finds_its_sentence_among_many_common_ones() -> None:
    index = _index("The keeper lit the lamp. " * 5_000 + "The keeper lit the orwin lamp.")

    match = index.best_match("orwin keeper lamp lit", ["orwin", "keeper", "lamp", "lit"])

    assert match is not None
    assert match.share == 1.0
