"""Floors of tier lexical on the everyday answers: what `passed` says of them may not get worse unseen."""

import asyncio

import pytest

from benchmarks.everyday import CHAINS, DATA, Decision, decide, figures, read_rows
from tests.running.service import plain_settings


@pytest.fixture(scope="module")
def decisions() -> list[Decision]:
    return asyncio.run(decide(read_rows(DATA / "everyday.jsonl"), CHAINS["lexical"], plain_settings()))


def test_english_answers_pass_when_they_are_faithful_and_fail_when_something_new_is_in_them(
    decisions: list[Decision],
) -> None:
    found = figures([each for each in decisions if each.row["lang"] == "en"])

    assert found["balanced_accuracy_new"] >= 0.88
    assert found["faithful_pass"] >= 0.88
    assert min(found["caught"][kind] for kind in ("number", "unit", "name", "date", "invented")) >= 0.6


def test_chinese_answers_do_so_too(decisions: list[Decision]) -> None:
    found = figures([each for each in decisions if each.row["lang"] == "zh"])

    assert found["balanced_accuracy_new"] >= 0.9
    assert found["faithful_pass"] >= 0.9


def test_at_most_one_faithful_answer_of_most_shapes_fails(decisions: list[Decision]) -> None:
    found = figures(decisions)["faithful_pass_by_shape"]

    assert {shape for shape, share in found.items() if share < 0.85} <= {"paraphrase"}


def test_every_row_is_judged(decisions: list[Decision]) -> None:
    assert {each.result.status for each in decisions} == {"judged"}
