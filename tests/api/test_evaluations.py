"""POST /v1/evaluations: statuses, scores that code decides, choices of the caller, offsets."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.errors import TooBusy
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT, highest_score
from plumbline.judging.tiers.tier import TierName
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion, openai_error
from tests.making.cases import load_cases
from tests.running.edge_app import read_problem
from tests.running.service import (
    URL,
    claim,
    evaluate,
    evaluate_every_shape,
    judge_settings,
    plain_settings,
    running,
    verdicts,
)

CONTEXT = "The Marlow Bridge was opened in 1931."
COPY = CONTEXT
FOREIGN = "Zebras enjoy quantum jazz."
UNSCORED = ("faithfulness", "hallucination_rate", "context_utilization", "passed", "decision", "confidence")


async def lexical(*, settings: dict[str, Any] | None = None, **sample: Any) -> dict[str, Any]:
    """The result of a sample from tier lexical."""
    async with running(plain_settings(**(settings or {}))) as client:
        return await evaluate(client, **{"contexts": [CONTEXT], "tiers": ["lexical"], **sample})


async def unjudged(judge: ScriptedJudge, **sample: Any) -> dict[str, Any]:
    """The result of a sample that must cost no call."""
    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, **sample)
    assert judge.calls == judge.connections == 0
    assert (result["tier"], result["trace"]["judge"], result["trace"]["attempts"]) == (None, None, [])
    return result


# --- statuses that code decides


@pytest.mark.parametrize(
    "answer", ["", "  ", "\n\t", "---", "**", "* * *", "😀", "🎉🎉!", "...", "。", "|---|---|", "\u200b"]
)
async def test_an_answer_without_a_letter_or_digit_is_empty_and_costs_no_call(
    judge: ScriptedJudge, answer: str
) -> None:
    result = await unjudged(judge, contexts=[CONTEXT], answer=answer)

    assert result["status"] == "empty_answer"
    assert [result[name] for name in UNSCORED] == [None] * len(UNSCORED)
    assert set(result["scores"].values()) == {None}
    assert result["claims"] == []


@pytest.mark.parametrize("answer", load_cases("evaluations", "declining"))
async def test_an_answer_that_declines_abstains_and_costs_no_call(judge: ScriptedJudge, answer: str) -> None:
    result = await unjudged(judge, contexts=[CONTEXT], answer=answer)

    assert result["status"] == "abstained"
    assert [result[name] for name in UNSCORED] == [None] * len(UNSCORED)
    assert set(result["scores"].values()) == {None}
    assert {made["verdict"] for made in result["claims"]} == {"not_a_claim"}


@pytest.mark.parametrize("contexts", [[], [""], [" \n", "---"], ["**", "😀"]])
async def test_an_assertion_without_a_context_is_judged_unfaithful_at_no_cost(
    judge: ScriptedJudge, contexts: list[str]
) -> None:
    result = await unjudged(judge, contexts=contexts, answer=f"{COPY} It is red.")

    assert (result["status"], result["faithfulness"], result["hallucination_rate"]) == ("judged", 0.0, 1.0)
    assert (result["passed"], result["flags"]) == (False, ["no_context"])
    assert result["counts"]["not_mentioned"] == 2
    assert [made["support"] for made in result["claims"]] == [0.0, 0.0]


async def test_declining_without_a_context_abstains(judge: ScriptedJudge) -> None:
    result = await unjudged(judge, contexts=[], answer="I don't know.")

    assert (result["status"], result["faithfulness"]) == ("abstained", None)


async def test_an_answer_that_declines_and_goes_on_is_judged() -> None:
    result = await lexical(answer=f"I don't know who designed it. {COPY}")

    assert (result["status"], result["faithfulness"]) == ("judged", VERBATIM_SUPPORT)
    assert [made["verdict"] for made in result["claims"]] == ["not_a_claim", "supported"]


# --- scores


async def test_a_foreign_sentence_lowers_the_whole_answer_and_its_claim_alone() -> None:
    result = await lexical(answer=f"{COPY} {FOREIGN}")

    # A copy of 37 characters, and 26 without a common word.
    assert 0.1 < result["faithfulness"] < 0.5
    assert result["hallucination_rate"] == round(1 - result["faithfulness"], 6)
    assert [(made["verdict"], made["support"], made["weight"]) for made in result["claims"]] == [
        ("supported", VERBATIM_SUPPORT, 37), ("not_mentioned", 0.0, 26),
    ]  # fmt: skip
    assert result["context_utilization"] == 0.5
    assert (result["contexts_used"], result["scores"]["contexts_used_share"]) == ([0], 1.0)


@pytest.mark.parametrize(("threshold", "passed"), [(0, True), (0.1, True), (0.5, False), (1, False)])
async def test_an_answer_passes_from_the_threshold_on(threshold: float, passed: bool) -> None:
    result = await lexical(answer=f"{COPY} {FOREIGN}", threshold=threshold)

    assert (result["passed"], result["decision"]["rule"]) == (passed, "threshold")
    assert result["decision"]["threshold"] == threshold


async def test_without_a_threshold_copies_pass_made_up_numbers_fail_and_the_rest_is_unsure() -> None:
    answers = (COPY, COPY.replace("1931", "1947"), f"{COPY} {FOREIGN}")

    copied, made_up, half = [await lexical(answer=answer) for answer in answers]

    assert [(each["passed"], each["decision"]["rule"]) for each in (copied, made_up, half)] == [
        (True, "copied"),
        (False, "hard_reason"),
        (None, "unsure"),
    ]
    assert min(copied["confidence"], made_up["confidence"]) >= 0.8
    assert (half.get("confidence"), copied["decision"].get("threshold")) == (None, None)
    assert [each["claim"] for each in made_up["decision"]["because"]] == ["0.0"]
    assert made_up["claims"][0]["flags"] == ["hard_reason"]
    assert (copied["scores"]["lowest_support"], copied["scores"]["unsupported_claims"]) == (VERBATIM_SUPPORT, 0)
    assert (half["scores"]["lowest_support"], half["scores"]["unsupported_claims"]) == (0.0, 1)


async def test_an_answer_without_contexts_fails_for_its_claims_unless_a_threshold_decides() -> None:
    answer = f"{COPY} It is red."
    plain = await lexical(contexts=[], answer=answer)
    thresholded = await lexical(contexts=[], answer=answer, threshold=0.0)

    assert (plain["passed"], plain["decision"]["rule"], plain["decision"]["threshold"]) == (
        False,
        "all_supported",
        None,
    )
    assert (plain["scores"]["lowest_support"], plain["scores"]["unsupported_claims"]) == (0.0, 2)
    assert (thresholded["passed"], thresholded["decision"]["rule"]) == (True, "threshold")


async def test_a_threshold_above_the_highest_score_of_the_tier_is_warned_of() -> None:
    highest = highest_score(TierName.LEXICAL)
    beyond = min(1.0, highest + 0.001)

    at, above = [await lexical(answer=COPY, threshold=threshold) for threshold in (highest, beyond)]

    assert (at["passed"], at["warnings"]) == (True, [])
    assert "threshold_unreachable" not in at["flags"]
    if beyond > highest:
        assert above["passed"] is False
        assert "threshold_unreachable" in above["flags"]
        (warning,) = above["warnings"]
        assert f"threshold {beyond:g} is above the highest score of a tier (lexical {highest:g})" in warning["text"]


async def test_the_threshold_of_the_service_holds_where_the_caller_names_none() -> None:
    result = await lexical(settings={"threshold": 0.1}, answer=f"{COPY} {FOREIGN}")

    assert (result["passed"], result["decision"]["threshold"]) == (True, 0.1)


@pytest.mark.parametrize(("answer", "reference", "f1", "exact"), load_cases("evaluations", "references"))
async def test_a_reference_is_compared_as_squad_does(answer: str, reference: str, f1: float, exact: float) -> None:
    result = await lexical(contexts=[CONTEXT, "1931年"], answer=answer, reference=reference)

    assert (result["scores"]["token_f1"], result["scores"]["exact_match"]) == (f1, exact)


async def test_a_reference_is_compared_even_where_there_is_no_score(judge: ScriptedJudge) -> None:
    result = await unjudged(judge, contexts=[CONTEXT], answer="", reference="1931")

    assert (result["status"], result["scores"]["token_f1"], result["scores"]["exact_match"]) == (
        "empty_answer",
        0.0,
        0.0,
    )


# --- what the caller chooses


@pytest.mark.parametrize(
    ("tiers", "tried"),
    [
        (["lexical"], ["lexical"]),
        (["embedding"], ["embedding"]),
        (["lexical", "embedding", "llm"], ["lexical"]),
        (["llm", "lexical"], ["llm", "lexical"]),
        (["llm", "lexical", "embedding"], ["llm", "lexical"]),
        (None, ["llm", "embedding"]),
    ],
)
async def test_tiers_are_asked_in_the_order_of_the_caller(
    judge: ScriptedJudge, tiers: list[str] | None, tried: list[str]
) -> None:
    judge.reply_with(openai_error(401, None))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=[CONTEXT], answer=COPY, tiers=tiers)

    assert [attempt["tier"] for attempt in result["trace"]["attempts"]] == tried
    assert result["tier"] == tried[-1]
    assert judge.calls == tried.count("llm")


async def test_a_tier_named_twice_is_refused() -> None:
    async with running(plain_settings()) as client:
        response = await client.post(URL, json={"contexts": [], "answer": "", "tiers": ["llm", "lexical", "llm"]})

    problem = read_problem(response, 422)
    assert [(each.pointer, each.detail) for each in problem.errors] == [("/tiers", "each tier may be named once")]


@pytest.mark.parametrize("unit", ["code_point", "utf16"])
async def test_offsets_count_in_the_unit_asked_for(judge: ScriptedJudge, unit: str) -> None:
    context, answer = f"🎉𝒳 {CONTEXT}", "😀👍🏽 Hello there. It was opened in 1931 🎉. It is red."
    judge.reply_with(
        completion(
            verdicts(
                [claim("a", "not_a_claim")], [claim("b", "supported", "opened in 1931")], [claim("c", "not_mentioned")]
            )
        )
    )

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=[context], answer=answer, offset_unit=unit)

    def cut(text: str, start: int, end: int) -> str:
        # JavaScript's slice: two bytes a unit
        return (
            text[start:end]
            if unit == "code_point"
            else text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")
        )

    assert result["tier"] == "llm"
    assert (result["offset_unit"], result["decision"]["because"][0]["sentence"]) == (unit, "It is red.")
    (evidence,) = result["claims"][1]["evidence"]
    assert cut(context, evidence["start"], evidence["end"]) == evidence["quote"] == "opened in 1931"
    assert cut(answer, result["claims"][1]["start"], result["claims"][1]["end"]) == "It was opened in 1931 🎉."


async def test_an_answer_just_under_the_limit_without_a_full_stop_is_answered() -> None:
    answer = " ".join(f"word{number}" for number in range(10_000))[:50_000].ljust(50_000, "x")
    contexts = [" ".join(f"word{each} term{each}." for each in range(index, index + 100)) for index in range(200)]

    async with running(plain_settings()) as client:
        result = await evaluate(client, contexts=contexts, answer=answer, tiers=["lexical"])

    assert len(answer) == 50_000
    assert result["tier"] == "lexical"


class BusyEncoder(WordEncoder):
    """Too much waits for it already."""

    async def encode(self, reading: TokenizedTexts, *, seconds: float, **options: Any) -> TokenVectors:
        raise TooBusy("the embedding model has 12 s of work waiting", retry_after_seconds=2.2)


async def test_a_sample_that_would_wait_too_long_for_the_model_is_refused_with_a_time_to_come_back() -> None:
    async with running(plain_settings(), encoder=BusyEncoder()) as client:
        response = await client.post(URL, json={"contexts": ["It is red."], "answer": "It was red."})
        others = {"contexts": ["It is red."], "answer": "It was red.", "tiers": ["lexical"]}
        lexical = await client.post(URL, json=others)

    assert (response.status_code, response.headers["retry-after"]) == (503, "3")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"].endswith("too-busy")
    assert lexical.status_code == 200


OLD_LINES = Path("tests/data/old_requests.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("tier", ["embedding", "lexical"])
async def test_features_that_a_request_does_not_use_change_nothing(tier: str) -> None:
    async with running(plain_settings()) as client:
        for request in map(json.loads, OLD_LINES):
            sample = {"question": "Which?", "contexts": request["contexts"], "answer": request["answer"]}
            results = await evaluate_every_shape(client, {**sample, "tiers": [tier]})

            assert results == results[:1] * 4


MESSAGES = [
    {"role": "user", "content": "When was the Marlow Bridge opened?"},
    {"role": "tool", "content": CONTEXT},
    {"role": "assistant", "content": COPY},
    {"role": "assistant", "content": FOREIGN},
]


async def test_each_turn_of_a_conversation_has_a_result() -> None:
    async with running(plain_settings()) as client:
        result = await evaluate(client, messages=MESSAGES, tiers=["lexical"], id="a")

    assert (result["id"], result["status"], result["passed"]) == ("a", "judged", False)
    assert [(turn["message"], turn["passed"]) for turn in result["conversation"]["turns"]] == [(2, True), (3, False)]
    assert [turn["start"] for turn in result["conversation"]["turns"]] == [0, len(COPY) + 2]


@pytest.mark.parametrize(("body", "said"), load_cases("evaluations", "conversations", inner=list))
async def test_a_conversation_that_cannot_be_read_is_refused_with_the_place(body: dict[str, Any], said: str) -> None:
    async with running(plain_settings(max_answer_characters=100)) as client:
        response = await client.post(URL, json=body)

    assert response.status_code == 422
    assert said in response.text


async def test_a_batch_takes_conversations_among_its_samples() -> None:
    samples = [{"contexts": [CONTEXT], "answer": COPY}, {"messages": MESSAGES}, {"messages": "x"}]
    async with running(plain_settings()) as client:
        body = {"samples": samples, "options": {"tiers": ["lexical"]}, "format": "array"}
        response = await client.post(f"{URL}/batch", json=body)

    single, conversation, bad = response.json()["results"]
    assert "conversation" not in single["result"]
    assert len(conversation["result"]["conversation"]["turns"]) == 2
    assert bad["error"]["errors"][0]["pointer"] == "/samples/2/messages"


async def test_of_a_crowd_those_are_refused_whose_deadline_would_pass_and_the_rest_are_judged() -> None:
    context = "The ferry left the harbour at noon with nine crates of lamps. " * 400
    sample = {"contexts": [context], "answer": "The ferry left at noon.", "tiers": ["lexical"], "deadline_seconds": 0.5}
    async with running(plain_settings()) as client:
        answers = await asyncio.gather(*(client.post(URL, json=sample) for _ in range(40)))

    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert {answer.status_code for answer in answers} == {200, 503}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert all("with a deadline of 0.5 s" in answer.json()["detail"] for answer in refused)
