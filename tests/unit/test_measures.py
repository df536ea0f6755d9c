"""Names of measures: what parses, to what, and what the refusal says."""

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.measure import Measure, parse_measure, parse_measures
from tests.making.cases import load_cases


@pytest.mark.parametrize("text", load_cases("measures", "a_canonical_text_is_its_own_measure"))
def test_a_canonical_text_is_its_own_measure(text: str) -> None:
    assert str(parse_measure(text)) == text


@pytest.mark.parametrize(("text", "canonical"), load_cases("measures", "other_names_of_a_measure_are_understood"))
def test_other_names_of_a_measure_are_understood(text: str, canonical: str) -> None:
    assert str(parse_measure(text)) == canonical


@pytest.mark.parametrize(
    ("texts", "measures"), load_cases("measures", "many_cutoffs_stand_for_many_measures_each_once")
)
def test_many_cutoffs_stand_for_many_measures_each_once(texts: tuple[str, ...], measures: tuple[str, ...]) -> None:
    assert [str(measure) for measure in parse_measures(texts)] == list(measures)
    assert parse_measures(["recall@1,3"])[0] == Measure("recall", 1)


@pytest.mark.parametrize(("text", "detail"), load_cases("measures", "a_wrong_measure_is_refused_with_the_nearest"))
def test_a_wrong_measure_is_refused_with_the_nearest(text: str, detail: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_measure(text)

    assert refusal.value.detail == detail


@pytest.mark.parametrize("cutoff", ["0", "-1", "1.5", "ten", "", "٣", "1" * 5000, "1,3"])
def test_a_cutoff_that_is_no_whole_number_from_one_is_refused(cutoff: str) -> None:
    with pytest.raises(InvalidInput, match=r"wanted a whole number from 1; did you mean 'recall@10'\?") as refusal:
        parse_measure(f"recall@{cutoff}")

    assert len(refusal.value.detail) < 200


def test_a_word_like_no_measure_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidInput, match="known are recall, capped_recall"):
        parse_measure("zzzzzz")
