"""What a model wrote to itself is taken out, and nothing of its reply."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.models.chat.completions import without_thinking

REPLY = '{"ok": true}'
TAKEN_OUT = [
    f"<think>well</think>{REPLY}",
    f"\n<think>\nwell\n</think>\n\n{REPLY}\n",
    f"<THINK>well</Think>{REPLY}",
    f"<think></think>{REPLY}",
    f"<thinking>a <b> { {'x': 1} }</thinking> {REPLY}",
    f"<thought>well</thought>{REPLY}",
    f"<reasoning>well</reasoning>{REPLY}",
    f"<seed:think>well</seed:think>{REPLY}",
    f"[THINK]well[/THINK]{REPLY}",
    f"<think>a</think>\n<think>b</think>{REPLY}",
    f"well, I think so\n</think>\n{REPLY}",
    f"<|channel|>analysis<|message|>well<|end|><|start|>assistant<|channel|>final<|message|>{REPLY}<|return|>",
    f"<|channel|>final <|constrain|>json<|message|>{REPLY}",
    f"<|start|>assistant<|channel|>final<|message|>{REPLY}<|end|>",
    f"<think>İİİ</think>{REPLY}",
]
ONLY_THOUGHT = [
    "<think>well",
    f"<think>{REPLY}",
    f"<thinking>{REPLY}</think>",
    "[THINK]well",
    "<think>a</think><think>b",
    f"<|channel|>analysis<|message|>{REPLY}",
    "well</think>",
    " \n",
]
KEPT = [
    REPLY,
    f"```json\n{REPLY}\n```",
    f"Here it is: {REPLY}",
    json.dumps({"quote": "<think>a</think>"}),
    json.dumps({"quote": "a</think>b"}),
    "<thinker>a</thinker>",
    json.dumps({"quote": "<|channel|>final<|message|>"}),
]


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
