"""Context utilization: the share of the answer's sentences that lean on the contexts."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import ContextIndex, context_utilization


def _utilization(answer: str, *contexts: str) -> float | None:
    return context_utilization(split_sentences(answer), ContextIndex([split_sentences(text) for text in contexts]))


def test_seed_4_sentences_with_half_of_their_words_in_one_context_sentence_are_related() -> None:
    answer = "Keeper lights lamp nightly. Orwin fishes cod. Harbour lamp rusts quickly."
    context = "The keeper lights the fire. The harbour lamp is new."

    # keeper, lights of 4 = 1/2: related. 0 of 3: not. harbour, lamp of 4 = 1/2: related. Two of three.
    assert _utilization(answer, context) == pytest.approx(2 / 3)


def test_words_spread_over_two_context_sentences_do_not_add_up() -> None:
    # One of three words in either sentence, two of three together.
    assert _utilization("Keeper paints harbour.", "The keeper sleeps. The harbour freezes.") == 0.0


def test_case_punctuation_and_stopwords_do_not_matter() -> None:
    assert _utilization("KEEPER, lights — lamp!", "The keeper of it lights the lamp.") == 1.0


def test_chinese_is_related_by_pairs_of_characters() -> None:
    # 大坝 坝建 建成 of the first sentence all stand in the context; of 湖泊结冰 none does. One of two.
    assert _utilization("大坝建成。湖泊结冰。", "据说大坝建成于当年。") == 0.5


def test_a_rule_between_paragraphs_is_no_sentence() -> None:
    assert _utilization("Keeper lights lamp.\n\n---\n\nOrwin fishes cod.", "The keeper lights the lamp.") == 0.5


@pytest.mark.parametrize("answer", ["", "---", "😀"])
def test_an_answer_without_sentences_has_no_utilization(answer: str) -> None:
    assert _utilization(answer, "The keeper lights the lamp.") is None


def test_without_contexts_nothing_is_used() -> None:
    assert _utilization("Keeper lights lamp.") == 0.0
