"""Tier llm from request to result: the scores are ours, counted by hand here, and a quote counts when we find it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.making.result_rows import comparable_with_old
from tests.running.service import claim, data_of, evaluate, evaluate_every_shape, judge_settings, running, verdicts

PROMPTS = Path(__file__).parents[2] / "prompts" / "verify_claims"
CONTEXTS = [
    "The Marlow Bridge was opened in 1931. It is 412 metres long and carries two railway tracks.",
    "Since 2008 the bridge has been closed to cars; about 9,000 people cross it on foot every day.",
    "The ferry at Teal Landing was retired in 1930.",
]
ANSWER = (
    "# The bridge\n\nThe Marlow Bridge was opened in 1931. It is 412 metres long and has four tracks. "
    "Thousands walk across it on bank holidays. Its engineer won a medal. What a bridge!"
)
REPLY = verdicts(
    [claim("The Marlow Bridge was opened in 1931.", "supported", "opened in 1931")],
    [
        claim("The Marlow Bridge is 412 metres long.", "supported", "412 metres long"),
        claim("The Marlow Bridge has four tracks.", "contradicted", "two railway tracks", reason="two, not four"),
    ],
    [
        claim(
            "Thousands walk across it on bank holidays.",
            "partial",
            "9,000 people cross it on foot",
        )
    ],
    [claim("The engineer of the bridge won a medal.", "not_mentioned")],
    [claim("What a bridge!", "not_a_claim")],
)


async def judged(judge: ScriptedJudge, reply: str = REPLY, **sample: Any) -> dict[str, Any]:
    """The result of the bridge sample, or of another one, for this reply."""
    judge.reply_with(completion(reply, usage=(321, 45), model="judge-1-0613"))
    async with running(judge_settings(judge)) as client:
        return await evaluate(client, **{"contexts": CONTEXTS, "answer": ANSWER, **sample})


# --- scores


async def test_scores_are_counted_from_the_verdicts(judge: ScriptedJudge) -> None:
    result = await judged(judge)

    # 4 sentences with 5 claims: supported; supported and contradicted; partial; not mentioned
    assert (result["status"], result["tier"]) == ("judged", "llm")
    assert result["faithfulness"] == 0.5  # (1 + (1 + 0) / 2 + 0.5 + 0) / 4
    assert [each["weight"] for each in result["claims"] if each["verdict"] != "not_a_claim"] == [1, 0.5, 0.5, 1, 1]
    assert result["hallucination_rate"] == 0.5
    assert result["scores"]["faithfulness_strict"] == 0.375  # (1 + (1 + 0) / 2 + 0 + 0) / 4
    assert result["scores"]["contradiction_rate"] == 0.2
    assert result["scores"]["unsupported_rate"] == 0.2
    assert result["contexts_used"] == [0, 1]
    assert result["scores"]["contexts_used_share"] == 0.666667
    assert (result["passed"], result["decision"]["rule"], result["decision"]["threshold"]) == (
        False,
        "all_supported",
        None,
    )
    assert (result["scores"]["lowest_support"], result["scores"]["unsupported_claims"]) == (0.0, 3)
    assert result["confidence"] is None


async def test_every_verdict_is_counted_headings_among_those_that_claim_nothing(judge: ScriptedJudge) -> None:
    result = await judged(judge)

    assert result["counts"] == {
        "supported": 2, "partial": 1, "contradicted": 1, "not_mentioned": 1, "not_a_claim": 2,
    }  # fmt: skip


async def test_an_answer_without_a_claim_abstains(judge: ScriptedJudge) -> None:
    reply = verdicts([claim("What a day!", "not_a_claim")])

    result = await judged(judge, reply, answer="What a day!")

    assert (result["status"], result["tier"], result["faithfulness"]) == ("abstained", "llm", None)
    assert "no_checkable_claims" in result["flags"]


async def test_numbers_that_the_judge_writes_are_no_scores(judge: ScriptedJudge) -> None:
    reply = '{"faithfulness": 1.0, "score": 1, "status": "judged", ' + REPLY.removeprefix("{")

    result = await judged(judge, reply)

    assert result["faithfulness"] == 0.5


# --- claims, sentences, evidence


async def test_sentences_of_claims_are_slices_of_the_answer_in_order(judge: ScriptedJudge) -> None:
    result = await judged(judge)

    sentences = {each["sentence"]: ANSWER[each["start"] : each["end"]] for each in result["claims"]}
    assert list(sentences) == list(range(6))
    assert list(sentences.values())[1:] == [
        "The Marlow Bridge was opened in 1931.",
        "It is 412 metres long and has four tracks.",
        "Thousands walk across it on bank holidays.",
        "Its engineer won a medal.",
        "What a bridge!",
    ]


async def test_claims_carry_verdict_reason_and_the_place_of_their_sentence(judge: ScriptedJudge) -> None:
    result = await judged(judge)

    tracks = next(each for each in result["claims"] if each["verdict"] == "contradicted")
    assert tracks["text"] == "The Marlow Bridge has four tracks."
    assert (tracks["support"], tracks["reason"]) == (0.0, "two, not four")
    assert ANSWER[tracks["start"] : tracks["end"]] == "It is 412 metres long and has four tracks."
    assert len({each["id"] for each in result["claims"]}) == len(result["claims"]) == 7


async def test_verified_quotes_are_slices_of_their_context(judge: ScriptedJudge) -> None:
    result = await judged(judge)

    evidence = [each for made in result["claims"] for each in made["evidence"]]
    assert [each["quote"] for each in evidence] == [
        "opened in 1931", "412 metres long", "two railway tracks", "9,000 people cross it on foot",
    ]  # fmt: skip
    for each in evidence:
        assert each["verified"] is True
        assert CONTEXTS[each["context"]][each["start"] : each["end"]] == each["quote"]


# --- the account


async def test_the_account_names_the_model_and_the_tokens_that_the_provider_counted(judge: ScriptedJudge) -> None:
    result = await judged(judge)

    assert result["trace"]["judge"]["model"] == "judge-1-0613"
    assert result["trace"]["judge"]["calls"] == judge.calls == 1
    assert result["trace"]["judge"]["tokens"] == {"prompt": 321, "completion": 45}
    assert judge.tokens_served == (321, 45)
    (attempt,) = result["trace"]["attempts"]
    assert (attempt["tier"], attempt["outcome"], attempt["reason"]) == ("llm", "answered", None)
    assert (result["flags"], result["warnings"]) == ([], [])


async def test_tokens_that_the_provider_did_not_count_are_null(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(REPLY, usage=None))
    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert result["trace"]["judge"]["tokens"] == {"prompt": None, "completion": None}


ZH_CONTEXT = "青川水库于1987年建成，主要用于灌溉和防洪。"


@pytest.mark.parametrize(
    ("language", "answer", "contexts"),
    [
        ("en", "The bridge was opened in 1931.", ["Opened in 1931."]),
        ("zh", "青川水库建成于1987年。", [ZH_CONTEXT]),
        ("zh", "青川水库建成于1987年。", ["The Qingchuan reservoir was finished in 1987."]),
        ("en", "The reservoir was finished in 1987.", [ZH_CONTEXT]),
        ("zh", "1987。", [ZH_CONTEXT]),
        ("en", "Το φράγμα ολοκληρώθηκε το 1987.", ["Opened in 1931."]),
    ],
)
async def test_the_prompt_is_in_the_language_of_the_answer_and_named_with_its_digest(
    judge: ScriptedJudge, language: str, answer: str, contexts: list[str]
) -> None:
    reply = verdicts([claim("", "not_mentioned")])

    result = await judged(judge, reply, answer=answer, contexts=contexts)

    file = PROMPTS / f"v4.{language}.toml"
    assert result["trace"]["judge"]["prompt"] == f"verify_claims/v4.{language}"
    assert result["trace"]["judge"]["prompt_digest"] == hashlib.sha256(file.read_bytes()).hexdigest()
    system = judge.requests[0].json["messages"][0]["content"]
    assert len(system) > 1000
    assert system in file.read_text(encoding="utf-8")


async def test_an_english_answer_is_backed_by_a_quote_from_a_chinese_context(judge: ScriptedJudge) -> None:
    reply = verdicts([claim("The reservoir was finished in 1987.", "supported", "于1987年建成")])

    result = await judged(judge, reply, contexts=[ZH_CONTEXT], answer="The reservoir was finished in 1987.")

    (evidence,) = result["claims"][0]["evidence"]
    assert (result["tier"], result["faithfulness"]) == ("llm", 1.0)
    assert ZH_CONTEXT[evidence["start"] : evidence["end"]] == "于1987年建成"


async def test_a_chinese_answer_is_judged_sentence_by_sentence(judge: ScriptedJudge) -> None:
    answer = "青川水库于1987年建成。水库每年吸引约五十万名游客。"
    reply = verdicts([claim("a", "supported", "于1987年建成")], [claim("b", "not_mentioned")])

    result = await judged(judge, reply, contexts=[ZH_CONTEXT], answer=answer)

    assert result["faithfulness"] == 0.5
    assert [each["text"] for each in data_of(judge.requests[0])["answer"]] == [
        "青川水库于1987年建成。", "水库每年吸引约五十万名游客。",
    ]  # fmt: skip


DATA = Path(__file__).parents[1] / "data"


def by_words(request: RecordedRequest) -> Reply:
    """Each sentence or claim supported by its own words where a context has them, else accused by its number."""
    data = data_of(request)
    contexts = [each["text"] for each in data["contexts"]]

    def verdict(text: str, number: int) -> dict[str, Any]:
        quote = text.strip().rstrip(".。")
        if any(quote in each for each in contexts):
            return {"quotes": [quote], "verdict": "supported"}
        accused = "contradicted" if number % 2 else "not_mentioned"
        return {"quotes": [contexts[0][:40]], "reason": "another", "verdict": accused}

    if "claims" in data:
        checked = [{"id": each["id"], **verdict(each["text"], int(each["id"][0]))} for each in data["claims"]]
        return completion(json.dumps({"claims": checked}), usage=(100, 20))
    asked = [each for each in data["answer"] if "id" in each]
    judged = [{"id": each["id"], "claims": [verdict(each["text"], each["id"])]} for each in asked]
    return completion(json.dumps({"sentences": judged}), usage=(100, 20))


async def test_requests_of_the_old_shape_give_what_they_gave(judge: ScriptedJudge) -> None:
    # What the service of 8374950, which read no citations and conversations, said with this judge; seconds are 0.
    requests = map(json.loads, (DATA / "old_requests.jsonl").read_text(encoding="utf-8").split("\n")[:-1])
    judge.reply_with(by_words)

    async with running(judge_settings(judge, llm_controls=True)) as client:
        answers = [await client.post("/v1/evaluations", json={**each, "tiers": ["llm"]}) for each in requests]

    old = (DATA / "old_judged.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert [comparable_with_old(each.text) for each in answers] == [comparable_with_old(each) for each in old]


async def test_features_that_a_request_does_not_use_change_nothing(judge: ScriptedJudge) -> None:
    requests = map(json.loads, (DATA / "old_requests.jsonl").read_text(encoding="utf-8").split("\n")[:-1])
    judge.reply_with(by_words)

    # The sentences of controls are drawn anew for each question.
    async with running(judge_settings(judge, llm_controls=False, cache_ttl_seconds=0)) as client:
        for request in requests:
            sample = {"question": "Which?", "contexts": request["contexts"], "answer": request["answer"]}
            results = await evaluate_every_shape(client, {**sample, "tiers": ["llm"]})

            assert results == results[:1] * 4
