"""Structured contexts in lines: values behind their paths, in the text as it is, and exact facts of a line."""

import pytest

from plumbline.judging.text.segmentation import split_sentences
from plumbline.judging.text.structured import split_context
from plumbline.judging.text.structured_facts import StructuredFacts
from tests.making.cases import load_cases

JSON = (
    '{"product": "X10", "specs": {"capacity_l": 1.7}, "stock": [{"shop": "Leeds", "count": 6}, '
    '{"shop": "York", "count": 0}]}'
)
READINGS = load_cases("structured", "readings")


def test_a_value_reads_with_the_names_that_lead_to_it_and_name_what_is_around_it() -> None:
    found = split_context(JSON)

    assert tuple(found.readings.values()) == READINGS
    assert all(JSON[each.start : each.end] == each.text for each in found.sentences)


def test_the_evidence_for_a_value_of_json_is_its_key_and_value_alone() -> None:
    assert split_context(JSON).sentences[1].text == '"capacity_l": 1.7'


def test_a_title_before_json_stays_apart() -> None:
    text = 'Weather\n\n{"city": "Oslo", "temp": 21}'

    found = split_context(text, lead=9)

    assert [each.text for each in found.sentences] == ["Weather", '"city": "Oslo"', '"temp": 21']
    assert found.readings == {1: "city Oslo", 2: "city Oslo temp 21"}


@pytest.mark.parametrize("text", load_cases("structured", "other_texts_are_split_as_before"))
def test_other_texts_are_split_as_before(text: str) -> None:
    found = split_context(text)

    assert found.sentences == split_sentences(text)
    assert found.readings == {}


@pytest.mark.parametrize(
    ("text", "readings"), load_cases("structured", "rows_of_csv_are_read_with_the_names_of_their_columns", inner=list)
)
def test_rows_of_csv_are_read_with_the_names_of_their_columns(text: str, readings: list[str]) -> None:
    found = split_context(text)

    assert list(found.readings.values()) == readings
    assert all(text[each.start : each.end] == each.text for each in found.sentences)


@pytest.mark.parametrize(
    ("claim", "misplaced"), load_cases("structured", "a_number_or_identifier_of_another_line_is_misplaced")
)
def test_a_number_or_identifier_of_another_line_is_misplaced(claim: str, misplaced: tuple[str, ...]) -> None:
    facts = StructuredFacts(["worker-7 started pid 4411", "worker-3 restarted pid 4427"])

    assert tuple(each.partition(" ")[0] for each in facts.find_misplaced(claim)) == misplaced


@pytest.mark.parametrize(("claim", "misplaced"), [("海淀店库存数量6。", ()), ("朝阳店库存数量6。", ("6",))])
def test_a_number_between_chinese_words_belongs_to_its_line(claim: str, misplaced: tuple[str, ...]) -> None:
    text = '{"库存": [{"门店": "海淀店", "数量": 6}, {"门店": "朝阳店", "数量": 0}]}'

    found = StructuredFacts(split_context(text).readings.values()).find_misplaced(claim)

    assert tuple(each.partition(" ")[0] for each in found) == misplaced


@pytest.mark.parametrize("text", ["{}", " []\n"])
def test_empty_json_says_nothing(text: str) -> None:
    assert split_context(text).sentences == ()


def test_deep_and_unpaired_json_is_a_text_as_any_other() -> None:
    for text in ("[" * 10_000 + "]" * 10_000, '{"a": ' * 500 + "1" + "}" * 500, '["a"' * 1_000 + "]"):
        assert split_context(text).readings == {}


@pytest.mark.parametrize(("claim", "denied"), load_cases("structured", "flags"))
def test_a_flag_denies_its_key_unless_another_value_speaks_of_it(claim: str, denied: tuple[str, ...]) -> None:
    found = split_context('{"name": "Deli", "OutdoorSeating": false, "Music": null, "review": "We loved the music."}')

    facts = StructuredFacts(found.readings.values(), (), found.flags)

    assert facts.find_denied(claim) == denied
