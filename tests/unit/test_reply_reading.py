"""What is kept of a judge's reply, and what is left to be asked again."""

import json
from typing import Any

import pytest

from plumbline.judging.text.verdicts import Verdict
from plumbline.judging.tiers.reply_reading import read_claims, read_sentences

CLAIM: dict[str, Any] = {"claim": "a", "context_ids": [1], "quotes": ["x"], "reason": "r", "verdict": "supported"}


def item(number: object, *claims: object) -> dict[str, Any]:
    return {"id": number, "claims": list(claims) or [CLAIM]}


def reply(*items: object) -> str:
    return json.dumps({"sentences": list(items)})


@pytest.mark.parametrize(
    "content",
    [
        reply(item(1), item(2)),
        f"```json\n{reply(item(1), item(2))}\n```",
        f"Here is my judgement, with {{braces}}: {reply(item(1), item(2))} I hope {{}} helps.",
        reply(item("1"), item("2")),
        reply(item(2), item(1)),
        reply(item(1), item(1), item(2)),
        reply(item(1), item(2)).replace('"claim"', '\n"claim"'),
        reply(item(1, {**CLAIM, "verdict": " Supported "}), item(2)),
        json.dumps({"result": {"faithfulness": 1.0, "sentences": [item(1), item(2)], "score": 9}}),
    ],
)
def test_whole_replies_are_read_however_they_are_wrapped(content: str) -> None:
    reading = read_sentences(content, {1, 2})

    assert sorted(reading.claims) == [1, 2]
    assert {claim.verdict for claims in reading.claims.values() for claim in claims} == {Verdict.SUPPORTED}
    assert reading.flags == ()


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        (reply(item(1), item(2)).replace("}]}]}", "},]},]}"), "repaired_reply"),
        (reply(item(1), item(2)).replace('"', "'"), "repaired_reply"),
        (reply(item(1), item(2), item(9)), "unknown_ids_dropped"),
        (reply(item(3)) + reply(item(1), item(2)), "several_replies"),
    ],
)
def test_what_was_odd_is_flagged(content: str, flag: str) -> None:
    reading = read_sentences(content, {1, 2})

    assert sorted(reading.claims) == [1, 2]
    assert reading.flags == (flag,)


@pytest.mark.parametrize(
    "second",
    [
        item(2, {**CLAIM, "verdict": "true"}),
        item(2, {**CLAIM, "verdict": None}),
        item(2, CLAIM, {"claim": "no verdict"}),
        item(2, "a text"),
        {"id": 2, "claims": []},
        {"id": 2, "claims": "none"},
        {"id": 2},
        {"id": [2, 3], "claims": [CLAIM]},
        {"id": True, "claims": [CLAIM]},
        item(2, {**CLAIM, "quotes": [{"text": "x"}]}),
        item(2, {**CLAIM, "reason": "\ud800"}),
        item(2, {**CLAIM, "quotes": ["\udc00"]}),
        "not an object",
    ],
)
def test_a_broken_item_costs_only_itself(second: object) -> None:
    assert list(read_sentences(reply(item(1), second), {1, 2}).claims) == [1]


def test_items_that_contradict_each_other_are_both_dropped() -> None:
    twice = reply(item(1), item(1, {**CLAIM, "verdict": "contradicted"}), item(2))

    assert list(read_sentences(twice, {1, 2}).claims) == [2]


def test_an_item_that_gives_a_key_twice_is_dropped() -> None:
    ambiguous = '{"id": 2, "claims": [{"claim": "a", "verdict": "not_mentioned", "verdict": "supported"}]}'

    assert list(read_sentences(f'{{"sentences": [{json.dumps(item(1))}, {ambiguous}]}}', {1, 2}).claims) == [1]


def test_of_a_cut_reply_all_but_the_last_item_are_salvaged() -> None:
    whole = reply(item(1), item(2), item(3))

    for end in range(whole.index('"id": 3'), len(whole) - 2):
        reading = read_sentences(whole[:end], {1, 2, 3}, is_truncated=True)
        assert list(reading.claims) == [1, 2]
        assert reading.flags == ("truncated_reply",)


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        ("", "unreadable_reply"),
        ("nothing", "unreadable_reply"),
        ("{}", "unreadable_reply"),
        ('{"sentences": {}}', "unreadable_reply"),
        ('{"sentences": ' + "[" * 50_000, "truncated_reply"),
        ('{"sentences": ["' + "\\" * 50_000, "truncated_reply"),
        ('{"sentences": ' + "[" * 50_000 + "]" * 50_000 + "}", "unreadable_reply"),
    ],
)
def test_a_reply_without_a_whole_item_gives_nothing(content: str, flag: str) -> None:
    reading = read_sentences(content, {1})

    assert reading.claims == {}
    assert reading.flags == (flag,)


def test_a_giant_reply_is_not_read() -> None:
    assert read_sentences(reply(item(1)) + " " * 1_000_001, {1}).flags == ("reply_too_long",)


def test_quotes_are_read_in_either_spelling() -> None:
    claim = {
        "verdict": "not mentioned",
        "quote": "one",
        "quotes": ["two"],
        "context_ids": ["2", "x", None],
        "derived": "true",
    }

    ((read,),) = read_sentences(reply(item(1, claim)), {1}).claims.values()

    assert (read.quotes, read.context_ids, read.derived) == (["two", "one"], [2, 0, 0], True)
    assert read.verdict is Verdict.NOT_MENTIONED


def test_verdicts_on_claims_are_read_by_their_ids() -> None:
    content = json.dumps(
        {"claims": [{**CLAIM, "id": "0.0"}, {**CLAIM, "id": "0.1", "verdict": "maybe"}, {**CLAIM, "id": "7.7"}]}
    )

    reading = read_claims(content, {"0.0", "0.1"})

    assert list(reading.claims) == ["0.0"]
    assert reading.flags == ("unknown_ids_dropped",)
