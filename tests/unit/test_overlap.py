"""The index of the contexts' words: what covers a sentence best, and that hostile text cannot slow it down."""

from itertools import product

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import ContextIndex
from plumbline.judging.text.words import content_words


def _index(*contexts: str) -> ContextIndex:
    return ContextIndex([split_sentences(context) for context in contexts])


def test_the_context_sentence_with_most_of_the_words_matches() -> None:
    index = _index("Orwin fishes.", "The keeper waits. The keeper lights the lamp.")

    match = index.best_match("keeper lights lamp nightly", ["keeper", "lights", "lamp", "nightly"])

    # Second sentence of the second context: keeper, lights, lamp of four words.
    assert match is not None
    assert (match.context, match.sentence.text) == (1, "The keeper lights the lamp.")
    assert match.share == 0.75
    assert not match.is_verbatim
    assert index.best_share(["keeper", "lights", "lamp", "nightly"]) == match.share


def test_of_equal_shares_the_earlier_place_matches() -> None:
    index = _index("Orwin fishes cod.", "Orwin fishes herring.")

    match = index.best_match("Orwin fishes trout", ["orwin", "fishes", "trout"])

    assert match is not None
    assert match.context == 0


def test_a_verbatim_sentence_comes_before_an_earlier_one_with_the_same_words() -> None:
    index = _index("Cod fishes Orwin.", "Orwin fishes cod.")

    match = index.best_match("Orwin fishes cod.", ["orwin", "fishes", "cod"])

    assert match is not None
    assert (match.context, match.is_verbatim) == (1, True)


def test_of_two_verbatim_sentences_the_earlier_place_matches() -> None:
    index = _index("Orwin fishes cod daily.", "Orwin fishes cod.")

    match = index.best_match("Orwin fishes cod", ["orwin", "fishes", "cod"])

    assert match is not None
    assert (match.context, match.is_verbatim) == (0, True)


def test_a_repeated_word_counts_once() -> None:
    index = _index("Orwin fishes.")

    match = index.best_match("Orwin Orwin Orwin cod", ["orwin", "orwin", "orwin", "cod"])

    # One of the two distinct words.
    assert match is not None
    assert match.share == 0.5


def test_words_that_stand_nowhere_match_nothing() -> None:
    assert _index("Orwin fishes.").best_match("lamp", ["lamp"]) is None


def test_no_words_match_nothing() -> None:
    assert _index("Orwin fishes.").best_match("", []) is None


def test_no_contexts_match_nothing() -> None:
    assert _index().best_match("lamp", ["lamp"]) is None


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
