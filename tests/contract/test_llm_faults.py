"""Whatever a judge does wrong, the next tier answers alone, in time, and the result says what failed before it."""

import json
from typing import Any

import pytest

from tests.doubles.scripted_faults import close_mid_body, reset_mid_body, trickle
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import (
    Scripted,
    completion,
    openai_error,
    raw_body,
)
from tests.running.service import claim, evaluate, judge_settings, running, verdicts

CONTEXT = "The Marlow Bridge was opened in 1931."
ANSWER = f"{CONTEXT} Zebras enjoy quantum jazz."
GOOD = verdicts([claim("a", "supported", "opened in 1931")], [claim("b", "partial", "The Marlow Bridge")])
# The judge's word, had it counted, would give (1 + 0.5) / 2; by tier embedding the second sentence, which shares no
# word, pulls the answer below one half.
BY_JUDGE = 0.75

PATIENCE_SECONDS = 3.0


def altered(**fields: Any) -> str:
    """The good reply with its first claim changed."""
    reply = json.loads(GOOD)
    reply["sentences"][0].update(fields)
    return json.dumps(reply)


def with_ids(*ids: object) -> str:
    """The good reply's first sentence under each of these ids."""
    sentence = json.loads(GOOD)["sentences"][0]
    return json.dumps({"sentences": [{**sentence, "id": each} for each in ids]})


# Each fault of the transport by itself is in test_transport_faults: here is one of each kind.
FAULTS: dict[str, tuple[Scripted, str]] = {
    "429": (openai_error(429, "rate_limit_exceeded"), "rate_limited"),
    "400 data_inspection_failed": (openai_error(400, "data_inspection_failed"), "content_filtered"),
    "closed mid body": (close_mid_body(completion(GOOD), 120), "connection"),
    "lone surrogate in body": (raw_body(rb'{"choices": [{"message": {"content": "\ud800"}}]}'), "invalid_reply"),
    "content null": (completion(None), "empty_reply"),
    "refusal beside content": (completion(GOOD, refusal="I cannot help with that."), "refused"),
    "2 MB of content": (completion(GOOD.removesuffix("}") + " " * 2_000_000 + "}"), "invalid_reply"),
}
CONTENTS: dict[str, str] = {
    "prose": "Both sentences look fine to me!",
    "no sentences": "{}",
    "sentences empty": '{"sentences": []}',
    "sentences an object": '{"sentences": {"1": []}}',
    "verdict outside the enum": altered(verdict="probably"),
    "verdict null": altered(verdict=None),
    "verdict a number": altered(verdict=1),
    "verdict a list": altered(verdict=["supported"]),
    "missing sentence": with_ids(1),
    "ids of others": with_ids(7, 8),
    "ids beyond integers": with_ids(1, 10**400),
    "ids not whole": with_ids(1, 7.5),
    "claims null": '{"sentences": [{"id": 1, "claims": null}, {"id": 2, "claims": null}]}',
    "deeply nested": '{"sentences": ' + '[{"a":' * 10_000 + "1" + "}]" * 10_000 + "}",
    "NaN for a verdict": GOOD.replace('"supported"', "NaN"),
    "lone surrogate": altered(reason="\ud800"),
}
FINE: dict[str, str] = {
    "plain": GOOD,
    "a list": json.dumps(json.loads(GOOD)["sentences"]),
    "in a fence": f"```json\n{GOOD}\n```",
    "after prose": f"Here is my judgement:\n\n{GOOD}",
    "before prose": f"{GOOD}\n\nLet me know if you need more.",
    "with a byte order mark": f"\ufeff{GOOD}",
    "verdict in capitals": altered(verdict=" Supported "),
    "fields nobody asked for": altered(confidence=0.9, note={"a": [None]}),
    "claims in a list of their sentence": json.dumps(
        {"sentences": [{"id": 1, "claims": [json.loads(GOOD)["sentences"][0]]}, json.loads(GOOD)["sentences"][1]]}
    ),
    "quotes null": altered(quotes=None, quote="opened in 1931"),
    "reason null": altered(reason=None),
    "after a thought": f"<think>{altered(verdict='contradicted')}</think>{GOOD}",
    "cut after a brace": GOOD[: GOOD.rindex("}")],
    "quote a list": altered(quote=["opened in 1931"]),
    "NaN beside the verdicts": GOOD.replace('"id": 1', '"score": NaN, "id": 1'),
    "Infinity beside the verdicts": GOOD.replace('"id": 1', '"score": -Infinity, "id": 1'),
    "two objects": f"{GOOD}\n{GOOD}",
}


def assert_next_tier_answered(result: dict[str, Any], reason: str) -> None:
    """Proves that tier 2 alone made the result, after tier 1 failed for this reason."""
    llm, embedding = result["trace"]["attempts"]
    assert (llm["tier"], llm["outcome"], llm["reason"]) == ("llm", "failed", reason)
    assert llm["detail"]
    assert (embedding["tier"], embedding["outcome"], embedding["reason"]) == ("embedding", "answered", None)
    assert (result["status"], result["tier"]) == ("judged", "embedding")
    assert 0 < result["faithfulness"] < 0.5
    assert result["hallucination_rate"] == pytest.approx(1 - result["faithfulness"])
    assert (
        result["scores"]["faithfulness_strict"],
        result["scores"]["contradiction_rate"],
        result["scores"]["unsupported_rate"],
    ) == (None,) * 3
    assert result["trace"]["judge"]["model"] == "words"
    assert result["trace"]["judge"]["tokens"] == {"prompt": None, "completion": None}
    assert [made.get("reason_code") for made in result["claims"]] == [None, "little_like_it"]
    assert "degraded" in result["flags"]
    assert any(reason in warning["text"] for warning in result["warnings"])


async def result_of(judge: ScriptedJudge, step: Scripted, *, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    judge.reply_with(step)
    async with running(judge_settings(judge, deadline_seconds=seconds)) as client:
        return await evaluate(client, contexts=[CONTEXT], answer=ANSWER)


@pytest.mark.parametrize(("step", "reason"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_of_the_judge_falls_through(judge: ScriptedJudge, step: Scripted, reason: str) -> None:
    result = await result_of(judge, step)

    assert_next_tier_answered(result, reason)


async def test_a_late_judge_leaves_time_for_the_next_tier(judge: ScriptedJudge) -> None:
    result = await result_of(judge, trickle(completion(GOOD), bytes_per_second=20), seconds=0.5)

    late, following = result["trace"]["attempts"][:2]
    assert (late["tier"], late["reason"]) == ("llm", "timeout")
    # How much time is left is the cascade's test: here a busy machine may have used it up.
    assert following["tier"] == "embedding"
    # Nobody is left waiting for it.
    await judge.wait_until(lambda: judge.in_flight == 0)


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
async def test_verdicts_of_the_wrong_form_fall_through(judge: ScriptedJudge, content: str) -> None:
    result = await result_of(judge, completion(content))

    assert_next_tier_answered(result, "invalid_reply")


@pytest.mark.parametrize("content", FINE.values(), ids=FINE)
async def test_verdicts_are_read_in_whatever_wrapping(judge: ScriptedJudge, content: str) -> None:
    result = await result_of(judge, completion(content))

    assert (result["tier"], result["faithfulness"]) == ("llm", BY_JUDGE)


async def test_the_call_after_a_failure_is_made_and_counts(judge: ScriptedJudge) -> None:
    judge.reply_with(reset_mid_body(completion(GOOD), 50), openai_error(500, None), completion(GOOD))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=[CONTEXT], answer=ANSWER)

    assert (result["tier"], result["faithfulness"], judge.calls) == ("llm", BY_JUDGE, 3)


async def test_a_judge_that_failed_is_asked_for_the_next_sample(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(410, None), completion(GOOD))

    async with running(judge_settings(judge)) as client:
        tiers = [(await evaluate(client, contexts=[CONTEXT], answer=ANSWER))["tier"] for _ in range(2)]

    assert tiers == ["embedding", "llm"]


async def test_a_cut_reply_whose_items_are_whole_is_read(judge: ScriptedJudge) -> None:
    result = await result_of(judge, completion(GOOD, finish_reason="length"))

    assert (result["tier"], result["faithfulness"]) == ("llm", BY_JUDGE)
