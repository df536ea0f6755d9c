"""The ids of a request: random, translated there and back, and told from those of another request."""

from dataclasses import replace
from typing import Any

import pytest

from plumbline.judging.judge.questions import keyed_mark
from plumbline.judging.ports.numbering import OURS, Numbering
from tests.making.cases import load_cases

ITEMS: list[dict[str, Any]] = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": "1.0", "sentence": 2}]
REQUEST = Numbering(4_000, frozenset({4_001, 4_002}))


def test_ids_of_a_mark_are_its_own_and_stand_between_1000_and_the_five_digits() -> None:
    mark = keyed_mark(b"secret")
    drawn = [Numbering.draw(mark(f"data {number}"), ITEMS) for number in range(2_000)]

    assert Numbering.draw(mark("data 7"), ITEMS) == drawn[7]
    assert all(each.shown == {each.base + 1, each.base + 2} for each in drawn)
    assert min(each.base for each in drawn) >= 1_000
    assert max(each.base for each in drawn) < 9_999
    # Of 8,999 numbers 2,000 draws hit about 1,793 different ones: 8,999 * (1 - e^(-2,000 / 8,999)).
    assert 1_700 < len({each.base for each in drawn}) < 1_900


def test_numbers_are_moved_and_back_and_a_claim_begins_with_the_id_of_its_sentence() -> None:
    shown = [REQUEST.show(each) for each in ITEMS]

    assert shown == [{"id": 4_001, "text": "a"}, {"id": 4_002, "text": "b"}, {"id": "4002.0", "sentence": 4_002}]
    assert [REQUEST.number(each) for each in (4_001, 4_002, 4_003, 1, 0)] == [1, 2, 0, 0, 0]
    assert (OURS.shown_id(3), OURS.shown_id("0.1"), OURS.number(3)) == (3, "0.1", 3)


@pytest.mark.parametrize("content", load_cases("numbering", "a_reply_with_the_ids_of_another_request_is_foreign"))
def test_a_reply_with_the_ids_of_another_request_is_foreign(content: str) -> None:
    assert REQUEST.is_foreign(content)


@pytest.mark.parametrize(
    "content", load_cases("numbering", "a_reply_with_ids_of_the_request_or_none_of_any_is_not_foreign")
)
def test_a_reply_with_ids_of_the_request_or_none_of_any_is_not_foreign(content: str) -> None:
    assert not REQUEST.is_foreign(content)


@pytest.mark.parametrize(("content", "is_foreign"), load_cases("numbering", "marks"))
def test_a_mark_tells_whose_reply_it_is_before_ids_do(content: str, is_foreign: bool) -> None:
    assert replace(REQUEST, mark="0f3a9c1e").is_foreign(content) is is_foreign


def test_a_request_without_ids_takes_any_reply() -> None:
    assert not OURS.is_foreign('{"sentences": [{"id": 7001}]}')


def test_looking_for_foreign_ids_takes_time_in_line_with_the_reply() -> None:
    # Hours, were two unbounded runs of blanks side by side in the pattern.
    for part in ('"id"' + " " * 200_000, '"id" :' + " " * 200_000, '"' * 200_000, '"id":[ "' * 50_000):
        assert not REQUEST.is_foreign(part)
