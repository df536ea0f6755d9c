"""Rows of a file wait for a judge that asks for patience, in whichever way; a single request keeps its deadline."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, openai_error, status
from tests.integration.test_score_judge import answer
from tests.making.score_files import read_rows, sample_row, score, write_rows
from tests.running.service import evaluate, judge_settings, running

CALLS, ROWS = 6, 30
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
WAYS: dict[str, Callable[[float], Reply]] = {
    "Retry-After": lambda left: openai_error(429, "limit", headers={"retry-after": f"{left:.3f}"}),
    "milliseconds": lambda left: openai_error(429, "limit", headers={"retry-after-ms": f"{1_000 * left:.0f}"}),
    "x-ratelimit-reset": lambda left: openai_error(429, "limit", headers={"x-ratelimit-reset-tokens": f"{left:.3f}s"}),
    "OpenAI's words": lambda left: openai_error(429, "limit", f"Used 6 of 6. Please try again in {left:.3f}s. See"),
    "Groq's words": lambda left: openai_error(429, "limit", f"Please try again in 0m{left:.3f}s."),
    "Gemini's details": lambda left: status(
        429, [{"error": {"code": 429, "details": [{"@type": RETRY_INFO, "retryDelay": f"{left:.3f}s"}]}}]
    ),
    "Azure's words": lambda left: openai_error(429, "429", f"Please retry after {left:.3f} seconds. Please go here"),
    "Chinese": lambda left: openai_error(429, "1302", f"速率达到上限，请在 {left:.3f} 秒后重试"),
    "DashScope, not told": lambda _: status(429, {"code": "Throttling.RateQuota", "message": "please try again later"}),
}


def limited(refusal: Callable[[float], Reply], *, window_seconds: float = 0.2) -> Callable[[RecordedRequest], Reply]:
    """A judge that answers so many calls in a window, and refuses the others."""
    answered: deque[float] = deque(maxlen=CALLS)

    def step(request: RecordedRequest) -> Reply:
        now = request.arrived_seconds
        if len(answered) == CALLS and now < answered[0] + window_seconds:
            return refusal(answered[0] + window_seconds - now + 0.002)
        answered.append(now)
        return answer(request)

    return step


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    with running_judge() as judge:
        for name, value in {
            "PROVIDER": "generic",
            "BASE_URL": judge.base_url,
            "MODEL": "judge-1",
            "API_KEY": "sk-judge-key-0001",
        }.items():
            monkeypatch.setenv(f"PLUMBLINE_LLM_{name}", value)
        yield judge


def tiers_of_rows(folder: Path, *options: str) -> list[str]:
    data = write_rows(folder / "data.jsonl", [sample_row(number) for number in range(ROWS)])
    assert score(data, "-o", folder / "out.jsonl", "--quiet", "--tiers", "llm,lexical", *options) == 0
    return [row["result"]["tier"] for row in read_rows(folder / "out.jsonl")]


@pytest.mark.parametrize("refusal", WAYS.values(), ids=WAYS)
def test_every_row_is_judged_by_a_judge_of_few_calls(
    tmp_path: Path, judge: ScriptedJudge, refusal: Callable[[float], Reply]
) -> None:
    judge.reply_with(limited(refusal))

    assert tiers_of_rows(tmp_path) == ["llm"] * ROWS


def test_a_row_outlasts_its_deadline_as_long_as_others_are_answered(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(limited(WAYS["OpenAI's words"], window_seconds=1.0))

    # All rows take four seconds, of which a tier with another behind it gets three fifths.
    assert tiers_of_rows(tmp_path, "--deadline", "4") == ["llm"] * ROWS


def test_an_overloaded_judge_is_waited_for(tmp_path: Path, judge: ScriptedJudge) -> None:
    overloaded = openai_error(503, None, "The model is overloaded. Please try again later.")
    judge.reply_with(answer, *[overloaded] * 4, answer)

    assert tiers_of_rows(tmp_path, "--concurrency", "1") == ["llm"] * ROWS


def test_a_judge_that_answers_nobody_is_not_waited_for_beyond_a_deadline(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(WAYS["OpenAI's words"](0.2))

    assert tiers_of_rows(tmp_path, "--deadline", "4") == ["lexical"] * ROWS


async def test_rows_of_a_job_wait_for_a_judge_of_few_calls(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(limited(WAYS["OpenAI's words"]))
    rows = [sample_row(number) for number in range(ROWS)]

    async with running(judge_settings(judge, data_dir=tmp_path), encoder=WordEncoder()) as client:
        sent = await client.post("/v1/jobs", json={"rows": rows, "options": {"tiers": ["llm", "lexical"]}})
        place = f"/v1/jobs/{sent.json()['id']}"
        for _ in range(400):
            if (await client.get(place)).json()["status"] in ("completed", "completed_with_errors"):
                break
            await asyncio.sleep(0.05)
        results = (await client.get(f"{place}/results")).text.splitlines()

    assert [json.loads(line)["result"]["tier"] for line in results] == ["llm"] * ROWS


async def test_a_single_request_makes_three_tries(judge: ScriptedJudge) -> None:
    judge.reply_with(WAYS["OpenAI's words"](0.01))

    async with running(judge_settings(judge), encoder=WordEncoder()) as client:
        result = await evaluate(client, contexts=["It opened in 1931."], answer="It opened in 1931.")

    assert (result["tier"], judge.calls) == ("embedding", 3)
