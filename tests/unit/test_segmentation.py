"""Sentences of answers and passages: gold texts and the rules behind them."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.judging.text.segmentation import Sentence, split_sentences

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


@pytest.mark.parametrize("text", ["---", "***", "😀", ">", "|---|:--:|", "。。。", "-", "```\n```", "* * *"])
def test_text_without_letters_or_digits_is_markup(text: str) -> None:
    assert _kinds(text) == ["markup"]


def test_a_smiley_after_the_last_stop_joins_its_sentence() -> None:
    assert _texts("All went well! 😀") == ["All went well! 😀"]


@pytest.mark.parametrize(
    "marker", ["-", "*", "+", "•", "·", "–", "1.", "12)", "(3)", "a)", "①", "一、", "（二）", "1、"]
)
def test_a_list_marker_stays_with_the_first_sentence_of_its_item(marker: str) -> None:
    sentences = split_sentences(f"{marker} The rope is long. It is strong.")

    assert [sentence.text for sentence in sentences] == [f"{marker} The rope is long.", "It is strong."]
    assert {sentence.kind for sentence in sentences} == {"list_item"}


def test_a_list_number_alone_on_its_line_is_markup() -> None:
    assert _kinds("1.\n\nThe rope is long.") == ["markup", "prose"]


def test_a_line_that_starts_with_a_year_is_prose() -> None:
    assert _kinds("1990. The year of the flood.")[0] == "prose"


@pytest.mark.parametrize("text", ["# The dam", "##第二章", "The dam\n---", "**The dam**", "__The dam__", "**大坝**："])
def test_heading_forms(text: str) -> None:
    assert _kinds(text) == ["heading"]


@pytest.mark.parametrize("text", ["#hashtag", "**The dam is safe.**", "These are the steps:", "# " + "page " * 50])
def test_what_only_resembles_a_heading_is_prose(text: str) -> None:
    assert _kinds(text) == ["prose"]


def test_a_table_row_is_one_sentence_and_its_rule_is_markup() -> None:
    assert _kinds("| a. B | c |\n|---|---|\n| 1. 2 | 3 |") == ["table_row", "markup", "table_row"]


def test_a_table_without_outer_bars_is_known_by_its_rule() -> None:
    assert _kinds("name | height\n---|---\nKeld | 3\nOrwin | 4") == ["table_row", "markup", "table_row", "table_row"]


def test_a_single_line_with_bars_is_prose() -> None:
    assert _kinds("Norland | capital | Keld") == ["prose"]


def test_a_fence_ends_only_at_a_fence_as_long() -> None:
    text = "````\n```\nx = 1. Y\n```\n````\nDone."

    assert _kinds(text) == ["code", "prose"]


def test_a_hard_wrapped_sentence_goes_on_over_the_newline() -> None:
    text = "The keeper of the northern light walked down to the village and\nOrwin waited for him at the gate."

    assert len(_texts(text)) == 1


def test_a_small_letter_continues_the_line_above() -> None:
    assert _texts("The keeper\nwalked down.") == ["The keeper\nwalked down."]


def test_nothing_continues_a_line_that_ends_in_a_colon() -> None:
    assert _texts("The kit holds:\nrope") == ["The kit holds:", "rope"]


def test_a_new_line_in_chinese_is_a_new_paragraph() -> None:
    assert _texts("大坝昨日\n完工") == ["大坝昨日", "完工"]


def test_the_marks_of_a_block_quote_stay_in_the_sentence() -> None:
    assert _texts("> The dam\n> is safe. It holds.") == ["> The dam\n> is safe.", "It holds."]


@pytest.mark.parametrize(
    "mark",
    [
        *(
            "[cite: 2, 3]",
            "[web:1][web:2]",
            "(source 1)",
            "（来源1）",
            "[Source 2, Source 3]",
            "[1, p. 4]",
            "[doc-7]",
            "[kb_2]",
        ),
        *("([example.org](https://example.org/a))", "\ue200cite\ue202turn0search1\ue201", "citeturn0search1turn1view0"),
        *(":contentReference[oaicite:0]{index=0}", "</cite>", "</co: 0>"),
    ],
)
def test_a_citation_behind_a_stop_stays_with_its_sentence(mark: str) -> None:
    assert _texts(f"The dam is safe. {mark} The lake is full.") == [f"The dam is safe. {mark}", "The lake is full."]


def test_a_tag_in_front_of_a_sentence_stays_with_it() -> None:
    answer = "<co: 0>The dam is safe.</co: 0> <co: 1>The lake is full.</co: 1>"

    assert _texts(answer) == ["<co: 0>The dam is safe.</co: 0>", "<co: 1>The lake is full.</co: 1>"]


def test_a_number_in_front_of_each_passage_is_no_citation_of_the_one_before() -> None:
    assert _texts("[1] The dam is safe. [2] The lake is full.") == ["[1] The dam is safe.", "[2] The lake is full."]


def test_a_short_quote_in_mid_sentence_holds_its_stops() -> None:
    assert len(_texts('He warned that "it is late. Go home." and left.')) == 1


def test_a_long_quote_is_split() -> None:
    text = 'He wrote that "the dam had been safe for a hundred years. It would hold for a hundred more." Then he left.'

    assert len(_texts(text)) == 3


def test_a_small_letter_after_a_stop_starts_a_sentence_only_after_a_whole_word() -> None:
    assert _texts("We met at the dept. of rivers. they were kind.") == [
        "We met at the dept. of rivers.",
        "they were kind.",
    ]


@pytest.mark.parametrize("text", ["The bus leaves at 7:40.", "They won 3:2.", "Pi is about 3,14."])
def test_the_minutes_of_a_time_are_no_list_number(text: str) -> None:
    assert [each.text for each in split_sentences(f"{text} It is free.")] == [text, "It is free."]


def test_an_answer_that_is_a_number_with_a_full_stop_is_no_list_marker() -> None:
    assert _kinds("42.") == ["prose"]
