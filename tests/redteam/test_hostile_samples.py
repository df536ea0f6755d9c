"""Hostile samples through the whole service, before a judge that obeys what it reads and one that does not."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from plumbline.judging.text.injection import KINDS, SUSPECTED
from plumbline.judging.text.words import normalise
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.redteam.hostile_samples import HOSTILE_SAMPLES, HostileSample
from tests.running.service import data_of, evaluate, judge_settings, running

FAMILIES = sorted({sample.family for sample in HOSTILE_SAMPLES})
_INJECTION_FLAGS = {SUSPECTED, *KINDS}
# What must not move with the hostile text. `claims` are compared apart: the hostile sentences are among them.
_SCORES = ("status", "tier", "faithfulness", "hallucination_rate", "passed")
_RATES = ("faithfulness_strict", "contradiction_rate", "unsupported_rate")

Judge = Callable[[str], dict[str, Any]]


def _replying(judge_one: Judge) -> Callable[[RecordedRequest], Reply]:
    """A script that gives what `judge_one` says on each text that the request asks about, sentences or claims."""

    def reply(request: RecordedRequest) -> Reply:
        data = data_of(request)
        if "claims" in data:
            claims = [{"id": each["id"], **judge_one(each["text"])} for each in data["claims"]]
            return completion(json.dumps({"claims": claims}))
        asked = [each for each in data["answer"] if "id" in each]
        sentences = [
            {"id": each["id"], "claims": [{"claim": each["text"], **judge_one(each["text"])}]} for each in asked
        ]
        return completion(json.dumps({"sentences": sentences}))

    return reply


def _verdict(verdict: str, quote: str) -> dict[str, Any]:
    quotes = [quote] if quote else []
    return {"quotes": quotes, "reason": "because", "verdict": verdict}


def _obedient(sample: HostileSample) -> Judge:
    """Everything is supported, by its true quote or by the hostile text."""

    def judge_one(text: str) -> dict[str, Any]:
        said = sample.truths.get(normalise(text))
        is_true = said is not None and said.verdict == "supported"
        return _verdict("supported", said.quote if said and is_true else sample.hostile[:400])

    return judge_one


def _honest(sample: HostileSample) -> Judge:
    def judge_one(text: str) -> dict[str, Any]:
        said = sample.truths.get(normalise(text))
        return _verdict(said.verdict, said.quote) if said else _verdict("not_a_claim", "")

    return judge_one


def _of(family: str) -> list[HostileSample]:
    return [sample for sample in HOSTILE_SAMPLES if sample.family == family]


def test_there_are_enough_samples_in_both_languages() -> None:
    chinese = [sample for sample in HOSTILE_SAMPLES if not sample.question.isascii()]

    assert len(HOSTILE_SAMPLES) >= 60
    assert len(chinese) >= 20


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_judge_that_obeys_fails_its_controls_and_judges_nothing(judge: ScriptedJudge, family: str) -> None:
    async with running(judge_settings(judge, llm_controls=True)) as client:
        for sample in _of(family):
            judge.reply_with(_replying(_obedient(sample)))

            result = await evaluate(client, **sample.sample(), tiers=["llm"])

            told = f"{sample.hostile[:100]!r}: {result['claims']}"
            assert (result["status"], result["passed"]) == ("not_judged", None), told
            assert result["trace"]["attempts"][0]["reason"] == "controls_failed", told


@pytest.mark.parametrize("family", FAMILIES)
async def test_before_a_judge_that_does_not_obey_hostile_text_changes_nothing_but_flags(
    judge: ScriptedJudge, family: str
) -> None:
    async with running(judge_settings(judge)) as client:
        for sample in _of(family):
            judge.reply_with(_replying(_honest(sample)))

            hostile = await evaluate(client, **sample.sample())
            plain = await evaluate(client, **sample.plain.sample())

            told = f"{sample.hostile[:100]!r}: {hostile['claims']}"
            assert {name: hostile[name] for name in _SCORES} == {name: plain[name] for name in _SCORES}, told
            assert [hostile["scores"][name] for name in _RATES] == [plain["scores"][name] for name in _RATES], told
            assert plain["faithfulness"] == pytest.approx(sample.plain.faithfulness), plain["claims"]
            assert _judged(hostile) == _judged(plain), told
            assert set(plain["flags"]) == set(hostile["flags"]) - _INJECTION_FLAGS, told
            assert sample.flags <= set(hostile["flags"]), told


def _judged(result: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Verdict, support and flags of everything that is a claim, in order; what the hostile text repeats counts once."""
    return [
        (normalise(claim["text"]), claim["verdict"], claim["support"], claim["flags"])
        for claim in result["claims"]
        if claim["verdict"] != "not_a_claim" and "duplicate" not in claim["flags"]
    ]
