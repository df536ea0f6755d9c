"""A detector that is a chat model: what it is asked, what is read, and what every fault becomes."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.judging.ports.exchange import Ledger, Passage
from plumbline.models.detectors.description import Description, Probe, find_description
from plumbline.models.detectors.remote_detector import ChatDetector, build_chat_detector
from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, TokenCount, completion, completion_payload, status
from tests.running.service import URL, plain_settings, running

SECONDS = 5.0
PROBE = (Probe(premise="Rain fell.", claim="Rain fell.", at_least=0.5),)
GUARDIAN = Description(
    model="ibm/guardian", head="chat_score", template="{premise}\n{claim}", pattern=r"<score>\s*(\w+)\s*</score>",
    positive="yes", inverted=True, over=("yes", "no"), probe=PROBE,
)  # fmt: skip
LYNX = GUARDIAN.model_copy(
    update={"pattern": r'"SCORE"\s*:\s*"?(\w+)', "positive": "PASS", "over": ("PASS", "FAIL"), "inverted": False}
)
SPANS = Description(
    model="my/spans", head="chat_spans", unit="answer", system="Find faults.", template="{question} {premise} {claim}",
    probe=PROBE,
)  # fmt: skip
WORD = Description(model="my/word", head="chat_logprob", template="Document: {premise}\nClaim: {claim}", probe=PROBE)


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    with running_judge() as judge:
        yield judge


def detector_at(server: ScriptedJudge, description: Description) -> ChatDetector:
    return build_chat_detector(description, plain_settings(llm_backoff_seconds=0.001), server.base_url)


def word(**shares: float) -> Reply:
    """A first token with these probabilities."""
    top = [{"token": token, "logprob": math.log(share)} for token, share in shares.items()]
    return status(200, completion_payload([{
        "message": {"role": "assistant", "content": next(iter(shares))}, "finish_reason": "length",
        "logprobs": {"content": [{**top[0], "top_logprobs": top}]},
    }]))  # fmt: skip


def spans(*texts: str) -> Reply:
    return completion(json.dumps({"hallucinated_spans": [{"text": text, "category": "x"} for text in texts]}))


def after_probe(probe: Reply, reply: Reply) -> Callable[[RecordedRequest], Reply]:
    return lambda request: probe if "Rain fell" in request.prompt else reply


async def support(detector: ChatDetector, claim: str, text: str = "Oslo is wet.") -> Any:
    passage = Passage(0, text, ((0, len(text)),))
    (found,) = (await detector.read([passage], "Where?", [claim], seconds=SECONDS)).findings
    return found


async def test_a_word_is_read_by_the_probability_of_its_first_token(server: ScriptedJudge) -> None:
    server.reply_with(after_probe(word(Yes=0.9, No=0.1), word(No=0.6, Yes=0.25, yes=0.05)))
    described = find_description("bespoke-minicheck-7b").model_copy(update={"probe": PROBE})
    async with aclosing(detector_at(server, described)) as detector:
        found = await support(detector, "Rome is dry.")
    # Both spellings of yes: .25 + .05.
    assert found.support == pytest.approx(0.3)
    sent = server.requests[-1].json
    assert server.requests[-1].path.endswith("/chat/completions")
    assert sent["model"] == "bespokelabs/Bespoke-MiniCheck-7B"
    assert sent["messages"][0]["content"].endswith('by responding with either "Yes" or "No".')
    assert sent["messages"][1] == {"role": "user", "content": "Document: Oslo is wet.\nClaim: Rome is dry."}
    assert (sent["max_tokens"], sent["logprobs"], sent["top_logprobs"]) == (1, True, 5)


@pytest.mark.parametrize(
    ("description", "good", "reply", "expected"),
    [
        (GUARDIAN, "<score>no</score>", "<score> yes </score>", 0.0),
        (GUARDIAN, "<score>no</score>", "<think>so</think>\n<score>No</score>", 1.0),
        (LYNX, '{"SCORE": "PASS"}', '{"REASONING": ["- it \\"passes\\""], "SCORE": "FAIL"}', 0.0),
        (LYNX, '{"SCORE": "PASS"}', '{"REASONING": [], "SCORE": PASS}', 1.0),
    ],
)
async def test_a_mark_means_support_or_fault_as_described(
    server: ScriptedJudge, description: Description, good: str, reply: str, expected: float
) -> None:
    server.reply_with(after_probe(completion(good), completion(reply)))
    async with aclosing(detector_at(server, description)) as detector:
        assert (await support(detector, "Rome is dry.")).support == expected


async def test_calls_are_counted_with_their_tokens_and_cost(server: ScriptedJudge) -> None:
    used = completion_payload(
        [{"message": {"content": "<score>no</score>"}, "finish_reason": "stop"}], tokens=TokenCount(900, 4)
    )
    server.reply_with(after_probe(completion("<score>no</score>"), status(200, used)))
    prices = {GUARDIAN.model: {"input": 2.0, "output": 10.0}}
    settings, ledger = plain_settings(llm_backoff_seconds=0.001, llm_prices=prices), Ledger()
    passage = Passage(0, "Oslo is wet.", ((0, 12),))
    async with aclosing(build_chat_detector(GUARDIAN, settings, server.base_url)) as detector:
        await detector.read([passage], "", ["Rome is dry.", "Oslo is dry."], seconds=SECONDS, ledger=ledger)
    assert (ledger.usage.calls, ledger.usage.prompt_tokens, ledger.usage.completion_tokens) == (2, 1_800, 8)
    # 1,800 at 2 and 8 at 10 for a million.
    assert ledger.usage.cost == pytest.approx(0.00368)


async def test_a_guardian_read_the_wrong_way_round_fails_its_probe(server: ScriptedJudge) -> None:
    server.reply_with(completion("<score>no</score>"))
    async with aclosing(detector_at(server, GUARDIAN.model_copy(update={"inverted": False}))) as detector:
        with pytest.raises(TierFailure, match=r"gave 0\.0000 for pair 1") as caught:
            await support(detector, "Rome is dry.")
        assert caught.value.reason is FailureReason.DETECTOR_PROBE_FAILED


@pytest.mark.parametrize(
    ("answer", "marked", "places"),
    [
        ("Oslo is dry. Rome is dry.", ["dry", "dry"], [(8, 11), (21, 24)]),
        ("奥斯陆很干燥，罗马有雨。", ["干燥"], [(4, 6)]),
        ("🌧🌧 Oslo is 👩‍🚀 big.", ["👩‍🚀 big"], [(11, 18)]),
        ("Oslo is wet.", [], []),
    ],
)
async def test_marked_words_have_the_answers_own_offsets(
    server: ScriptedJudge, answer: str, marked: list[str], places: list[tuple[int, int]]
) -> None:
    server.reply_with(after_probe(spans(), spans(*marked)))
    async with aclosing(detector_at(server, SPANS)) as detector:
        found = await support(detector, answer)
    assert [(start, end) for start, end, share in found.words if share == 0.0] == places
    assert [answer[start:end] for start, end in places] == marked
    assert found.support == (0.0 if marked else 1.0)


async def test_words_that_one_part_of_a_long_premise_supports_are_no_fault(server: ScriptedJudge) -> None:
    def by_part(request: RecordedRequest) -> Reply:
        if "Rain fell" in request.prompt:
            return spans()
        premise = request.json["messages"][1]["content"]
        return spans("wet") if "river" in premise else spans("big", "wet") if "Needle" in premise else spans("big")

    server.reply_with(by_part)
    text = "The river is very long and cold. " * 40 + "Needle."
    sentences = (*((start, start + 33) for start in range(0, 40 * 33, 33)), (40 * 33, len(text)))
    described = SPANS.model_copy(update={"max_tokens": 128})
    async with aclosing(detector_at(server, described)) as detector:
        reading = await detector.read([Passage(0, text, sentences)], "", ["wet big"], seconds=SECONDS)
    # Every part marks "wet", none but the last marks "big".
    assert [(start, end) for start, end, share in reading.findings[0].words if share == 0.0] == [(0, 3)]
    assert len(server.requests) > 3


@pytest.mark.parametrize(
    ("description", "good", "reply", "reason"),
    [
        (WORD, word(Yes=0.9), completion("Yes"), "has no logprobs"),
        (WORD, word(Yes=0.9), word(Well=0.9), "starts with none of no, yes"),
        (GUARDIAN, completion("<score>no</score>"), completion("no"), "has 0 marks"),
        (GUARDIAN, completion("<score>no</score>"), completion("<score>maybe</score>"), "expected one of no, yes"),
        (GUARDIAN, completion("<score>no</score>"), completion("<score>no</score><score>yes</score>"), "has 2 marks"),
        (SPANS, spans(), spans("Madrid"), "marks words that are not in the answer"),
        (SPANS, spans(), completion('{"hallucinated_spans": [{"text": "Ro'), "is no JSON"),
        (SPANS, spans(), completion('{"spans": []}'), "is no JSON with `hallucinated_spans`"),
    ],
)  # fmt: skip
async def test_a_reply_that_cannot_be_read_is_a_failure_and_no_number(
    server: ScriptedJudge, description: Description, good: Reply, reply: Reply, reason: str
) -> None:
    server.reply_with(after_probe(good, reply))
    async with aclosing(detector_at(server, description)) as detector:
        with pytest.raises(TierFailure, match=reason) as caught:
            await support(detector, "Rome is dry.")
        assert caught.value.reason is FailureReason.INVALID_REPLY


async def test_a_busy_server_is_asked_again(server: ScriptedJudge) -> None:
    server.reply_with(status(429, b""), status(500, b""), word(Yes=0.9))
    async with aclosing(detector_at(server, WORD)) as detector:
        assert (await support(detector, "Rome is dry.")).support == pytest.approx(0.9)


async def test_a_server_that_never_answers_is_a_timeout(server: ScriptedJudge) -> None:
    server.reply_with(hang())
    async with aclosing(detector_at(server, WORD)) as detector:
        with pytest.raises(TierFailure) as caught:
            await detector.read([Passage(0, "Rain.", ((0, 5),))], "", ["Rain."], seconds=0.1)
        assert caught.value.reason is FailureReason.TIMEOUT


async def test_fenced_json_is_read(server: ScriptedJudge) -> None:
    server.reply_with(after_probe(spans(), completion('```json\n{"hallucinated_spans": [{"text": "dry"}]}\n```')))
    async with aclosing(detector_at(server, SPANS)) as detector:
        assert (await support(detector, "Rome is dry.")).words[1] == (8, 11, 0.0)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"head": "chat_logprob"}, "needs `template`"),
        ({"head": "chat_spans", "template": "{premise}{claim}"}, "marks words needs"),
        ({"head": "chat_score", "template": "{premise}{claim}", "pattern": "(a)"}, "needs `positive`"),
        ({**GUARDIAN.model_dump(), "pattern": "(a"}, "expression with one group"),
        ({**GUARDIAN.model_dump(), "pattern": None}, "expression with one group"),
    ],
)
def test_a_description_that_lacks_what_its_head_needs_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Description.model_validate({"model": "m", **fields})


async def test_a_chat_detector_without_a_server_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="PLUMBLINE_DETECTOR_URL: needed for Bespoke-MiniCheck-7B"):
        async with running(plain_settings(detector="bespoke-minicheck-7b")):
            pass


async def test_the_service_asks_a_chat_model_and_falls_back_without_it(server: ScriptedJudge) -> None:
    server.reply_with(lambda request: word(Yes=0.9, No=0.1)
                      if "1932.\nClaim: The town hall" in request.prompt or "Oslo" in request.prompt
                      else word(No=0.9, Yes=0.1))  # fmt: skip
    sample = {"contexts": ["Oslo is wet in autumn."], "answer": "Oslo is damp then."}
    settings = plain_settings(detector="bespoke-minicheck-7b", detector_url=server.base_url, llm_backoff_seconds=0.001)
    async with running(settings) as client:
        result = (await client.post(URL, json=sample)).json()
        assert result["tier"] == "detector"
        assert result["claims"][0]["support"] == pytest.approx(0.9)
        server.reply_with(completion("Yes"))
        result = (await client.post(URL, json={**sample, "answer": "Oslo is far away."})).json()
    assert [attempt["tier"] for attempt in result["attempts"]] == ["llm", "detector", "embedding"]
    assert result["attempts"][1]["reason"] == "invalid_reply"
