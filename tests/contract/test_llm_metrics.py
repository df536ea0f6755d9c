"""Metrics beside faithfulness over HTTP: one call, verdicts on sentences as ever, a status for each metric."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.test_llm_faults import CONTENTS, FAULTS, FINE, GOOD
from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, Scripted, completion
from tests.running.service import data_of, evaluate, judge_settings, marker_of, plain_settings, running

CONTEXTS = ["The Marlow Bridge was opened in 1931.", "The ferry was retired in 1930."]
SAMPLE: dict[str, Any] = {
    "question": "When was the bridge opened, and by whom?",
    "contexts": CONTEXTS,
    "answer": "The Marlow Bridge was opened in 1931. Zebras enjoy quantum jazz.",
}
METRICS = ["faithfulness", "answer_relevance", "context_relevance", "context_precision@1", "context_utilization"]
PARTS = {
    "question_parts": [
        {"part": "When was the bridge opened", "answered_by": [1], "answered": "fully"},
        {"part": "by whom", "answered_by": [], "answered": "no"},
    ]
}
PASSAGES = {
    "passages": [
        {"context": 1, "quote": "opened in 1931", "relevance": "relevant"},
        {"context": 2, "quote": "", "relevance": "irrelevant"},
    ]
}
VALUES = {
    "faithfulness": 0.75,
    "answer_relevance": 0.5,
    "context_relevance": 0.5,
    "context_precision@1": 1.0,
    "context_utilization": 0.5,
}


def whole(*lists: dict[str, Any]) -> str:
    """The good reply with these lists behind its sentences."""
    return json.dumps({**json.loads(GOOD), **{name: items for each in lists for name, items in each.items()}})


def values_of(result: dict[str, Any]) -> dict[str, Any]:
    return {name: metric["value"] for name, metric in result["metrics"].items()}


async def judged(judge: ScriptedJudge, *steps: Scripted, **sample: Any) -> dict[str, Any]:
    judge.reply_with(*steps)
    async with running(judge_settings(judge, deadline_seconds=3.0)) as client:
        return await evaluate(client, **{**SAMPLE, "metrics": METRICS, **sample})


async def test_five_metrics_take_one_call(judge: ScriptedJudge) -> None:
    result = await judged(judge, completion(whole(PARTS, PASSAGES)))

    assert values_of(result) == VALUES
    assert {metric["status"] for metric in result["metrics"].values()} == {"judged"}
    assert judge.calls == 1
    assert "ask_metrics/v4.en" in result["trace"]["judge"]["prompt"]


async def test_each_verdict_shows_its_evidence(judge: ScriptedJudge) -> None:
    result = await judged(judge, completion(whole(PARTS, PASSAGES)))

    when, who = result["metrics"]["answer_relevance"]["verdicts"]
    assert (when["verdict"], when["sentences"], who["verdict"], who["sentences"]) == ("fully", [0], "no", [])
    bridge, ferry = result["metrics"]["context_relevance"]["verdicts"]
    (quote,) = bridge["evidence"]
    assert (bridge["context"], bridge["verdict"]) == (0, "relevant")
    assert CONTEXTS[0][quote["start"] : quote["end"]] == quote["quote"] == "opened in 1931"
    assert (ferry["context"], ferry["verdict"], ferry["evidence"]) == (1, "irrelevant", [])


async def test_without_metrics_request_and_result_are_as_ever(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(GOOD))
    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, **SAMPLE)

    assert result["metrics"] == {}
    assert result["trace"]["judge"]["prompt"] == "verify_claims/v4.en"
    assert "question_parts" not in judge.requests[0].prompt


async def test_a_comparison_by_n_grams_buys_no_call(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(GOOD))
    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, **SAMPLE, reference="大桥", metrics=["bleu", "chrf", "gleu"])

    assert judge.calls == 1
    assert "question_parts" not in judge.requests[0].prompt
    assert values_of(result) == {"bleu": 0.0, "chrf": 0.0, "gleu": 0.0}
    assert {metric["status"] for metric in result["metrics"].values()} == {"judged"}


async def test_the_verdicts_on_sentences_do_not_depend_on_the_metrics(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(GOOD))
    async with running(judge_settings(judge)) as client:
        alone = await evaluate(client, **SAMPLE)

    beside = await judged(judge, completion(whole(PARTS, PASSAGES)))

    for name in ("claims", "counts", "faithfulness", "passed", "contexts_used", "flags"):
        assert beside[name] == alone[name]


async def test_lists_left_out_cost_one_short_call(judge: ScriptedJudge) -> None:
    result = await judged(judge, completion(whole(PASSAGES)), completion(json.dumps(PARTS)))

    assert values_of(result) == VALUES
    first, second = judge.requests
    assert set(data_of(second)) == {"question", "answer"}
    assert len(second.body) < len(first.body) / 2


async def test_a_passage_left_out_is_asked_about_alone(judge: ScriptedJudge) -> None:
    one, other = PASSAGES["passages"]

    result = await judged(
        judge, completion(whole(PARTS, {"passages": [one]})), completion(json.dumps({"passages": [other]}))
    )

    assert values_of(result) == VALUES
    assert [context["id"] for context in data_of(judge.requests[1])["contexts"]] == [2]


async def test_ids_that_a_model_counts_itself_never_name_another_sentence_or_passage(judge: ScriptedJudge) -> None:
    def counted(request: RecordedRequest) -> Reply:
        said = {"mark": marker_of(request), **json.loads(whole(PARTS, PASSAGES))}
        return replace(completion(json.dumps(said)), keeps_ids=True)

    result = await judged(judge, counted)

    # Which sentence a 1 is, that answers a part of the question, cannot be told; what the list of passages counts can.
    assert values_of(result) == {**VALUES, "answer_relevance": None}
    assert result["metrics"]["answer_relevance"]["status"] == "not_judged"


@pytest.mark.parametrize("name", ["in a fence", "after a thought", "cut after a brace", "two objects"])
async def test_a_deformed_reply_costs_no_faithfulness(judge: ScriptedJudge, name: str) -> None:
    result = await judged(judge, completion(FINE[name]), completion(json.dumps({**PARTS, **PASSAGES})))

    assert (result["tier"], result["faithfulness"]) == ("llm", 0.75)
    assert values_of(result) == VALUES
    assert judge.calls == 2


@pytest.mark.parametrize("content", ['{"passages": [{"context": NaN}]}', "no", '{"question_parts": {"1": []}}', "[]"])
async def test_lists_that_nobody_can_read_have_a_status_of_their_own(judge: ScriptedJudge, content: str) -> None:
    result = await judged(judge, completion(GOOD), completion(content))

    assert (result["tier"], result["faithfulness"], judge.calls) == ("llm", 0.75, 2)
    for name in ("answer_relevance", "context_relevance", "context_precision@1"):
        metric = result["metrics"][name]
        assert (metric["value"], metric["status"], metric["reason"]) == (None, "not_judged", "invalid_reply")


@pytest.mark.parametrize("strange", [None, [], {}, [{}], [[]], "\ud800", 10**40, True])
async def test_strange_members_are_no_failure(judge: ScriptedJudge, strange: object) -> None:
    lists = {
        "question_parts": [{"part": strange, "answered_by": strange, "answered": "fully"}],
        "passages": [
            {"context": strange, "quote": strange, "relevance": strange},
            {"context": 1, "quote": [strange], "relevance": "relevant"},
            {"context": 2, "quote": "", "relevance": strange},
        ],
    }

    result = await judged(judge, completion(whole(lists)), completion(json.dumps(lists)))

    assert (result["tier"], result["faithfulness"]) == ("llm", 0.75)
    assert result["metrics"]["context_relevance"]["status"] == "not_judged"


@pytest.mark.parametrize("name", ["prose", "verdict a list", "missing sentence", "deeply nested", "lone surrogate"])
async def test_no_fault_of_the_judge_is_one_of_the_answer(judge: ScriptedJudge, name: str) -> None:
    result = await judged(judge, completion(CONTENTS[name]))

    assert set(result["metrics"]) == set(METRICS)
    for metric in result["metrics"].values():
        has_value = metric["status"] in {"judged", "uncalibrated"}
        assert (metric["value"] is not None) == has_value
        assert (metric["reason"] is None) == has_value


@pytest.mark.parametrize("step", [hang(), *(FAULTS[name][0] for name in ("429", "closed mid body", "content null"))])
async def test_a_second_call_that_fails_costs_its_metrics_alone(judge: ScriptedJudge, step: Scripted) -> None:
    result = await judged(judge, completion(whole(PASSAGES)), step)

    assert (result["tier"], result["faithfulness"]) == ("llm", 0.75)
    assert result["metrics"]["context_relevance"]["value"] == 0.5
    metric = result["metrics"]["answer_relevance"]
    assert (metric["value"], metric["status"]) == (None, "not_judged")


async def test_a_tier_without_a_judge_says_so() -> None:
    async with running(plain_settings()) as client:
        result = await evaluate(client, **SAMPLE, metrics=METRICS, tiers=["lexical"])

    assert result["metrics"]["context_precision@1"]["status"] == "not_judged"
    assert result["metrics"]["context_precision@1"]["reason"] == "not_by_tier_lexical"
    assert result["metrics"]["faithfulness"]["value"] == result["faithfulness"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("answer_relevancy", "did you mean 'answer_relevance'?"), ("faithfulness@3", "did you mean 'faithfulness'?")],
)
async def test_an_unknown_metric_is_named(name: str, hint: str) -> None:
    async with running(plain_settings()) as client:
        response = await client.post("/v1/evaluations", json={**SAMPLE, "metrics": [name]})
        batch = await client.post("/v1/evaluations/batch", json={"samples": [SAMPLE], "options": {"metrics": [name]}})

    for answer, place in ((response, "/metrics"), (batch, "/options/metrics")):
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert hint in answer.text
        assert place in answer.text


async def test_rows_of_a_batch_have_the_metrics(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(whole(PARTS, PASSAGES)))
    async with running(judge_settings(judge)) as client:
        body = {"samples": [{**SAMPLE, "custom_id": "a"}], "options": {"metrics": METRICS}, "format": "ndjson"}
        response = await client.post("/v1/evaluations/batch", json=body)

    (row,) = [each for each in map(json.loads, response.text.splitlines()) if "result" in each]
    assert values_of(row["result"]) == VALUES


async def test_verdicts_are_cached_by_metrics(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(whole(PARTS, PASSAGES)))
    async with running(judge_settings(judge)) as client:
        first = await evaluate(client, **SAMPLE)
        second = await evaluate(client, **SAMPLE, metrics=METRICS)
        third = await evaluate(client, **SAMPLE, metrics=METRICS)

    assert [each["trace"]["judge"]["cache"] for each in (first, second, third)] == ["miss", "miss", "hit"]
    assert third["metrics"] == second["metrics"]
    assert judge.calls == 2


REFERENCE = "The Marlow Bridge was opened in 1931."
COMPARED = {
    "reference_in_answer": [{"reference": 1, "fact": REFERENCE, "stated_by": [1], "in_answer": "stated"}],
    "reference_in_contexts": [{"reference": 1, "fact": REFERENCE, "quote": "opened in 1931", "in_contexts": "found"}],
    "claims_by_reference": [
        {"claim_id": "0.0", "quote": "opened in 1931", "by_reference": "stated"},
        {"claim_id": "1.0", "quote": "", "by_reference": "not_mentioned"},
    ],
}


async def test_a_reference_takes_one_more_call_for_all_that_compare(judge: ScriptedJudge) -> None:
    names = ["answer_relevance", "context_recall", "correctness", "noise_sensitivity"]

    result = await judged(
        judge, completion(whole(PARTS)), completion(json.dumps(COMPARED)), reference=REFERENCE, metrics=names
    )

    # recall 1/1, precision 1/2; the second claim is not supported by the contexts, only partly
    assert values_of(result) == {
        "answer_relevance": 0.5, "context_recall": 1.0, "correctness": 0.666667, "noise_sensitivity": 0.0,
    }  # fmt: skip
    assert result["metrics"]["correctness"]["parts"] == {"recall": 1.0, "precision": 0.5, "contradicted": 0.0}
    assert judge.calls == 2
    assert [each["id"] for each in data_of(judge.requests[1])["claims"]] == ["0.0", "1.0"]


async def test_the_second_call_shows_no_text_twice_and_no_passage_without_a_word_of_the_reference(
    judge: ScriptedJudge,
) -> None:
    names = ["context_recall", "correctness"]
    contexts = [*CONTEXTS, "Zebras graze at dusk.", "一座桥。"]

    result = await judged(
        judge, completion(GOOD), completion(json.dumps(COMPARED)), reference=REFERENCE, metrics=names, contexts=contexts
    )

    assert values_of(result) == {"context_recall": 1.0, "correctness": 0.666667}
    shown = data_of(judge.requests[1])
    # The ferry was retired, the bridge opened: one shares no word with the reference, one is in another language.
    assert [each["id"] for each in shown["contexts"]] == [1, 4]
    assert shown["claims"] == [{"id": "0.0", "sentence": 1}, {"id": "1.0", "sentence": 2}]
    assert all("reference" not in data_of(request) for request in judge.requests[:1])


@pytest.mark.parametrize("tier", ["embedding", "lexical"])
async def test_tiers_without_a_judge_estimate_what_they_can(tier: str) -> None:
    names = ["answer_relevance", "context_relevance", "context_recall", "correctness"]
    untold = ["context_precision", "noise_sensitivity"]
    async with running(plain_settings()) as client:
        sample = {**SAMPLE, "metrics": [*names, *untold], "tiers": [tier]}
        same = await evaluate(client, **sample, reference=REFERENCE)
        other = await evaluate(client, **{**sample, "question": "Who wrote the opera?"}, reference="It is a duck.")

    for name in names:
        assert (same["metrics"][name]["status"], same["metrics"][name]["reason"]) == ("uncalibrated", None)
        assert 0 <= other["metrics"][name]["value"] < same["metrics"][name]["value"] <= 1
    for name in untold:
        metric = same["metrics"][name]
        assert (metric["value"], metric["status"], metric["reason"]) == (None, "not_judged", f"not_by_tier_{tier}")
