"""Context utilization: the share of the answer's sentences that lean on the contexts."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.segmented_sample import ContextIndex, context_utilization
from tests.making.cases import load_cases


def _utilization(answer: str, *contexts: str) -> float | None:
    return context_utilization(split_sentences(answer), ContextIndex([split_sentences(text) for text in contexts]))


def test_seed_4_sentences_with_half_of_their_words_in_one_context_sentence_are_related() -> None:
    answer = "Keeper lights lamp nightly. Orwin fishes cod. Harbour lamp rusts quickly."
    context = "The keeper lights the fire. The harbour lamp is new."

    # keeper, lights of 4 = 1/2: related. 0 of 3: not. harbour, lamp of 4 = 1/2: related. Two of three.
    assert _utilization(answer, context) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("answer", "contexts", "share"), load_cases("utilization", "a_sentence_leans_on_one_context_sentence")
)
def test_a_sentence_leans_on_one_context_sentence(answer: str, contexts: tuple[str, ...], share: float) -> None:
    assert _utilization(answer, *contexts) == share


@pytest.mark.parametrize("answer", ["", "---", "😀"])
def test_an_answer_without_sentences_has_no_utilization(answer: str) -> None:
    assert _utilization(answer, "The keeper lights the lamp.") is None
