"""Tier llm with a scripted chat model: what goes in, what is made of replies, and when it asks once more."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.models import ChatModel
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement, Verdict
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat, case_of
from tests.doubles.request_ids import counted_from_1, with_request_ids
from tests.making.cases import load_cases

PROMPTS = load_prompts()
ANSWER = "The dam was built in 1932. It is 120 metres high."
CONTEXTS = ("The lake is deep.", "The dam was built in 1932 and is 120 metres high.")
CASE = case_of(ANSWER, *CONTEXTS, question="How high is the dam?")
QUOTES = {1: "The dam was built in 1932", 2: "120 metres high"}
TEXTS = {1: "The dam was built in 1932.", 2: "It is 120 metres high."}

Answer = Callable[[Mapping[str, Any]], str]


def said(number: int = 1, **changes: Any) -> dict[str, Any]:
    """What a judge says of the claim of sentence 1 or 2."""
    base = {"quotes": [QUOTES.get(number, "")], "reason": "It says so.", "verdict": "supported"}
    return {"claim": TEXTS.get(number, "More."), **base, **changes}


def sentences(*numbers: int, **changes: Any) -> str:
    return json.dumps({"sentences": [{"id": each, "claims": [said(each, **changes)]} for each in numbers]})


def checked(**claims: dict[str, Any]) -> str:
    """A reply to a question about claims; `c0_1` stands for the id `0.1`."""
    return json.dumps({"claims": [{"id": key[1:].replace("_", "."), **claim} for key, claim in claims.items()]})


class AnsweringChat(ScriptedChat):
    """A chat model whose replies follow from the data of the question."""

    def __init__(self, answer: Answer, *, name: str = "default", context_tokens: int = 32_768) -> None:
        super().__init__("", name=name, context_tokens=context_tokens)
        self._answer = answer

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        await super().complete(request, seconds=seconds, ledger=ledger)
        content = with_request_ids(self._answer(data_of(request)), request.user)
        return ChatReply(content, f"{self.name}-1")


def tier_of(*chats: ChatModel) -> LlmTier:
    return LlmTier({chat.name: chat for chat in chats}, PROMPTS, InlineExecutor())


async def judge(*chats: ChatModel, case: SegmentedSample = CASE, ask: JudgeOptions | None = None) -> Judgement:
    return await tier_of(*chats).judge(case, ask or JudgeOptions(), seconds=5.0)


async def test_a_reply_on_every_sentence_becomes_claims_with_evidence() -> None:
    chat = ScriptedChat(sentences(1, 2))

    judgement = await judge(chat)

    first = judgement.claims[0]
    assert [(claim.id, claim.sentence) for claim in judgement.claims] == [("0.0", 0), ("1.0", 1)]
    assert (first.text, first.verdict, first.support) == (TEXTS[1], Verdict.SUPPORTED, 1.0)
    assert (first.start, first.end, first.reason) == (0, 26, "It says so.")
    (evidence,) = first.evidence
    assert (evidence.context, evidence.quote, evidence.start, evidence.verified) == (1, QUOTES[1], 0, True)
    assert judgement.has_verdict_kinds
    assert (judgement.flags, judgement.votes, judgement.windows) == ((), (), 1)
    assert len(chat.requests) == 1


async def test_the_account_names_model_prompt_and_tokens() -> None:
    ask = JudgeOptions()

    account = (await judge(ScriptedChat(sentences(1, 2)), ask=ask)).account

    assert (account.model, account.calls) == ("scripted-1", 1)
    assert (account.prompt, account.prompt_digest) == ("verify_claims/v4.en", PROMPTS["en"].verify.digest)
    assert (account.prompt_tokens, account.completion_tokens) == (11, 7)
    assert ask.ledger.usage.calls == 1


async def test_a_missing_sentence_is_asked_for_once_and_nothing_else() -> None:
    chat = ScriptedChat(sentences(1), checked(c1_0=said(2)))

    judgement = await judge(chat)

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED] * 2
    assert judgement.claims[1].flags == ("second_look",)
    assert data_of(chat.requests[1])["claims"] == [{"id": "1.0", "sentence": 2, "text": TEXTS[2], "doubt": "unread"}]
    assert judgement.account.calls == len(chat.requests) == 2


async def test_a_quote_that_is_not_there_is_asked_for_once() -> None:
    invented = {"id": 2, "claims": [said(2, quotes=["opened by the mayor of Keld"])]}
    first = json.dumps({"sentences": [{"id": 1, "claims": [said(1)]}, invented]})
    chat = ScriptedChat(first, checked(c1_0=said(2)))

    judgement = await judge(chat)

    assert judgement.claims[1].verdict is Verdict.SUPPORTED
    assert [each["id"] for each in data_of(chat.requests[1])["claims"]] == ["1.0"]


@pytest.mark.parametrize("quotes", [[], ["the lake was drained"]])
async def test_an_accusation_without_a_quote_is_flagged_and_not_asked_again(quotes: list[str]) -> None:
    accused = {"quotes": quotes, "reason": "no", "verdict": "contradicted"}
    chat = ScriptedChat(json.dumps({"sentences": [{"id": 1, "claims": [accused]}]}))

    (claim,) = (await judge(chat, case=case_of("The lake is frozen.", *CONTEXTS))).claims

    assert (claim.verdict, claim.flags) == (
        Verdict.CONTRADICTED,
        ("evidence_unverified" if quotes else "evidence_missing",),
    )
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    ("second", "verdict", "flags"),
    [
        ({"quotes": [QUOTES[1]], "verdict": "supported"}, Verdict.SUPPORTED, {"number_not_in_contexts"}),
        ({"quotes": [QUOTES[1]], "reason": "1932 + 15 = 1947", "verdict": "supported"}, Verdict.SUPPORTED, {"derived"}),
        ({"quotes": [QUOTES[1]], "reason": "1932", "verdict": "contradicted"}, Verdict.CONTRADICTED, set()),
        ({"quotes": ["an invented quote"], "verdict": "supported"}, Verdict.SUPPORTED, {"number_not_in_contexts"}),
    ],
)
async def test_a_number_that_stands_nowhere_is_asked_once_by_its_name_and_the_judge_decides(
    second: dict[str, Any], verdict: Verdict, flags: set[str]
) -> None:
    first = {"sentences": [{"id": 1, "claims": [{"quotes": [QUOTES[1]], "verdict": "supported"}]}]}
    chat = ScriptedChat(json.dumps(first), checked(c0_0=second))

    (claim,) = (await judge(chat, case=case_of("The dam was built in 1947.", *CONTEXTS))).claims

    assert data_of(chat.requests[1])["claims"][0]["doubt"] == "number"
    assert (claim.verdict, set(claim.flags) - {"second_look"}) == (verdict, flags)
    assert len(chat.requests) == 2


@pytest.mark.parametrize(
    ("answer", "second", "verdict"),
    [
        ("It has 40 turbines.", "not_a_claim", Verdict.NOT_A_CLAIM),
        ("It has 40 turbines.", "not_mentioned", Verdict.NOT_MENTIONED),
        ("It was built for Mira Holt.", "not_mentioned", Verdict.NOT_MENTIONED),
    ],
)
async def test_no_claim_in_a_sentence_with_a_fact_is_asked_and_never_overruled(
    answer: str, second: str, verdict: Verdict
) -> None:
    chat = ScriptedChat('{"sentences": [{"id": 1, "claims": []}]}', checked(c0_0={"verdict": second}))

    (claim,) = (await judge(chat, case=case_of(answer, *CONTEXTS))).claims

    assert data_of(chat.requests[1])["claims"][0]["doubt"] == "no_claim"
    assert (claim.verdict, claim.flags) == (verdict, ("no_claim_doubtful", "second_look"))


@pytest.mark.parametrize("answer", ["Here is a concise summary of what is known:", "That is a fine piece of work."])
async def test_no_claim_in_a_sentence_without_a_fact_costs_no_call(answer: str) -> None:
    chat = ScriptedChat('{"sentences": [{"id": 1, "claims": []}, {"id": 2, "claims": []}]}')

    await judge(chat, case=case_of(answer, *CONTEXTS))

    assert len(chat.requests) <= 1


async def test_of_a_whole_passage_given_as_a_quote_the_beginning_is_searched() -> None:
    passage = "The dam was built in 1932" + ", as everyone knows" * 300
    case = case_of(TEXTS[1], passage, question="How old is the dam?")

    judgement = await judge(ScriptedChat(sentences(1, quotes=[passage])), case=case)

    assert [each.verdict for each in judgement.claims] == [Verdict.SUPPORTED]
    assert judgement.account.calls == 1


async def test_a_second_look_has_the_answer_and_the_doubt() -> None:
    first = json.dumps({"sentences": [{"id": 1, "claims": [said(1)]}, {"id": 2, "claims": [said(2, quotes=[])]}]})
    chat = ScriptedChat(first, checked(c1_0=said(2)))

    await judge(chat)

    data = data_of(chat.requests[1])
    assert data["answer"] == [{"id": 1, "text": TEXTS[1]}, {"id": 2, "text": TEXTS[2]}]
    assert data["claims"] == [{"id": "1.0", "sentence": 2, "text": TEXTS[2], "doubt": "quote"}]


async def test_a_slim_reply_is_all_that_is_needed() -> None:
    slim = {
        "sentences": [{"id": 1, "claims": [{"quotes": [QUOTES[1]], "verdict": "supported"}]}, {"id": 2, "claims": []}]
    }
    chat = ScriptedChat(json.dumps(slim))

    judgement = await judge(chat, case=case_of(f"{TEXTS[1]} What a fine sight it is!", *CONTEXTS))

    assert [(claim.text, claim.verdict) for claim in judgement.claims] == [
        (TEXTS[1], Verdict.SUPPORTED),
        ("What a fine sight it is!", Verdict.NOT_A_CLAIM),
    ]
    assert len(chat.requests) == 1


@pytest.mark.parametrize("quote", load_cases("llm_tier", "quotes"))
async def test_quotes_with_labels_and_glued_quotes_are_found(quote: str) -> None:
    reply = {"sentences": [{"id": 1, "claims": [said(1, quotes=[quote])]}, {"id": 2, "claims": [said(2)]}]}
    chat = ScriptedChat(json.dumps(reply))

    judgement = await judge(chat)

    assert judgement.claims[0].verdict is Verdict.SUPPORTED
    assert any("The dam was built in 1932" in evidence.quote for evidence in judgement.claims[0].evidence)
    assert len(chat.requests) == 1


async def test_what_is_still_unverified_counts_as_not_mentioned() -> None:
    invented = said(2, quotes=["opened by the mayor of Keld"])
    first = json.dumps({"sentences": [{"id": 1, "claims": [said(1)]}, {"id": 2, "claims": [invented]}]})
    chat = ScriptedChat(first, checked(c1_0=invented))

    claim = (await judge(chat)).claims[1]

    assert (claim.verdict, claim.support) == (Verdict.NOT_MENTIONED, 0.0)
    assert set(claim.flags) == {"evidence_unverified", "judge_said_supported"}
    assert len(chat.requests) == 2


async def test_a_second_look_that_fails_costs_no_verdict() -> None:
    invented = json.dumps({"sentences": [{"id": 1, "claims": [said(1)]}, {"id": 2, "claims": [said(2, quotes=[])]}]})
    chat = ScriptedChat(invented, TierFailure(FailureReason.RATE_LIMITED, "HTTP 429"))

    judgement = await judge(chat)

    assert judgement.claims[1].verdict is Verdict.NOT_MENTIONED
    assert judgement.flags == ("second_look_failed", "incomplete")


@pytest.mark.parametrize("content", ["", "I cannot do that.", '{"sentences": []}', sentences(1, 2, verdict="maybe")])
async def test_an_unreadable_reply_is_asked_again_claim_by_claim(content: str) -> None:
    chat = ScriptedChat(content, checked(c0_0=said(1), c1_0=said(2)))

    judgement = await judge(chat)

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED] * 2
    assert [each["id"] for each in data_of(chat.requests[1])["claims"]] == ["0.0", "1.0"]


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (["nothing"], FailureReason.INVALID_REPLY),
        ([sentences(1), checked(c0_0=said(1))], FailureReason.INVALID_REPLY),
        ([ChatReply(sentences(1, 2)[:40], "m", is_truncated=True)], FailureReason.TRUNCATED_REPLY),
        ([sentences(1), TierFailure(FailureReason.TIMEOUT, "late")], FailureReason.TIMEOUT),
        ([TierFailure(FailureReason.RATE_LIMITED, "HTTP 429")], FailureReason.RATE_LIMITED),
    ],
)
async def test_sentences_without_a_verdict_fail_the_tier(replies: list[Any], reason: FailureReason) -> None:
    with pytest.raises(TierFailure) as failed:
        await judge(ScriptedChat(*replies))

    assert failed.value.reason is reason


async def test_a_failure_quotes_nothing_of_the_reply() -> None:
    with pytest.raises(TierFailure) as failed:
        await judge(ScriptedChat(sentences(1, 2, verdict="secret passage", claim="secret claim")))

    assert "secret" not in failed.value.detail


async def test_a_truncated_reply_is_salvaged_and_the_rest_is_asked_for() -> None:
    whole = sentences(1, 2)
    chat = ScriptedChat(ChatReply(whole[: whole.index('"id": 2') + 20], "m", is_truncated=True), checked(c1_0=said(2)))

    judgement = await judge(chat)

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED] * 2
    assert "truncated_reply" in judgement.flags


# --- what is asked


async def test_contexts_and_sentences_are_numbered_from_one() -> None:
    chat = ScriptedChat(sentences(1, 2))
    await judge(chat)

    assert data_of(chat.requests[0]) == {
        "contexts": [{"id": 1, "text": CONTEXTS[0]}, {"id": 2, "text": CONTEXTS[1]}],
        "question": "How high is the dam?",
        "answer": [{"id": 1, "text": TEXTS[1]}, {"id": 2, "text": TEXTS[2]}],
    }


async def test_sentences_not_checked_are_no_claims_and_have_no_number() -> None:
    case = case_of("# The dam\n\n---\n\nThe dam was built in 1932.", *CONTEXTS)
    chat = ScriptedChat(sentences(1))

    judgement = await judge(chat, case=case)

    assert [claim.verdict for claim in judgement.claims] == [
        Verdict.NOT_A_CLAIM,
        Verdict.NOT_A_CLAIM,
        Verdict.SUPPORTED,
    ]
    assert data_of(chat.requests[0])["answer"] == [{"text": "# The dam"}, {"id": 1, "text": TEXTS[1]}]


async def test_the_marker_differs_from_request_to_request() -> None:
    chat = ScriptedChat(sentences(1, 2))
    await judge(chat)
    await judge(chat)

    assert len({marker_of(request) for request in chat.requests}) == 2


async def test_a_long_answer_is_asked_in_batches_that_a_reply_can_hold() -> None:
    case = case_of(" ".join(f"The dam is {number} metres high." for number in range(100, 200)), CONTEXTS[1])

    def answer(data: Mapping[str, Any]) -> str:
        ids = [each["id"] for each in data["answer"] if "id" in each]
        assert len(ids) <= 25
        return json.dumps({"sentences": [{"id": i, "claims": [{"verdict": "not_mentioned"}]} for i in ids]})

    chat = AnsweringChat(answer)
    judgement = await judge(chat, case=case)

    assert len(judgement.claims) == 100
    assert len(chat.requests) == 4


# --- long contexts


async def test_long_contexts_are_read_in_windows_and_the_best_verdict_wins() -> None:
    filler = "Nothing of the sort is said in this sentence of the context. " * 40
    case = case_of(ANSWER + " The dam is red.", *(filler for _ in range(40)), CONTEXTS[1], filler)
    chat = AnsweringChat(_reader, context_tokens=10_000)

    judgement = await judge(chat, case=case)

    assert judgement.windows > 3
    assert [claim.verdict for claim in judgement.claims] == [
        Verdict.SUPPORTED,
        Verdict.SUPPORTED,
        Verdict.NOT_MENTIONED,
    ]
    assert judgement.claims[0].evidence[0].context == 40
    # every context was shown to the judge, whole
    seen = {piece["id"] for request in chat.requests for piece in data_of(request)["contexts"]}
    assert seen == set(range(1, 43))


async def test_contradiction_stands_only_when_no_window_supports() -> None:
    filler = "Nothing of the sort is said in this sentence of the context. " * 300
    case = case_of("The dam was built in 1932.", "The dam was built in 1955.", filler, CONTEXTS[1])

    def answer(data: Mapping[str, Any]) -> str:
        texts = " ".join(piece["text"] for piece in data["contexts"])
        if "1932" in texts:
            verdict = said(1)
        elif "1955" in texts:
            verdict = said(1, verdict="contradicted", quotes=["The dam was built in 1955"])
        else:
            verdict = said(1, verdict="not_mentioned", quotes=[])
        if "claims" in data:
            return json.dumps({"claims": [{"id": "0.0", **verdict}]})
        return json.dumps({"sentences": [{"id": 1, "claims": [verdict]}]})

    judgement = await judge(AnsweringChat(answer, context_tokens=10_000), case=case)

    assert judgement.windows > 1
    assert judgement.claims[0].verdict is Verdict.SUPPORTED


async def test_a_question_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(TierFailure) as failed:
        await judge(ScriptedChat("", context_tokens=4_096))

    assert failed.value.reason is FailureReason.TOO_LONG


# --- several votes


async def test_most_judges_win_and_a_dispute_is_flagged() -> None:
    against = checked(c0_0=said(1), c1_0=said(2, verdict="not_mentioned", quotes=[]))
    chats = [ScriptedChat(sentences(1, 2)), ScriptedChat(against, name="b"), ScriptedChat(against, name="c")]

    judgement = await judge(*chats, ask=JudgeOptions(judges=("default", "b", "c")))

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED, Verdict.NOT_MENTIONED]
    assert "disputed" in judgement.claims[1].flags
    assert "disputed" not in judgement.claims[0].flags
    assert [vote.faithfulness for vote in judgement.votes] == [1.0, 0.5, 0.5]
    assert judgement.account.calls == 3


async def test_one_model_may_vote_several_times() -> None:
    chat = ScriptedChat(sentences(1, 2), checked(c0_0=said(1), c1_0=said(2)))

    judgement = await judge(chat, ask=JudgeOptions(samples=3))

    assert [vote.faithfulness for vote in judgement.votes] == [1.0, 1.0, 1.0]
    assert [request.temperature for request in chat.requests] == [None, 0.7, 0.7]


async def test_a_judge_that_fails_is_named_and_the_others_decide() -> None:
    broken = ScriptedChat(TierFailure(FailureReason.UPSTREAM_ERROR, "HTTP 500"), name="b")

    judgement = await judge(ScriptedChat(sentences(1, 2)), broken, ask=JudgeOptions(judges=("default", "b")))

    assert judgement.warnings == ("judge b did not vote (upstream_error)",)
    assert "incomplete" in judgement.flags
    assert judgement.votes == ()


class DeadChat(ScriptedChat):
    """A chat model that fails, and keeps for how long it was asked."""

    seconds = 0.0

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        self.seconds = seconds
        raise TierFailure(FailureReason.CONNECTION, "no connection")


async def test_a_panel_survives_its_first_judge() -> None:
    broken = DeadChat("", name="down")
    chats = (broken, ScriptedChat(sentences(1, 2)), ScriptedChat(checked(c0_0=said(1), c1_0=said(2)), name="c"))

    judgement = await judge(*chats, ask=JudgeOptions(judges=("down", "default", "c")))

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED] * 2
    assert judgement.warnings == ("judge down did not vote (connection)",)
    # of 5 seconds; a judge that hangs leaves the others the rest
    assert broken.seconds == pytest.approx(3.0, abs=0.1)
    assert "incomplete" in judgement.flags
    assert len(judgement.votes) == 2


async def test_a_panel_of_which_none_answers_names_all() -> None:
    broken = TierFailure(FailureReason.UPSTREAM_ERROR, "HTTP 500")

    with pytest.raises(TierFailure) as failed:
        await judge(ScriptedChat(broken), ScriptedChat(broken, name="b"), ask=JudgeOptions(judges=("default", "b")))

    assert failed.value.detail == "judge default: HTTP 500; judge b: HTTP 500"


async def test_a_judge_that_is_named_twice_votes_once_and_the_result_says_so() -> None:
    chat = ScriptedChat(sentences(1, 2))

    judgement = await judge(chat, ask=JudgeOptions(judges=("default", "default")))

    assert (len(chat.requests), judgement.votes) == (1, ())
    assert judgement.warnings == ("judge default is named more than once, and votes once",)
    assert "incomplete" not in judgement.flags


async def test_an_unknown_judge_is_refused() -> None:
    with pytest.raises(TierFailure) as failed:
        await judge(ScriptedChat(sentences(1, 2)), ask=JudgeOptions(judges=("nobody",)))

    assert failed.value.reason is FailureReason.NOT_CONFIGURED


async def test_a_second_model_acquits_with_evidence_where_it_can_turn_the_outcome() -> None:
    accusing = sentences(1, 2, verdict="not_mentioned", quotes=[])
    first = ScriptedChat(accusing, checked(c0_0=said(1, verdict="not_mentioned", quotes=[])))
    second = ScriptedChat(checked(c0_0=said(1), c1_0=said(2)), name="b")

    judgement = await judge(first, second, ask=JudgeOptions(escalation="b"))

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED] * 2
    assert all({"escalated", "disputed"} <= set(claim.flags) for claim in judgement.claims)
    assert "escalated" in judgement.flags
    assert [vote.faithfulness for vote in judgement.votes] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("threshold", "first", "asked"),
    [
        (None, "supported", ["0.0", "1.0"]),
        (None, "not_mentioned", ["0.0"]),
        # One of two sentences is supported: 0.5 passes at 0.5, and no longer where a second judge denies that one.
        (0.5, "not_mentioned", ["1.0"]),
        (0.9, "not_mentioned", ["0.0"]),
        (0.0, "supported", []),
    ],
)
async def test_a_second_judge_is_asked_about_the_claims_on_which_the_decision_hangs(
    threshold: float | None, first: str, asked: list[str]
) -> None:
    drafted = {"sentences": [{"id": 1, "claims": [said(1, verdict=first)]}, {"id": 2, "claims": [said(2)]}]}
    second = ScriptedChat(checked(c0_0=said(1), c1_0=said(2)), name="b")

    await judge(ScriptedChat(json.dumps(drafted)), second, ask=JudgeOptions(escalation="b", threshold=threshold))

    assert [each["id"] for request in second.requests for each in data_of(request)["claims"]] == asked


async def test_identities_differ_with_what_moves_verdicts() -> None:
    tier = tier_of(ScriptedChat(""), ScriptedChat("", name="b"))
    asks = [
        JudgeOptions(),
        JudgeOptions(judges=("b",)),
        JudgeOptions(samples=2),
        JudgeOptions(escalation="b"),
        JudgeOptions(escalation="b", threshold=0.9),
    ]

    assert len({tier.identity(CASE, ask) for ask in asks}) == len(asks)
    assert tier.identity(CASE, JudgeOptions(threshold=0.9)) == tier.identity(CASE, JudgeOptions(tenant="other"))


def marker_of(request: ChatRequest) -> str:
    return request.user.split("BEGIN ", 1)[1].split("\n", 1)[0]


def data_of(request: ChatRequest) -> Any:
    marker = marker_of(request)
    data = json.loads(request.user.split(f"BEGIN {marker}\n", 1)[1].split(f"\nEND {marker}", 1)[0])
    return counted_from_1(data, request.user)


def _reader(data: Mapping[str, Any]) -> str:
    """An honest judge of the dam: supports what the contexts that it sees say."""
    dam = next((piece["id"] for piece in data["contexts"] if "1932" in piece["text"]), None)

    def verdict(number: int) -> dict[str, Any]:
        if dam is not None and number in QUOTES:
            return said(number)
        return said(number, verdict="not_mentioned", quotes=[])

    if "claims" in data:
        numbered = [(each["id"], int(each["id"][0]) + 1) for each in data["claims"]]
        return json.dumps({"claims": [{"id": claim_id, **verdict(number)} for claim_id, number in numbered]})
    ids = [each["id"] for each in data["answer"] if "id" in each]
    return json.dumps({"sentences": [{"id": number, "claims": [verdict(number)]} for number in ids]})


async def test_a_sample_is_cut_anew_for_the_window_that_its_first_call_taught() -> None:
    class Taught(AnsweringChat):
        async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
            if self.context_tokens > 8_192:
                self.context_tokens = 8_192
                raise TierFailure(FailureReason.TOO_LONG, "HTTP 400 (context_length_exceeded)")
            return await super().complete(request, seconds=seconds, ledger=ledger)

    chat = Taught(lambda data: sentences(1, 2))
    case = case_of(ANSWER, *CONTEXTS, *["The mill is old. " * 400] * 3, question="How high is the dam?")

    judgement = await tier_of(chat).judge(case, JudgeOptions(), seconds=5.0)

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED] * 2
    assert judgement.windows > 1
