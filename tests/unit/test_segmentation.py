"""Sentences of answers and passages: gold texts and the rules behind them."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.judging.text.segmentation import Sentence, split_sentences
from tests.making.cases import load_cases

_GOLD_PATH = Path(__file__).parents[1] / "data" / "segmentation_gold.json"


def _gold_cases() -> list[Any]:
    cases = json.loads(_GOLD_PATH.read_text(encoding="utf-8"))
    return [
        pytest.param(
            case["text"],
            case["sentences"],
            id=f"{case['group']}-{case['name']}",
            marks=[pytest.mark.xfail(strict=True, reason="needs a reader's knowledge")] if "known_gap" in case else [],
        )
        for case in cases
    ]


def _texts(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


def _kinds(text: str) -> list[str]:
    return [sentence.kind for sentence in split_sentences(text)]


@pytest.mark.parametrize(("text", "sentences"), _gold_cases())
def test_a_gold_text_falls_into_its_sentences(text: str, sentences: list[str]) -> None:
    assert _texts(text) == sentences


def test_offsets_count_code_points() -> None:
    sentences = split_sentences("😀 Yes. 好。")

    assert sentences == (Sentence("😀 Yes.", 0, 6, "prose"), Sentence("好。", 7, 9, "prose"))


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\u3000\u2028"])
def test_white_space_alone_has_no_sentences(text: str) -> None:
    assert split_sentences(text) == ()


@pytest.mark.parametrize(
    "marker", ["-", "*", "+", "•", "·", "–", "1.", "12)", "(3)", "a)", "①", "一、", "（二）", "1、"]
)
def test_a_list_marker_stays_with_the_first_sentence_of_its_item(marker: str) -> None:
    sentences = split_sentences(f"{marker} The rope is long. It is strong.")

    assert [sentence.text for sentence in sentences] == [f"{marker} The rope is long.", "It is strong."]
    assert {sentence.kind for sentence in sentences} == {"list_item"}


@pytest.mark.parametrize(("text", "kinds"), load_cases("segmentation", "the_kind_of_each_sentence", inner=list))
def test_the_kind_of_each_sentence(text: str, kinds: list[str]) -> None:
    assert _kinds(text) == kinds


def test_a_line_that_starts_with_a_year_is_prose() -> None:
    assert _kinds("1990. The year of the flood.")[0] == "prose"


def test_a_long_quote_is_split() -> None:
    text = 'He wrote that "the dam had been safe for a hundred years. It would hold for a hundred more." Then he left.'

    assert len(_texts(text)) == 3
