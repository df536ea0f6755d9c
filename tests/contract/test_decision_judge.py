"""Tier llm behind a decision model: from questions over real HTTP to a result with probability, place and checks."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from plumbline.judging.judge.questions import load_prompts
from tests.contract.test_decision_calls import check_published
from tests.doubles.scripted_decisions import FAULTS, AskedQuestion, always, decide, edited, lean, read_questions
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply
from tests.making.cases import load_cases
from tests.running.service import evaluate, judge_settings, running

CONTEXTS = [
    "The Marlow Bridge was opened in 1931. It is 412 metres long and carries two railway tracks.",
    "Since 2008 the bridge has been closed to cars. It is not open to cyclists.",
    "The ferry at Teal Landing was retired in 1930 after a long strike of the crew.",
]
RIGHT = "The Marlow Bridge was opened in 1931. It is 412 metres long."
SHAPES = ("decisions", "systemone")
# Words of statements, and what an honest model says of each; all else stands in a context or nowhere.
Said = Mapping[str, tuple[str, str]]


def honest(said: Said = {}) -> Callable[[AskedQuestion], Mapping[str, float]]:  # noqa: B006 - read alone
    """A model that knows what stands in the contexts, and says of some statements what it is told."""

    def oracle(asked: AskedQuestion) -> Mapping[str, float]:
        texts = asked.contexts
        place = next((name for name, text in texts.items() if asked.statement.rstrip(".。") in text), "none")
        verdict = "not_mentioned" if place == "none" else "supported"
        for words, (other, named) in said.items():
            if words in asked.statement:
                verdict, place = other, named
        return lean(asked, verdict if asked.is_verdict else place, 0.96)

    return oracle


async def judged(judge: ScriptedJudge, *, api: str = "systemone", settings: Any = {}, **sample: Any) -> dict[str, Any]:  # noqa: B006
    async with running(judge_settings(judge, llm_api=api, llm_controls=True, **settings)) as client:
        return await evaluate(client, **{"contexts": CONTEXTS, "answer": RIGHT, "tiers": ["llm"], **sample})


def flags_of(result: dict[str, Any]) -> list[list[str]]:
    return [each["flags"] for each in result["claims"]]


@pytest.mark.parametrize("api", SHAPES)
async def test_one_request_gives_verdicts_with_probabilities_and_places(judge: ScriptedJudge, api: str) -> None:
    judge.reply_with(decide(honest()))

    result = await judged(judge, api=api)

    (request,) = judge.requests
    assert request.path == f"/v1/{api}"
    assert (result["status"], result["passed"]) == ("judged", True)
    assert [(each["verdict"], each["support"]) for each in result["claims"]] == [("supported", 0.96)] * 2
    places = [each["evidence"][0] for each in result["claims"]]
    assert [each["quote"] for each in places] == [
        "The Marlow Bridge was opened in 1931.",
        "It is 412 metres long and carries two railway tracks.",
    ]
    assert {(each["context"], each["verified"], each["kind"]) for each in places} == {(0, True, "located")}
    assert all(CONTEXTS[0][each["start"] : each["end"]] == each["quote"] for each in places)
    account = result["trace"]["judge"]
    assert (account["kind"], account["model"], account["calls"]) == (api, "judge-1", 1)
    assert account["prompt"] == "decide_claims/v1.en"
    assert account["prompt_digest"] == load_prompts()["en"].decide.digest
    assert (account["controls"], account["controls_right"]) == (2, 2)
    assert result["trace"]["usage"]["prompt_tokens"] == len(request.body) // 4
    if api == "decisions":
        check_published(request)


async def test_a_sample_of_seven_sentences_takes_one_request_of_16_questions(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest(), most_questions=16))
    facts = [f"The bridge number {number} was painted green in the year {1950 + number}." for number in range(20)]

    contexts = [" ".join(facts[:9]), " ".join(facts[9:])]

    seven = await judged(judge, contexts=contexts, answer=" ".join(facts[:7]))
    calls = judge.calls
    many = await judged(judge, contexts=contexts, answer=" ".join(facts))

    assert (calls, len(read_questions(judge.requests[0]))) == (1, 16)
    assert (seven["passed"], many["passed"]) == (True, True)
    assert sorted(len(read_questions(request)) for request in judge.requests[1:]) == [12, 14, 16]


async def test_one_context_is_no_choice_and_twice_as_many_sentences_take_one_request(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest(), most_questions=16))
    facts = " ".join(
        f"The bridge number {number} was painted green in the year {1950 + number}." for number in range(14)
    )

    result = await judged(judge, contexts=[facts], answer=facts)

    (request,) = judge.requests
    asked = read_questions(request)
    assert (len(asked), all(each.is_verdict for each in asked)) == (16, True)
    places = [claim["evidence"][0] for claim in result["claims"]]
    assert [(place["context"], place["quote"]) for place in places] == [
        (0, claim["text"]) for claim in result["claims"]
    ]


async def test_the_questions_hold_the_statements_and_the_state_no_control(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest()))

    await judged(judge)
    await judged(judge, cache="bypass")

    asked, again = (read_questions(request) for request in judge.requests)
    state = judge.requests[0].json["state"]
    assert [each["id"] for each in state["contexts"]] == ["c1", "c2", "c3"]
    assert [each["text"] for each in state["answer"]] == [
        "The Marlow Bridge was opened in 1931.",
        "It is 412 metres long.",
    ]
    statements = {each.statement for each in asked if each.is_verdict}
    # A control is copied from a context, and the other one denies it.
    assert "It is not true that the Marlow Bridge was opened in 1931." in statements
    assert "not true" not in str(state)
    assert all(set(each.values) == {"c1", "c2", "c3", "none"} for each in asked if not each.is_verdict)
    # Names are new for each request, and are no numbers of sentences.
    assert {each.name for each in asked}.isdisjoint(each.name for each in again)


@pytest.mark.parametrize(("wrong", "flag"), load_cases("decision_judge", "refuted"))
async def test_support_that_the_check_refutes_is_unsure(judge: ScriptedJudge, wrong: str, flag: str) -> None:
    judge.reply_with(decide(honest({wrong: ("supported", "c1")})))

    result = await judged(judge, answer=f"{RIGHT} {wrong}")

    *_, claim = result["claims"]
    assert claim["verdict"] != "supported"
    assert {flag, "check_refutes"} <= set(claim["flags"])
    assert claim["reason"]
    assert (result["passed"], result["decision"]["rule"]) == (None, "unsure")
    assert flags_of(result)[0] == []


async def test_a_wrong_place_is_replaced_by_the_one_that_code_finds(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest({"The Marlow Bridge was": ("supported", "none")})))

    result = await judged(judge)

    assert result["passed"] is True
    assert result["claims"][0]["evidence"][0]["quote"] == "The Marlow Bridge was opened in 1931."


async def test_an_accusation_of_what_stands_word_for_word_is_unsure(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest({"412 metres long.": ("contradicted", "c1")})))

    result = await judged(judge, contexts=["It is 412 metres long.", *CONTEXTS])

    assert "check_refutes" in flags_of(result)[1]
    assert result["passed"] is None


async def test_a_contradiction_fails_with_its_place(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest({"four railway tracks": ("contradicted", "c1")})))

    result = await judged(judge, answer="It carries four railway tracks.")

    assert (result["passed"], result["claims"][0]["verdict"]) == (False, "contradicted")
    assert result["claims"][0]["evidence"][0]["context"] == 0


def refusing(words: str, *, is_verdict: bool) -> Callable[[RecordedRequest], Reply]:
    """An honest model that declines one kind of question on one statement."""

    def edit(body: dict[str, Any], asked: list[AskedQuestion]) -> dict[str, Any]:
        names = [each.name for each in asked if words in each.statement and each.is_verdict == is_verdict]
        return {**body, "answers": {**body["answers"], **{name: {"type": "refusal"} for name in names}}}

    return edited(honest(), edit)


async def test_a_refused_question_costs_its_sentence_alone_and_is_not_asked_again(judge: ScriptedJudge) -> None:
    judge.reply_with(refusing("412", is_verdict=True))

    result = await judged(judge)

    assert flags_of(result)[0] == []
    assert {"question_refused", "undecided"} <= set(flags_of(result)[1])
    assert (result["passed"], result["trace"]["judge"]["controls_right"]) == (None, 2)
    assert judge.calls == 1


async def test_a_refused_place_is_found_by_code(judge: ScriptedJudge) -> None:
    judge.reply_with(refusing("412", is_verdict=False))

    result = await judged(judge)

    assert result["passed"] is True
    assert result["claims"][1]["evidence"][0]["context"] == 0


async def test_broken_answers_are_asked_for_once_more_alone(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest(), fault="range"), decide(honest()))

    result = await judged(judge)

    first, second = (read_questions(request) for request in judge.requests)
    assert result["passed"] is True
    assert {each.name for each in second} <= {each.name for each in first}


@pytest.mark.parametrize("api", SHAPES)
@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_no_fault_makes_a_wrong_verdict(judge: ScriptedJudge, api: str, fault: str) -> None:
    """The second sentence is wrong: it must never pass, and the first never fail."""
    judge.reply_with(decide(honest({"65 metres": ("contradicted", "c1")}), fault=fault))

    result = await judged(judge, api=api, answer="The Marlow Bridge was opened in 1931. It is 65 metres long.")

    assert result["passed"] is not True
    if result["status"] == "judged":
        first, second = result["claims"]
        assert first["verdict"] == "supported" or "question_refused" in first["flags"]
        assert second["verdict"] == "contradicted" or "question_refused" in second["flags"]


@pytest.mark.parametrize("verdict", ["supported", "contradicted", "not_mentioned"])
async def test_a_model_that_says_one_thing_to_everything_fails_its_controls(judge: ScriptedJudge, verdict: str) -> None:
    judge.reply_with(decide(always(verdict)))

    result = await judged(judge)

    assert result["status"] == "not_judged"
    assert result["trace"]["attempts"][0]["reason"] == "controls_failed"
    assert judge.calls == 2


async def test_long_contexts_are_judged_in_windows_and_the_best_verdict_counts(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest()))
    filler = " ".join(f"Paragraph {number} tells of the weather on the coast that week." for number in range(900))

    result = await judged(judge, contexts=[filler, *CONTEXTS], settings={"llm_context_tokens": 8_192})

    assert result["trace"]["windows"] > 1
    assert result["passed"] is True
    assert [each["evidence"][0]["context"] for each in result["claims"]] == [1, 1]


def counted_at_most(most: int) -> Callable[[RecordedRequest], Reply]:
    """A server that reads so many tokens of a request and cuts the rest, as its count tells."""

    def edit(body: dict[str, Any], _: list[AskedQuestion]) -> dict[str, Any]:
        usage = body["usage"]
        return {**body, "usage": {**usage, "input_tokens": min(most, usage["input_tokens"])}}

    return edited(honest(), edit)


async def test_a_state_that_the_server_cut_is_asked_again_in_windows_that_it_reads(judge: ScriptedJudge) -> None:
    judge.reply_with(counted_at_most(4_096))
    filler = " ".join(f"Paragraph {number} tells of the weather on the coast that week." for number in range(1_500))

    result = await judged(judge, contexts=[filler, *CONTEXTS], settings={"llm_context_tokens": 65_536})

    assert result["passed"] is True
    assert result["trace"]["windows"] > 1
    assert max(len(request.body) // 4 for request in judge.requests[1:]) <= 4_096


async def test_a_model_that_supports_a_statement_and_its_denial_fails_its_controls(judge: ScriptedJudge) -> None:
    def both(asked: AskedQuestion) -> Mapping[str, float]:
        said = asked.statement.lower().removeprefix("it is not true that ").rstrip(".")
        known = any(said in text.lower() for text in asked.contexts.values())
        return lean(asked, "supported" if known else "not_mentioned", 0.95)

    judge.reply_with(decide(both))

    result = await judged(judge)

    assert result["trace"]["attempts"][0]["reason"] == "controls_failed"


async def test_a_bound_on_questions_is_obeyed_after_its_first_refusal(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest(), most_questions=12))
    facts = " ".join(f"The bridge number {number} was painted green." for number in range(9))

    result = await judged(judge, contexts=[facts, "The ferry was retired."], answer=facts)

    assert result["passed"] is True
    asked = [len(read_questions(request)) for request in judge.requests]
    assert asked[0] == 16
    assert max(asked[2:]) <= 12


async def test_a_verdict_is_kept_and_costs_no_second_call(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(honest()))

    async with running(judge_settings(judge, llm_api="systemone")) as client:
        first, second = [await evaluate(client, contexts=CONTEXTS, answer=RIGHT) for _ in range(2)]

    assert (first["trace"]["judge"]["cache"], second["trace"]["judge"]["cache"]) == ("miss", "hit")
    assert judge.calls == 1
    assert first["claims"] == second["claims"]
