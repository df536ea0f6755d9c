"""The ends of the cascade: nothing configured, nobody left to answer, and bugs, which no tier below may hide."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import openai_error
from tests.running.edge_app import read_problem
from tests.running.service import URL, evaluate, judge_settings, plain_settings, read_result, running

SAMPLE: dict[str, Any] = {
    "contexts": ["The Marlow Bridge was opened in 1931."],
    "answer": "The Marlow Bridge was opened in 1931.",
}
SCORES = ("faithfulness", "hallucination_rate", "passed", "decision", "confidence")


class BrokenEncoder(WordEncoder):
    """Raises what it is given."""

    def __init__(self, error: Exception, model: str = "words") -> None:
        super().__init__(model)
        self._error = error

    async def read(self, texts: Sequence[str], *, seconds: float, scope: str = "") -> TokenizedTexts:
        raise self._error


class SlowEncoder(WordEncoder):
    """Takes for ever."""

    async def encode(self, reading: TokenizedTexts, *, seconds: float, **options: Any) -> TokenVectors:
        await asyncio.sleep(3600)
        raise AssertionError


def reasons(result: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(attempt["tier"], attempt["reason"]) for attempt in result["trace"]["attempts"]]


# --- no judge


async def test_without_a_judge_the_next_tier_answers_and_says_so() -> None:
    async with running(plain_settings()) as client:
        result = await evaluate(client, **SAMPLE)

    assert result["tier"] == "embedding"
    assert reasons(result) == [("llm", "not_configured"), ("embedding", None)]
    assert "DASHSCOPE_API_KEY" in result["trace"]["attempts"][0]["detail"]
    assert "degraded" in result["flags"]


async def test_without_a_judge_readiness_says_so_and_names_the_tier_that_answers() -> None:
    async with running(plain_settings()) as client:
        response = await client.get("/readyz")

    report = response.json()
    assert (response.status_code, report["status"], report["first_tier"]) == (200, "ready", "embedding")
    assert report["tiers"]["llm"]["state"] == "unavailable"
    assert "no judge is configured" in report["tiers"]["llm"]["detail"]


async def test_without_a_judge_and_a_model_words_are_compared() -> None:
    missing = BrokenEncoder(TierFailure(FailureReason.NOT_INSTALLED, "no model here"))

    async with running(plain_settings(), encoder=missing) as client:
        result = await evaluate(client, **SAMPLE)

    assert (result["tier"], result["faithfulness"]) == ("lexical", VERBATIM_SUPPORT)
    assert reasons(result) == [("llm", "not_configured"), ("embedding", "not_installed"), ("lexical", None)]


async def test_a_tier_that_was_chosen_and_answers_is_no_degradation() -> None:
    async with running(plain_settings()) as client:
        result = await evaluate(client, **SAMPLE, tiers=["lexical"])

    assert "degraded" not in result["flags"]
    assert result["warnings"] == []


# --- nobody left


async def test_a_failing_judge_without_a_fallback_gives_no_score(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(503, None))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, **SAMPLE, tiers=["llm"])

    assert (result["status"], result["tier"], result["trace"]["judge"]) == ("not_judged", None, None)
    assert {name: result[name] for name in SCORES} == dict.fromkeys(SCORES)
    assert set(result["scores"].values()) == {None}
    assert (result["claims"], result["contexts_used"]) == ([], [])
    assert set(result["counts"].values()) == {0}
    assert reasons(result) == [("llm", "upstream_error")]
    assert result["warnings"]


async def test_when_every_tier_fails_every_reason_is_given() -> None:
    english_only = WordEncoder("all-MiniLM-L6-v2")

    async with running(plain_settings(), encoder=english_only) as client:
        result = await evaluate(
            client, contexts=SAMPLE["contexts"], answer="大桥于1931年通车。", tiers=["embedding", "lexical"]
        )

    assert (result["status"], result["tier"]) == ("not_judged", None)
    assert {name: result[name] for name in SCORES} == dict.fromkeys(SCORES)
    assert set(result["scores"].values()) == {None}
    assert reasons(result) == [("embedding", "unsupported_language"), ("lexical", "cross_lingual")]


async def test_a_slow_tier_leaves_time_for_the_last_one() -> None:
    async with running(plain_settings(deadline_seconds=0.5), encoder=SlowEncoder()) as client:
        # Its word lists are loaded with the first sample
        await evaluate(client, **SAMPLE, tiers=["lexical"], deadline_seconds=20)
        result = await evaluate(client, **SAMPLE)

    assert result["tier"] == "lexical"
    assert reasons(result)[1] == ("embedding", "timeout")


async def test_the_chosen_order_is_kept(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(500, None))

    async with running(judge_settings(judge), encoder=WordEncoder("all-MiniLM-L6-v2")) as client:
        result = await evaluate(
            client, contexts=SAMPLE["contexts"], answer="大桥于1931年通车。", tiers=["lexical", "llm", "embedding"]
        )

    assert [tier for tier, _ in reasons(result)] == ["lexical", "llm", "embedding"]


# --- bugs


@pytest.mark.parametrize("error", [ZeroDivisionError("the secret of Marlow"), TimeoutError("the secret of Marlow")])
async def test_a_bug_in_a_tier_is_a_500_and_not_an_answer_of_the_next(error: Exception) -> None:
    async with running(plain_settings(), encoder=BrokenEncoder(error)) as client:
        response = await client.post(URL, json=SAMPLE)

    problem = read_problem(response, 500)
    assert problem.type == "urn:plumbline:problem:internal"
    assert "secret" not in response.text
    assert type(error).__name__ not in response.text


async def test_a_model_that_gives_numbers_that_are_none_never_makes_a_score() -> None:
    class Nan(WordEncoder):
        async def encode(self, reading: TokenizedTexts, *, seconds: float, **options: Any) -> TokenVectors:
            found = await super().encode(reading, seconds=seconds)
            return replace(found, vectors=np.full_like(found.vectors, np.nan))

    async with running(plain_settings(), encoder=Nan()) as client:
        response = await client.post(URL, json={**SAMPLE, "answer": "Zebras enjoy quantum jazz."})

    assert reasons(read_result(response))[-2:] == [
        ("embedding", "invalid_reply"),
        ("lexical", None),
    ]


async def test_the_service_answers_after_a_bug() -> None:
    encoder = BrokenEncoder(ZeroDivisionError("x"))

    async with running(plain_settings(), encoder=encoder) as client:
        await client.post(URL, json=SAMPLE)
        result = await evaluate(client, **SAMPLE, tiers=["lexical"])

    assert result["tier"] == "lexical"
