"""Floors of tier lexical on the everyday answers: what `passed` says of them may not get worse unseen."""

import asyncio

import pytest

from benchmarks.everyday import CHAINS, DATA, NEW, Decision, decide, figures, read_rows
from tests.running.service import plain_settings


@pytest.fixture(scope="module")
def decisions() -> list[Decision]:
    return asyncio.run(decide(read_rows(DATA / "everyday.jsonl"), CHAINS["lexical"], plain_settings()))


@pytest.mark.parametrize(("language", "most_failing", "fewest_caught"), [("en", 0.1, 0.75), ("zh", 0.08, 0.8)])
def test_few_faithful_answers_fail_and_most_with_something_new_do(
    decisions: list[Decision], language: str, most_failing: float, fewest_caught: float
) -> None:
    chosen = [each for each in decisions if each.row["lang"] == language]
    faithful = [each.result.passed for each in chosen if each.row["kind"] == "faithful"]

    caught = figures(chosen)["caught"]

    assert faithful.count(False) <= most_failing * len(faithful)
    assert caught["new"] >= fewest_caught
    assert min(caught[kind] for kind in ("number", "date")) >= 0.85


def test_no_answer_with_something_new_passes(decisions: list[Decision]) -> None:
    wrong = [each.row["id"] for each in decisions if each.row["kind"] in NEW and each.result.passed]

    assert len(wrong) <= 1


def test_every_row_is_judged(decisions: list[Decision]) -> None:
    assert {each.result.status for each in decisions} == {"judged"}
