"""Conversations: each answer judged by what was retrieved or returned before it, in any provider's format."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.sample_result import SampleResult, join_turns
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import ContextLabels, Sample
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions, Tier
from plumbline.rows.evaluation_wire import to_wire
from plumbline.rows.jobs.row_chunks import decode_rows, encode_row
from plumbline.rows.records.conversations import parse_conversation
from plumbline.rows.records.record import BadRow, Record
from plumbline.schemas.evaluation import EvaluationResult
from tests.doubles.fakes import ScriptedChat
from tests.making.cases import load_cases

CASES = [json.loads(line) for line in Path("tests/data/conversations.jsonl").read_text(encoding="utf-8").splitlines()]
_PROMPTS = load_prompts()
TOOL = {"role": "tool", "tool_call_id": "c1", "content": "The museum opened in 1931."}
ANSWER = {"role": "assistant", "content": "The museum opened in 1931."}


class TurnChat(ScriptedChat):
    """A judge that gives each turn's verdict with its quote, and keeps what it was asked."""

    def __init__(self, case: dict[str, Any], sample: Sample) -> None:
        super().__init__("")
        self._turns = [
            (sample.answer[at.start : at.end], each) for at, each in zip(sample.turns, case["turns"], strict=True)
        ]
        self.seen: list[dict[str, Any]] = []

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        data = json.loads(request.user[request.user.index("\n{") : request.user.rindex("}\n") + 1])
        self.seen.append(data)
        asked = data.get("claims") or [each for each in data["answer"] if "id" in each]
        items = [(each["id"], self._verdict(each["text"], data)) for each in asked]
        if "claims" in data:
            return ChatReply(json.dumps({"claims": [{"id": number, **said} for number, said in items]}), self.name)
        return ChatReply(
            json.dumps({"sentences": [{"id": number, "claims": [said]} for number, said in items]}), self.name
        )

    def _verdict(self, text: str, data: dict[str, Any]) -> dict[str, Any]:
        shown = "\n".join(each["text"] for each in data["contexts"])
        turns = [each for answer, each in self._turns if text in answer and each["verdict"] != "abstained"]
        # The same answer may stand before and after its tool result.
        turn = next((each for each in turns if each["quote"] and each["quote"] in shown), turns[0])
        is_quoted = bool(turn["quote"]) and turn["quote"] in shown
        verdict = turn["verdict"] if is_quoted or turn["verdict"] == "not_mentioned" else "not_mentioned"
        return {"quotes": [turn["quote"]] if is_quoted else [], "verdict": verdict, "reason": "so"}


def scored(sample: Sample, tier: Tier | None = None) -> SampleResult:
    calibrations = load_calibrations(None)
    scorer = Scorer(JudgeCascade([tier or LexicalTier(calibrations, InlineExecutor())]), InlineExecutor())
    return asyncio.run(scorer.score(sample, JudgeOptions()))


def judged(sample: Sample, tier: Tier | None = None) -> EvaluationResult:
    return to_wire(scored(sample, tier), sample, sample_id=None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}-{case['language']}-{case['shape']}")
def test_each_turn_is_judged_by_a_judge_with_the_right_evidence(case: dict[str, Any]) -> None:
    sample = parse_conversation({name: case[name] for name in ("messages", "evidence_roles") if name in case})
    chat = TurnChat(case, sample)
    prompts = _PROMPTS
    result = judged(sample, LlmTier({"default": chat}, prompts, InlineExecutor()))

    assert result.conversation is not None
    assert [turn.message for turn in result.conversation.turns] == [turn["message"] for turn in case["turns"]]
    for turn, wanted in zip(result.conversation.turns, case["turns"], strict=True):
        claims = [claim for claim in result.claims if claim.sentence in turn.sentences]
        if wanted["verdict"] == "abstained":
            assert turn.status == "abstained"
            continue
        assert {claim.verdict for claim in claims} == {wanted["verdict"]}
        evidence = {each.context for claim in claims for each in claim.evidence}
        assert evidence == ({wanted["context"]} if wanted["context"] is not None else set())
        assert evidence <= set(turn.contexts)
    asserting = [turn for turn in case["turns"] if turn["verdict"] != "abstained"]
    assert len([data for data in chat.seen if "claims" not in data]) <= len(asserting)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_a_judge_turns_that_their_evidence_supports_are_told_from_others(language: str) -> None:
    right, count = {True: 0, False: 0}, {True: 0, False: 0}
    for case in CASES:
        if case["language"] != language:
            continue
        result = judged(
            parse_conversation({each: case[each] for each in ("messages", "evidence_roles") if each in case})
        )
        assert result.conversation is not None
        for turn, wanted in zip(result.conversation.turns, case["turns"], strict=True):
            assert (turn.status == "abstained") == (wanted["verdict"] == "abstained")
            if wanted["verdict"] == "abstained":
                continue
            is_sound = wanted["verdict"] == "supported"
            count[is_sound] += 1
            assert turn.faithfulness is not None
            right[is_sound] += (turn.faithfulness >= 0.5) is is_sound
            assert turn.passed in (is_sound, None) or not is_sound
            evidence = [
                each.context for claim in result.claims if claim.sentence in turn.sentences for each in claim.evidence
            ]
            if is_sound and turn.passed:
                assert evidence[0] == wanted["context"]

    assert (right[True] / count[True] + right[False] / count[False]) / 2 >= 0.8


def test_the_first_answer_does_not_know_what_is_returned_later() -> None:
    sample = parse_conversation({"messages": [{"role": "user", "content": "When?"}, ANSWER, TOOL, ANSWER]})

    result = judged(sample)

    assert result.conversation is not None
    assert [turn.contexts for turn in result.conversation.turns] == [[], [0]]
    assert [turn.faithfulness for turn in result.conversation.turns] == [0.0, pytest.approx(0.97)]
    assert result.conversation.lowest_faithfulness == 0.0
    # (0 + 0.97) / 2
    assert result.faithfulness == pytest.approx(0.485)
    assert result.passed is False


@pytest.mark.parametrize(
    ("turns", "passed", "rule"),
    [
        ([True, True], True, "copied"),
        ([True, None], None, "unsure"),
        ([None, False], False, "copied"),
    ],
)
def test_a_conversation_is_unsure_where_a_turn_is_and_none_failed(
    turns: list[bool | None], passed: bool | None, rule: str
) -> None:
    sample = parse_conversation({"messages": [TOOL, ANSWER, ANSWER]})
    results = [replace(each, passed=is_passed) for each, is_passed in zip(scored(sample).turns, turns, strict=True)]

    wire = to_wire(join_turns(sample, results), sample, sample_id=None)

    assert wire.decision is not None
    assert (wire.status, wire.passed, wire.decision.rule) == ("judged", passed, rule)


def test_this_turn_alone_forgets_what_earlier_turns_retrieved_but_not_the_first_contexts() -> None:
    asked = {"role": "user", "content": "When?"}
    given = {"messages": [asked, TOOL, ANSWER, asked, ANSWER], "contexts": ["A leaflet."], "turn_contexts": "this_turn"}

    sample = parse_conversation(given)

    assert [turn.contexts for turn in sample.turns] == [(0, 1), (0,)]


def test_a_judge_reads_what_was_said_before_as_the_question() -> None:
    asked = {"role": "user", "content": "Who built it?"}
    sample = parse_conversation({"messages": [{"role": "user", "content": "The museum?"}, TOOL, ANSWER, asked, ANSWER]})

    first, second = sample.turns

    assert first.history == ""
    assert second.history == "user: The museum?\nassistant: The museum opened in 1931.\nuser: Who built it?"
    assert second.question == "Who built it?"


@pytest.mark.parametrize(
    "message", load_cases("conversations", "what_was_returned_is_read_from_every_providers_messages", inner=list)
)
def test_what_was_returned_is_read_from_every_providers_messages(message: dict[str, Any]) -> None:
    sample = parse_conversation({"messages": [message, {"role": "assistant", "content": "In 1931."}]})

    assert sample.contexts == ("It opened in 1931.",)
    assert sample.turns[0].contexts == (0,)


@pytest.mark.parametrize(
    "part", load_cases("conversations", "results_within_an_answer_of_the_vercel_sdk_are_its_evidence")
)
def test_results_within_an_answer_of_the_vercel_sdk_are_its_evidence(part: dict[str, Any]) -> None:
    answer = {"role": "assistant", "content": "In 1931.", "parts": [part, {"type": "text", "text": "In 1931."}]}

    sample = parse_conversation({"messages": [{"role": "user", "parts": [{"type": "text", "text": "When?"}]}, answer]})

    assert (sample.contexts, sample.answer, sample.turns[0].question) == (('{"year": 1931}',), "In 1931.", "When?")
    assert sample.context_labels == (ContextLabels(id="c1", tool="wiki"),)


def test_what_anthropics_web_search_found_is_read_from_the_words_that_the_answer_cites() -> None:
    place = {"type": "web_search_result_location", "url": "https://a", "title": "A", "cited_text": "It opened in 1931."}
    answer = {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "museum"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "Er8B"}]},
            {"type": "text", "text": "In 1931.", "citations": [place]},
        ],
    }

    sample = parse_conversation({"messages": [{"role": "user", "content": "When?"}, answer]})

    assert (sample.contexts, sample.answer) == (("It opened in 1931.",), "In 1931.")
    assert sample.context_labels == (ContextLabels(title="A", source="https://a"),)


@pytest.mark.parametrize(
    ("parts", "answer"), load_cases("conversations", "parts_of_an_answer_are_one_text", inner=list)
)
def test_parts_of_an_answer_are_one_text(parts: list[Any], answer: str) -> None:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]

    sample = parse_conversation(
        {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": content}]}
    )

    assert sample.answer == answer


def test_thoughts_are_no_part_of_an_answer() -> None:
    parts = [{"text": "Perhaps in 1930?", "thought": True}, {"text": "In 1931.", "thoughtSignature": "x"}]

    assert parse_conversation({"messages": [{"role": "model", "parts": parts}]}).answer == "In 1931."


@pytest.mark.parametrize(
    "said", load_cases("conversations", "messages_of_data_sets_and_of_llamaindex_are_read", inner=list)
)
def test_messages_of_data_sets_and_of_llamaindex_are_read(said: tuple[dict[str, Any], ...]) -> None:
    sample = parse_conversation({"messages": list(said)})

    assert (sample.turns[0].question, sample.answer) == ("When?", "In 1931.")


def test_items_of_tools_that_return_no_text_say_nothing() -> None:
    searched = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search"}}

    sample = parse_conversation({"messages": [searched, {"type": "mcp_list_tools", "id": "m", "tools": []}, ANSWER]})

    assert sample.contexts == ()
    assert [turn.message for turn in sample.turns] == [2]


def test_a_tool_result_carries_the_name_of_the_tool_and_the_id_of_the_call() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "lookup"}}]}

    sample = parse_conversation({"messages": [call, TOOL, ANSWER]})

    assert (sample.context_labels[0].id, sample.context_labels[0].tool) == ("c1", "lookup")


@pytest.mark.parametrize(
    ("given", "found"), load_cases("conversations", "a_message_of_no_known_form_is_named_by_its_place", inner=list)
)
def test_a_message_of_no_known_form_is_named_by_its_place(given: dict[str, Any], found: str) -> None:
    with pytest.raises(BadRow) as caught:
        parse_conversation(given)

    assert caught.value.found == found


def test_a_turn_that_no_tier_can_judge_leaves_the_conversation_without_a_score() -> None:
    foreign = {"role": "assistant", "content": "博物馆由陈砚秋设计，1931年对外开放。"}
    result = judged(parse_conversation({"messages": [TOOL, ANSWER, foreign]}))

    assert result.conversation is not None
    assert [turn.status for turn in result.conversation.turns] == ["judged", "not_judged"]
    assert (result.status, result.faithfulness, result.passed) == ("not_judged", None, None)


def test_a_conversation_without_an_answer_has_no_turn_and_no_score() -> None:
    result = judged(parse_conversation({"messages": [{"role": "user", "content": "Hello?"}]}))

    assert result.status == "empty_answer"
    assert result.conversation is not None
    assert result.conversation.turns == []


def test_a_conversation_survives_the_file_of_a_job() -> None:
    sample = parse_conversation({"messages": [TOOL, ANSWER], "reference": "1931", "turn_contexts": "this_turn"})

    (read,) = decode_rows(encode_row(Record(0, "a", sample, {})))

    assert isinstance(read, Record)
    assert read.sample == sample
