"""Many callers at once over a real socket: every result is its caller's own, and health answers meanwhile."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT
from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.running.service import (
    URL,
    claim,
    data_of,
    judge_settings,
    plain_settings,
    read_result,
    served,
    verdicts,
)

_CALLERS = 32
_BURN_SECONDS = 0.03


class BurningEncoder(WordEncoder):
    """Multiplies matrices in a thread, as a model does, before it gives its vectors."""

    async def encode(self, reading: TokenizedTexts, *, seconds: float, **options: Any) -> TokenVectors:
        await asyncio.to_thread(_burn)
        return await super().encode(reading, seconds=seconds)


def _burn() -> None:
    matrix, until = np.ones((300, 300), dtype=np.float32), time.monotonic() + _BURN_SECONDS
    while time.monotonic() < until:
        matrix @ matrix


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(create_app(plain_settings(), encoder=BurningEncoder())) as url:
        yield url


def sample(number: int, tier: str) -> dict[str, Any]:
    """Even numbers copy their context, odd ones share no four characters with it."""
    name = chr(ord("a") + number // 26) * 3 + chr(ord("a") + number % 26) * 3
    context = f"Station {name} was opened in {1000 + number} by the engineer of {name}."
    answer = context if number % 2 == 0 else f"Zebras enjoy quantum jazz {number}."
    return {"id": f"caller-{number}", "contexts": [context], "answer": answer, "tiers": [tier]}


def assert_own(result: dict[str, Any], number: int, tier: str) -> None:
    """Proves that the result is that of `sample(number, tier)`."""
    sent = sample(number, tier)
    assert (result["id"], result["status"], result["tier"]) == (sent["id"], "judged", tier)
    assert [claim["text"] for claim in result["claims"]] == [sent["answer"]]
    (made,) = result["claims"]
    expected = ("supported", VERBATIM_SUPPORT) if number % 2 == 0 else ("not_mentioned", 0.0)
    assert (made["verdict"], made["support"]) == expected
    assert {each["quote"] for each in made["evidence"]} <= set(sent["contexts"])
    assert len(made["evidence"]) == 1 or number % 2


@pytest.mark.parametrize("tier", ["embedding", "lexical"])
async def test_32_callers_at_once_each_get_their_own_result(url: str, tier: str) -> None:
    for number, result in enumerate(await results_of(url, tier)):
        assert_own(result, number, tier)


async def test_health_answers_while_a_sample_is_encoded() -> None:
    encoding, may_end = threading.Event(), threading.Event()

    class HeldEncoder(WordEncoder):
        async def encode(self, reading: TokenizedTexts, *, seconds: float, **options: Any) -> TokenVectors:
            encoding.set()
            await asyncio.to_thread(may_end.wait)
            return await super().encode(reading, seconds=seconds)

    app = create_app(plain_settings(deadline_seconds=60), encoder=HeldEncoder())
    with served(app) as url:
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            asking = asyncio.create_task(client.post(URL, json=sample(0, "embedding")))
            await asyncio.to_thread(encoding.wait)
            health = await client.get("/healthz")
            may_end.set()
            response = await asking

    assert health.status_code == 200
    assert_own(read_result(response), 0, "embedding")


async def test_32_callers_at_once_get_the_verdicts_on_their_own_answers() -> None:
    def verdict(request: RecordedRequest) -> Reply:
        context = data_of(request)["contexts"][0]["text"]
        answer = data_of(request)["answer"][0]["text"]
        made = claim(answer, "supported", context) if answer == context else claim(answer, "contradicted", context)
        return completion(verdicts([made]), delay_seconds=0.05)

    with running_judge() as judge:
        judge.reply_with(verdict)
        with served(create_app(judge_settings(judge), encoder=WordEncoder())) as url:
            results = await results_of(url, "llm")

    assert_every_caller_was_judged(results, judge)


async def results_of(url: str, tier: str) -> list[dict[str, Any]]:
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        return [
            read_result(response)
            for response in await asyncio.gather(
                *(client.post(URL, json=sample(number, tier)) for number in range(_CALLERS))
            )
        ]


def assert_every_caller_was_judged(results: list[dict[str, Any]], judge: ScriptedJudge) -> None:
    for number, result in enumerate(results):
        assert (result["id"], result["tier"]) == (f"caller-{number}", "llm")
        assert result["claims"][0]["text"] == sample(number, "llm")["answer"]
        assert result["faithfulness"] == (1.0 if number % 2 == 0 else 0.0)
    assert judge.calls == _CALLERS
    assert judge.max_in_flight > 1
