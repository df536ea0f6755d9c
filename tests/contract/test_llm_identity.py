"""A reply is known to be its own by a mark and ids of no other request, over connections that carry more than ours."""

import asyncio
import json
from dataclasses import replace

import pytest

from plumbline.judging.judge.context_windows import Piece
from plumbline.judging.judge.questions import Questions, load_prompts
from plumbline.judging.text.segmented_sample import segment
from tests.doubles.repeating_judge import repeating_judge, sample
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.running.service import (
    claim,
    data_of,
    evaluate,
    judge_settings,
    marker_of,
    plain_settings,
    running,
    shown_data_of,
    verdicts,
)

CONTEXTS = ["The Marlow Bridge was opened in 1931.", "It has two railway tracks."]
ANSWER = " ".join(CONTEXTS)
CHINESE = ["马洛大桥于1931年通车。", "桥上有两条铁路轨道。"]


def own(texts: list[str]) -> str:
    return verdicts(*([claim(text, "supported", text)] for at, text in enumerate(texts, start=1)))


def reply_to_another(**mark: str) -> Reply:
    """The reply to a request about another sample, with or without its mark."""
    case = segment(sample(4))
    window = tuple(Piece(number, text) for number, text in enumerate(case.source.contexts, start=1))
    questions = Questions(case, load_prompts()[case.language], 1_000)
    request = questions.on_sentences(window, {0: 1, 1: 2, 2: 3, 3: 4, 4: 5})
    items = [{"id": each, "claims": [{"verdict": "contradicted"}]} for each in request.ids["id"]]
    return replace(completion(json.dumps({**mark, "sentences": items}), usage=(100, 20)), keeps_ids=True)


def in_numbers_from(first: int, request: RecordedRequest, **mark: str) -> Reply:
    """A reply whose ids the model counted itself."""
    items = [{"id": at, "quotes": [CONTEXTS[at - first]], "verdict": "supported"} for at in range(first, first + 2)]
    return replace(completion(json.dumps({**mark, "sentences": items})), keeps_ids=True)


@pytest.mark.parametrize("texts", [CONTEXTS, CHINESE], ids=["en", "zh"])
async def test_every_request_shows_ids_of_its_own_and_results_keep_theirs(
    judge: ScriptedJudge, texts: list[str]
) -> None:
    judge.reply_with(completion(own(texts)))

    async with running(judge_settings(judge, cache_ttl_seconds=0)) as client:
        results = [await evaluate(client, contexts=texts, answer=" ".join(texts)) for _ in range(4)]

    shown = [shown_data_of(request) for request in judge.requests]
    firsts = [data["contexts"][0]["id"] for data in shown]
    assert len(set(firsts)) > 1
    assert all(1_000 < first < 10_000 for first in firsts)
    assert [[each["id"] for each in data["contexts"]] for data in shown] == [[each, each + 1] for each in firsts]
    assert [[each["id"] for each in data["answer"]][:2] for data in shown] == [[each, each + 1] for each in firsts]
    for result in results:
        assert [(each["id"], each["verdict"]) for each in result["claims"]] == [
            ("0.0", "supported"),
            ("1.0", "supported"),
        ]
        assert [each["context"] for made in result["claims"] for each in made["evidence"]] == [0, 1]


async def test_a_schema_that_names_ids_names_those_of_the_request(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(own(CONTEXTS)))

    async with running(judge_settings(judge, llm_provider="vllm")) as client:
        await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    (request,) = judge.requests
    members = request.json["response_format"]["json_schema"]["schema"]["properties"]
    forms = members["sentences"]["items"]["anyOf"]
    ids = [each["id"] for each in shown_data_of(request)["answer"] if "id" in each]
    assert list(members) == ["mark", "sentences"]
    assert members["mark"]["enum"] == [marker_of(request)]
    assert [form["properties"]["id"]["enum"] for form in forms] == [ids] * len(forms)


@pytest.mark.parametrize("mark", [{}, {"mark": "0123abcd"}], ids=["by ids", "by mark"])
async def test_the_reply_to_another_request_is_billed_and_asked_for_again_on_a_new_connection(
    judge: ScriptedJudge, mark: dict[str, str]
) -> None:
    judge.reply_with(reply_to_another(**mark), completion(own(CONTEXTS), usage=(100, 20)))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)
        metrics = (await client.get("/metrics")).text

    assert (result["tier"], result["faithfulness"], result["flags"]) == ("llm", 1.0, [])
    assert (judge.calls, judge.connections) == (2, 2)
    assert (result["trace"]["usage"]["calls"], result["trace"]["usage"]["prompt_tokens"]) == (2, 200)
    assert 'outcome="foreign_reply"' in metrics


async def test_a_judge_that_only_sends_replies_to_others_fails_by_name(judge: ScriptedJudge) -> None:
    judge.reply_with(reply_to_another())

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert result["tier"] != "llm"
    assert (result["trace"]["attempts"][0]["reason"], result["trace"]["attempts"][0]["calls"]) == ("foreign_reply", 3)


async def test_another_mark_is_not_read_whatever_the_ids(judge: ScriptedJudge) -> None:
    def mistaken(request: RecordedRequest) -> Reply:
        first = shown_data_of(request)["answer"][0]["id"]
        return in_numbers_from(first, request, mark="0123abcd")

    judge.reply_with(mistaken)

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert (result["tier"] != "llm", result["trace"]["attempts"][0]["reason"]) == (True, "foreign_reply")


@pytest.mark.parametrize("first", [0, 1])
async def test_ids_that_a_model_counts_itself_are_read_beside_the_mark(judge: ScriptedJudge, first: int) -> None:
    judge.reply_with(lambda request: in_numbers_from(first, request, mark=marker_of(request)))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert (result["tier"], result["faithfulness"], result["flags"], judge.calls) == ("llm", 1.0, [], 1)
    assert [each["evidence"][0]["quote"] for each in result["claims"]] == CONTEXTS


@pytest.mark.parametrize("first", [0, 1])
async def test_ids_that_a_model_counts_itself_are_else_not_read_and_asked_for_once_more(
    judge: ScriptedJudge, first: int
) -> None:
    def renumbered(request: RecordedRequest) -> Reply:
        data = data_of(request)
        if "claims" in data:
            items = [{"id": each["id"], **claim("", "supported", each["text"])} for each in data["claims"]]
            return completion(json.dumps({"claims": items}))
        return in_numbers_from(first, request)

    judge.reply_with(renumbered)
    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert (result["tier"], result["faithfulness"], judge.calls, judge.connections) == ("llm", 1.0, 2, 1)
    assert "unknown_ids_dropped" in result["flags"]


@pytest.mark.parametrize("late_seconds", [0.0, None], ids=["at once", "with the next request"])
async def test_no_reply_of_another_sample_is_accepted_from_a_judge_that_repeats_itself(
    late_seconds: float | None,
) -> None:
    async with repeating_judge(late_seconds, share=0.2) as base_url:
        settings = plain_settings(llm_provider="generic", llm_base_url=base_url, llm_model="m", llm_controls=False)
        async with running(settings) as client:
            turn = asyncio.Semaphore(8)

            async def reasons(number: int) -> tuple[int, set[str | None]]:
                asked = sample(number)
                async with turn:
                    result = await evaluate(
                        client, question=asked.question, contexts=asked.contexts, answer=asked.answer
                    )
                return number, {each["reason"] for each in result["claims"]}

            answered = await asyncio.gather(*map(reasons, range(40)))

    assert [said for said in answered if said[1] != {f"of sample {said[0]}"}] == []
