"""Small samples are worked on where they are; what is long, or must be looked for, goes to the threads."""

import asyncio
import gc
import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.judge.context_windows import context_windows
from plumbline.judging.judge.metrics import find_metrics
from plumbline.judging.judge.questions import Questions, load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.offload import LONG_CHARACTERS, SMALL_CHARACTERS
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.verdicts import Verdict
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from tests.doubles.fakes import ScriptedChat, case_of, claim_of

P = ParamSpec("P")
T = TypeVar("T")

FACT = "The bridge was opened in 1931."
PROMPTS = load_prompts()


class CountingExecutor(InlineExecutor):
    """Counts what it is given."""

    def __init__(self) -> None:
        self.given = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        self.given += 1
        return super().submit(fn, *args, **kwargs)


def reply(quote: str, reason: str = "") -> str:
    said = {"claim": FACT, "quotes": [quote], "reason": reason, "verdict": "supported"}
    return json.dumps({"sentences": [{"id": 1, "claims": [said]}]})


async def work_given_away(context: str, *replies: str) -> int:
    """How many pieces of work a sample of tier llm gave to the executor."""
    executor = CountingExecutor()
    tier = LlmTier({"default": ScriptedChat(*replies)}, PROMPTS, executor)
    result = await Scorer(JudgeCascade([tier]), executor).score(
        Sample("", (context,), FACT), JudgeOptions(None, 0.5, 5.0)
    )
    assert result.tier == "llm"
    return executor.given


async def test_a_small_sample_is_worked_on_where_it_is() -> None:
    assert await work_given_away(FACT, reply(FACT)) == 0


async def test_a_long_sample_goes_to_the_threads() -> None:
    assert await work_given_away(f"{FACT} {'x ' * (SMALL_CHARACTERS // 2)}", reply(FACT)) > 0


async def test_metrics_of_a_long_sample_are_put_together_in_the_threads() -> None:
    given = []
    for metrics in ((), find_metrics(["context_relevance"])):
        executor = CountingExecutor()
        scorer = Scorer(JudgeCascade([LexicalTier(load_calibrations(None), executor)]), executor)
        context = f"{FACT} {'x ' * SMALL_CHARACTERS}"
        await scorer.score(Sample("When?", (context,), FACT), JudgeOptions(None, 0.5, 5.0, metrics=metrics))
        given.append(executor.given)

    # The estimate, and the results.
    assert given[1] - given[0] == 2


@pytest.mark.parametrize(
    "said", [reply("the bridge was open in 1931"), reply(FACT, "x" * SMALL_CHARACTERS)], ids=["quote", "reply"]
)
async def test_a_quote_to_be_looked_for_and_a_long_reply_go_to_the_threads(said: str) -> None:
    assert await work_given_away(FACT, said) > 0


async def test_metrics_that_need_words_in_the_contexts_look_for_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def has_content(text: str) -> bool:
        looked_at.append(text)
        return True

    monkeypatch.setattr("plumbline.judging.judge.metrics.has_content", has_content)
    metrics = find_metrics(["context_relevance", "context_precision", "context_recall", "noise_sensitivity"])
    scorer = Scorer(JudgeCascade([]), CountingExecutor())

    await scorer.score(Sample("When?", (FACT,), FACT, reference=FACT), JudgeOptions((), 0.5, 5.0, metrics=metrics))

    assert sorted(looked_at) == sorted(["When?", FACT, FACT])


async def test_a_sample_whose_texts_take_longer_than_its_deadline_is_not_judged() -> None:
    tier = LlmTier({"default": ScriptedChat(reply(FACT))}, PROMPTS, executor := CountingExecutor())
    sample = Sample("", (f"{FACT} {'x ' * (SMALL_CHARACTERS // 2)}",), FACT)

    result = await Scorer(JudgeCascade([tier]), executor).score(sample, JudgeOptions(None, 0.5, 1e-9))

    assert (result.status, result.sentences, result.scores) == ("not_judged", (), None)
    assert [attempt.reason for attempt in result.attempts] == ["timeout"]


async def test_the_worker_is_free_again_once_the_deadline_of_its_sample_has_passed() -> None:
    lines = "Ab.\n" * 100_000
    with ThreadPoolExecutor(1) as executor:
        scorer = Scorer(JudgeCascade([LlmTier({"default": ScriptedChat(reply(FACT))}, PROMPTS, executor)]), executor)
        late = await scorer.score(Sample("", (lines,), FACT), JudgeOptions(None, 0.5, 0.01))

        following = await scorer.score(Sample("", (f"{FACT} {lines[:4_000]}",), FACT), JudgeOptions(None, 0.5, 60.0))

    assert (late.status, following.status) == ("not_judged", "judged")


@pytest.mark.parametrize(
    ("length", "seconds", "collections"), [(LONG_CHARACTERS // 2, 0.005, 10), (LONG_CHARACTERS, 0.001, 1_000)]
)
async def test_the_loop_has_its_turns_sooner_while_a_long_sample_is_worked_on(
    length: int, seconds: float, collections: int
) -> None:
    seen = []

    class Watching(CountingExecutor):
        def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
            seen.append((sys.getswitchinterval(), gc.get_threshold()[2]))
            return super().submit(fn, *args, **kwargs)

    tier = LlmTier({"default": ScriptedChat(reply(FACT))}, PROMPTS, executor := Watching())
    await Scorer(JudgeCascade([tier]), executor).score(
        Sample("", (f"{FACT} {'x ' * (length // 2)}",), FACT), JudgeOptions(None, 0.5, 5.0)
    )

    assert set(seen) == {(seconds, collections)}
    assert (sys.getswitchinterval(), gc.get_threshold()[2]) == (0.005, 10)


async def test_long_texts_take_one_thread_in_turns_so_that_shorter_ones_have_the_other() -> None:
    options = JudgeOptions((TierName.LEXICAL,), 0.5, 30.0)
    long, middle = (Sample("", (f"{FACT} {'word ' * (length // 4)}",), FACT) for length in (LONG_CHARACTERS, 4_000))
    under_way, most = 0, 0

    class Watching(ThreadPoolExecutor):
        def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            future = super().submit(fn, *args, **kwargs)
            future.add_done_callback(leave)
            return future

    def leave(_: Future[Any]) -> None:
        nonlocal under_way
        under_way -= 1

    with Watching(2) as executor:
        scorer = Scorer(JudgeCascade([LexicalTier(load_calibrations(None), executor)]), executor)
        most_by_sample = []
        for sample in (long, middle):
            under_way = most = 0
            await asyncio.gather(*(scorer.score(sample, options) for _ in range(4)))
            most_by_sample.append(most)

    assert most_by_sample == [1, 4]


async def test_a_long_answer_asks_the_judge_a_few_questions_at_a_time() -> None:
    asked, most = 0, 0

    class Slow(ScriptedChat):
        async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
            nonlocal asked, most
            asked += 1
            most = max(most, asked)
            await asyncio.sleep(0)
            asked -= 1
            return await super().complete(request, seconds=seconds, ledger=ledger)

    chat = Slow(TierFailure(FailureReason.NOT_ASKED, "in the next round"))
    tier = LlmTier({"default": chat}, PROMPTS, InlineExecutor(), max_output_tokens=160)
    case = case_of("".join(f"Bridge {number} is old. " for number in range(40)), FACT)

    with pytest.raises(TierFailure, match="next round"):
        await tier.judge(case, JudgeOptions(), seconds=5.0)

    assert (len(chat.requests), most) == (40, 16)


def test_a_question_about_claims_of_a_long_answer_shows_the_sentences_around_them() -> None:
    sample = case_of(" ".join(f"Bridge number {number} is old." for number in range(300)), FACT)
    claim = replace(claim_of(Verdict.SUPPORTED, 1.0, number=250), text="Bridge number 250 is old.")
    window = next(iter(context_windows([FACT], sample.context_sentences, tokens=1_000)))

    request = Questions(sample, PROMPTS[sample.language], 100).on_claims(window, [claim])

    shown = re.findall(r"Bridge number (\d+) is old", request.user)
    assert [*dict.fromkeys(shown)] == ["248", "249", "250"]
