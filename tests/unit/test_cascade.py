"""The cascade: order, one deadline over all, and an account of every attempt."""

import asyncio

import pytest

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement
from plumbline.judging.tiers.cascade import CascadeResult, JudgeCascade
from plumbline.judging.tiers.tier import AbsentTier, JudgeOptions, Tier, TierName
from tests.doubles.fakes import AnsweringTier, FailingTier, SlowTier, case_of

CASE = case_of("The dam is safe.", "The dam is safe.")
UPSTREAM = TierFailure(FailureReason.UPSTREAM_ERROR, "HTTP 500")
LLM, EMBEDDING, LEXICAL = TierName.LLM, TierName.EMBEDDING, TierName.LEXICAL


async def _judge(*tiers: Tier, order: list[TierName] | None = None, seconds: float = 20.0) -> CascadeResult:
    return await JudgeCascade(tiers).judge(CASE, JudgeOptions(), tiers=order, deadline_seconds=seconds)


def _reasons(result: CascadeResult) -> list[tuple[TierName, FailureReason | None]]:
    return [(attempt.tier, attempt.reason) for attempt in result.attempts]


async def test_the_first_tier_that_answers_is_the_only_one_asked() -> None:
    llm, lexical = AnsweringTier(LLM), AnsweringTier(LEXICAL)

    result = await _judge(llm, lexical)

    assert result.judgement is llm.judgement
    assert result.tier is LLM
    assert _reasons(result) == [(LLM, None)]
    assert lexical.budgets == []


async def test_a_tier_that_cannot_answer_gives_way_and_is_on_record() -> None:
    lexical = AnsweringTier(LEXICAL)

    result = await _judge(FailingTier(LLM, UPSTREAM), lexical)

    assert result.tier is LEXICAL
    assert _reasons(result) == [(LLM, FailureReason.UPSTREAM_ERROR), (LEXICAL, None)]
    assert result.attempts[0].detail == "HTTP 500"
    assert not result.attempts[0].answered
    assert result.attempts[1].answered


async def test_when_every_tier_fails_there_is_no_judgement_and_every_attempt_is_on_record() -> None:
    absent = AbsentTier(LLM, reason=FailureReason.NOT_CONFIGURED, detail="no key")

    result = await _judge(absent, FailingTier(EMBEDDING, UPSTREAM), FailingTier(LEXICAL, UPSTREAM))

    assert (result.judgement, result.tier) == (None, None)
    assert _reasons(result) == [
        (LLM, FailureReason.NOT_CONFIGURED),
        (EMBEDDING, FailureReason.UPSTREAM_ERROR),
        (LEXICAL, FailureReason.UPSTREAM_ERROR),
    ]


async def test_only_the_tiers_named_are_asked() -> None:
    llm, lexical = AnsweringTier(LLM), AnsweringTier(LEXICAL)

    result = await _judge(llm, lexical, order=[LEXICAL])

    assert result.tier is LEXICAL
    assert llm.budgets == []


async def test_tiers_are_asked_in_the_order_named() -> None:
    result = await _judge(AnsweringTier(LLM), FailingTier(LEXICAL, UPSTREAM), order=[LEXICAL, LLM])

    assert [attempt.tier for attempt in result.attempts] == [LEXICAL, LLM]


async def test_a_long_deadline_leaves_each_later_tier_its_reserve() -> None:
    llm, embedding = FailingTier(LLM, UPSTREAM), FailingTier(EMBEDDING, UPSTREAM)
    lexical = AnsweringTier(LEXICAL)

    await _judge(llm, embedding, lexical, seconds=20.0)

    # 20 s less 3 s for embedding and 0.5 s for lexical; then 20 less 0.5; then what is left.
    assert llm.budgets == [pytest.approx(16.5, abs=0.1)]
    assert embedding.budgets == [pytest.approx(19.5, abs=0.1)]
    assert lexical.budgets == [pytest.approx(20.0, abs=0.1)]


async def test_a_short_deadline_is_shared_so_that_the_last_tier_still_answers() -> None:
    llm, embedding, lexical = SlowTier(LLM), SlowTier(EMBEDDING), AnsweringTier(LEXICAL)

    result = await _judge(llm, embedding, lexical, seconds=0.4)

    # 60 % of 0.4 s; 60 % of the 0.16 s left; the 0.064 s left after that.
    assert result.tier is LEXICAL
    assert _reasons(result) == [(LLM, FailureReason.TIMEOUT), (EMBEDDING, FailureReason.TIMEOUT), (LEXICAL, None)]
    assert llm.budgets == [pytest.approx(0.24, abs=0.01)]
    assert embedding.budgets == [pytest.approx(0.096, abs=0.03)]
    assert 0 < lexical.budgets[0] < 0.07


async def test_a_tier_moved_to_the_end_keeps_time_too() -> None:
    result = await _judge(SlowTier(EMBEDDING), AnsweringTier(LLM), order=[EMBEDDING, LLM], seconds=0.1)

    assert result.tier is LLM


async def test_a_timeout_is_on_record_with_its_seconds() -> None:
    result = await _judge(SlowTier(LLM), seconds=0.1)

    attempt = result.attempts[0]
    assert attempt.reason is FailureReason.TIMEOUT
    assert attempt.detail == "timed out after 0.1 s"
    assert attempt.seconds > 0


async def test_the_deadline_bounds_all_tiers_together() -> None:
    result = await _judge(SlowTier(LLM), SlowTier(EMBEDDING), SlowTier(LEXICAL), seconds=0.1)

    assert result.judgement is None
    assert [reason for _, reason in _reasons(result)] == [FailureReason.TIMEOUT] * 3


async def test_after_the_deadline_no_tier_is_asked() -> None:
    llm = AnsweringTier(LLM)

    result = await _judge(llm, seconds=0.0)

    assert result.judgement is None
    assert llm.budgets == []
    assert result.attempts[0].detail == "not asked: the deadline had passed"


@pytest.mark.parametrize("error", [ValueError("bug"), KeyError("bug"), RuntimeError("bug")])
async def test_any_other_exception_is_a_bug_and_rises(error: Exception) -> None:
    with pytest.raises(type(error)):
        await _judge(FailingTier(LLM, error), AnsweringTier(LEXICAL))


async def test_a_timeout_error_of_a_tiers_own_is_a_bug_and_rises() -> None:
    with pytest.raises(TimeoutError, match="bug"):
        await _judge(FailingTier(LLM, TimeoutError("bug")), AnsweringTier(LEXICAL))


async def test_a_caller_who_leaves_is_not_taken_for_a_timeout() -> None:
    lexical = AnsweringTier(LEXICAL)
    task = asyncio.create_task(_judge(SlowTier(LLM), lexical))
    await asyncio.sleep(0.01)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert lexical.budgets == []


def test_the_readiness_of_every_tier_is_told_in_order() -> None:
    absent = AbsentTier(LLM, reason=FailureReason.NOT_CONFIGURED, detail="no key")

    readiness = JudgeCascade([absent, AnsweringTier(LEXICAL)]).readiness()

    assert [(name, each.state) for name, each in readiness.items()] == [
        (LLM, State.UNAVAILABLE),
        (LEXICAL, State.READY),
    ]


async def test_samples_that_can_wait_queue_for_a_tier_and_their_deadline_stands_still() -> None:
    under_way = most = 0

    class CountingTier(AnsweringTier):
        async def judge(self, case: SegmentedSample, ask: JudgeOptions, *, seconds: float) -> Judgement:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= 1
            return await super().judge(case, ask, seconds=seconds)

    tier = CountingTier(EMBEDDING)
    cascade = JudgeCascade([tier], limits={EMBEDDING: asyncio.Semaphore(1)})
    results = await asyncio.gather(
        *(cascade.judge(CASE, JudgeOptions(can_wait=True), tiers=None, deadline_seconds=10.0) for _ in range(5))
    )

    assert [result.tier for result in results] == [EMBEDDING] * 5
    assert most == 1
    # the last one waited for 0.4 s
    assert min(tier.budgets) > 9.8


async def test_a_sample_that_somebody_waits_for_does_not_queue() -> None:
    cascade = JudgeCascade([AnsweringTier(EMBEDDING)], limits={EMBEDDING: asyncio.Semaphore(0)})

    assert (await cascade.judge(CASE, JudgeOptions(), tiers=None, deadline_seconds=5.0)).tier is EMBEDDING


class BusyTier(AnsweringTier):
    """Asks for patience twice, then answers."""

    async def judge(self, case: SegmentedSample, ask: JudgeOptions, *, seconds: float) -> Judgement:
        judgement = await super().judge(case, ask, seconds=seconds)
        if len(self.budgets) <= 2:
            raise TierFailure(FailureReason.RATE_LIMITED, "HTTP 429", wait_seconds=0.1)
        return judgement


async def test_a_sample_that_can_wait_begins_again_with_its_whole_deadline() -> None:
    tier = BusyTier(LLM)
    cascade = JudgeCascade([tier, AnsweringTier(LEXICAL)])

    result = await cascade.judge(CASE, JudgeOptions(can_wait=True), tiers=None, deadline_seconds=10.0)

    assert (result.tier, len(set(tier.budgets)), len(tier.budgets)) == (LLM, 1, 3)
    assert result.waited > 0.19


async def test_a_sample_that_somebody_waits_for_goes_to_the_next_tier() -> None:
    result = await _judge(BusyTier(LLM), AnsweringTier(LEXICAL))

    assert _reasons(result) == [(LLM, FailureReason.RATE_LIMITED), (LEXICAL, None)]


class LoadingTier(AnsweringTier):
    state = State.LOADING

    def readiness(self) -> Readiness:
        return Readiness(self.state, "a-model")

    async def load(self) -> None:
        await asyncio.sleep(0.3)
        self.state = State.READY


@pytest.mark.parametrize(("can_wait", "seconds"), [(False, 10.0), (True, 0.2)])
async def test_loading_a_model_costs_a_sample_nothing_of_its_deadline(can_wait: bool, seconds: float) -> None:
    tier = LoadingTier(EMBEDDING)
    cascade = JudgeCascade([tier, AnsweringTier(LEXICAL)], loaders={EMBEDDING: tier.load})

    result = await cascade.judge(CASE, JudgeOptions(can_wait=can_wait), tiers=[EMBEDDING], deadline_seconds=seconds)

    assert result.tier is EMBEDDING
    assert tier.budgets[0] > seconds - 0.15


async def test_a_model_that_loads_longer_than_the_deadline_leaves_it_whole_to_the_next_tier() -> None:
    tier, other = LoadingTier(EMBEDDING), AnsweringTier(LEXICAL)
    cascade = JudgeCascade([tier, other], loaders={EMBEDDING: tier.load})

    result = await cascade.judge(CASE, JudgeOptions(), tiers=None, deadline_seconds=0.25)

    assert [(each.tier, each.reason, each.detail) for each in result.attempts] == [
        (EMBEDDING, FailureReason.MODEL_LOADING, "a-model is being loaded; ask again in a moment"),
        (LEXICAL, None, None),
    ]
    assert other.budgets[0] > 0.05
