"""What a model wrote to itself is taken out, and nothing of its reply."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.models.chat.completions import without_thinking
from tests.making.cases import load_cases

REPLY = '{"ok": true}'
TAKEN_OUT = load_cases("thinking", "taken_out")
ONLY_THOUGHT = load_cases("thinking", "only_thought")
KEPT = load_cases("thinking", "kept")


@pytest.mark.parametrize("content", TAKEN_OUT)
def test_a_thought_is_taken_out(content: str) -> None:
    assert without_thinking(content) == REPLY


@pytest.mark.parametrize("content", ONLY_THOUGHT)
def test_a_thought_alone_leaves_nothing(content: str) -> None:
    assert without_thinking(content) == ""


@pytest.mark.parametrize("content", KEPT)
def test_a_reply_keeps_what_it_quotes(content: str) -> None:
    assert without_thinking(content) == content


@given(st.dictionaries(st.text(max_size=5), st.text()), st.text().filter(lambda text: "</think>" not in text.lower()))
def test_any_object_comes_through_whole(reply: dict[str, str], thought: str) -> None:
    text = json.dumps(reply)

    assert without_thinking(text) == text
    assert without_thinking(f"<think>{thought}</think>{text}") == text


def test_four_megabytes_of_thoughts_are_taken_out_one_after_the_other() -> None:
    # each was cut off a copy of the rest: the square, 37 s of CPU
    assert without_thinking("<think></think>" * 280_000) == ""
    assert without_thinking("<think>a" * 500_000) == ""
    assert without_thinking(f"{'<think></think>' * 280_000}{{}}") == "{}"
