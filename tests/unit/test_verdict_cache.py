"""The cache of verdicts: what is asked once, for whom, and what one caller's trouble does to the others."""

import asyncio
from dataclasses import replace

import pytest

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.exchange import Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import JudgeAccount, Judgement, Verdict
from plumbline.judging.tiers import verdict_cache
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.judging.tiers.verdict_cache import CachedTier, verdict_key
from tests.doubles.fakes import case_of, claim_of

CASE = case_of("The lamp burns.", "The lamp burns at dusk.", question="Does it burn?")
JUDGEMENT = Judgement(
    claims=(claim_of(Verdict.SUPPORTED, 1.0),),
    account=JudgeAccount(model="scripted", calls=2, prompt_tokens=11, completion_tokens=7),
    has_verdict_kinds=True,
)
SLOW = 30.0


class MemoryStore:
    """A store that keeps everything; `delay` seconds for each answer."""

    def __init__(self, *, delay: float = 0.0) -> None:
        self.values: dict[str, Judgement] = {}
        self.delay = delay
        self.gets = 0

    async def get(self, key: str) -> Judgement | None:
        self.gets += 1
        await asyncio.sleep(self.delay)
        return self.values.get(key)

    async def put(self, key: str, judgement: Judgement) -> None:
        await asyncio.sleep(self.delay)
        self.values[key] = judgement

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "everything")


class PaidTier:
    """Each call is charged; answers when `gate` is open, with `outcomes` in turn, the last for ever."""

    name = TierName.LLM

    def __init__(self, *outcomes: Judgement | Exception) -> None:
        self.outcomes = list(outcomes or (JUDGEMENT,))
        self.calls = 0
        self.running = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def judge(self, case: SegmentedSample, ask: JudgeOptions, *, seconds: float) -> Judgement:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        ask.ledger.add_call(prompt_tokens=11, completion_tokens=7, cached_tokens=None, cost=0.5)
        self.running += 1
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def readiness(self) -> Readiness:
        return Readiness(State.IDLE, "paid")


def cached(inner: PaidTier, store: MemoryStore | None = None, identity: str = "model") -> CachedTier:
    return CachedTier(inner, store or MemoryStore(), identity=lambda case, ask: identity)


async def settle() -> None:
    """Lets every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def waiting(tier: CachedTier, ask: JudgeOptions | None = None, *, seconds: float = SLOW) -> asyncio.Task[Judgement]:
    return asyncio.get_running_loop().create_task(tier.judge(CASE, ask or JudgeOptions(), seconds=seconds))


async def test_the_second_time_costs_nothing_and_says_so() -> None:
    inner = PaidTier()
    tier = cached(inner)
    first, second = JudgeOptions(), JudgeOptions()

    judged = await tier.judge(CASE, first, seconds=SLOW)
    await settle()
    kept = await tier.judge(CASE, second, seconds=SLOW)

    assert inner.calls == 1
    assert judged == replace(JUDGEMENT, account=replace(JUDGEMENT.account, cache="miss"))
    assert kept == replace(JUDGEMENT, account=JudgeAccount(model="scripted", calls=0, cache="hit"))
    assert (first.ledger.usage.calls, second.ledger.usage.calls) == (1, 0)


async def test_a_verdict_outlives_the_tier_in_its_store() -> None:
    inner, store = PaidTier(), MemoryStore()
    before = cached(inner, store)
    await before.judge(CASE, JudgeOptions(), seconds=SLOW)
    await before.close()

    kept = await cached(inner, store).judge(CASE, JudgeOptions(), seconds=SLOW)

    assert kept.account.cache == "hit"
    assert kept.claims == JUDGEMENT.claims
    assert inner.calls == 1


@pytest.mark.parametrize(
    ("case", "ask", "identity"),
    [
        (CASE, JudgeOptions(tenant="other"), "model"),
        (CASE, JudgeOptions(), "other model"),
        (case_of("The lamp burns", "The lamp burns at dusk.", question="Does it burn?"), JudgeOptions(), "model"),
        (case_of("The lamp burns.", "The lamp burns at dusk. ", question="Does it burn?"), JudgeOptions(), "model"),
        (case_of("The lamp burns.", "The lamp burns at dusk.", question="It burns?"), JudgeOptions(), "model"),
        (case_of("The lamp burns.", "The lamp burns", " at dusk.", question="Does it burn?"), JudgeOptions(), "model"),
    ],
)
async def test_what_differs_in_anything_is_judged_on_its_own(
    case: SegmentedSample, ask: JudgeOptions, identity: str
) -> None:
    inner, store = PaidTier(), MemoryStore()
    await cached(inner, store).judge(CASE, JudgeOptions(), seconds=SLOW)
    await settle()

    judged = await cached(inner, store, identity).judge(case, ask, seconds=SLOW)

    assert judged.account.cache == "miss"
    assert inner.calls == 2


def test_contexts_that_are_cut_or_ordered_otherwise_have_keys_of_their_own() -> None:
    samples = [
        case_of("a", "b", "c"),
        case_of("a", "c", "b"),
        case_of("a", "bc"),
        case_of("a", "bc", ""),
        case_of("a", "", "bc"),
        case_of("ab", "c"),
        case_of("a", "b", "c", question="c"),
        case_of("\u00e9", "b"),
        case_of("e\u0301", "b"),
    ]
    keys = [verdict_key(case, tenant="", identity="") for case in samples]
    keys += [verdict_key(samples[0], tenant=tenant, identity=identity) for tenant, identity in (("x", ""), ("", "x"))]

    assert len(set(keys)) == len(keys)


def test_a_lone_surrogate_has_a_key_too() -> None:
    assert verdict_key(case_of("a \ud83d", "b"), tenant="", identity="") != verdict_key(
        case_of("a ?", "b"), tenant="", identity=""
    )


def test_another_cut_of_the_same_answer_has_another_key() -> None:
    case = case_of("It burns. It shines.", "It burns.")
    whole = replace(case, sentences=(case.sentences[0]._replace(end=20),))

    assert verdict_key(case, tenant="", identity="") != verdict_key(whole, tenant="", identity="")


async def test_bypass_is_judged_anew_and_takes_the_place_of_what_was_kept() -> None:
    better = replace(JUDGEMENT, flags=("better",))
    inner = PaidTier(JUDGEMENT, better)
    tier = cached(inner)
    await tier.judge(CASE, JudgeOptions(), seconds=SLOW)
    await settle()

    anew = await tier.judge(CASE, JudgeOptions(cache="bypass"), seconds=SLOW)
    await settle()
    kept = await tier.judge(CASE, JudgeOptions(), seconds=SLOW)

    assert (anew.account.cache, anew.account.calls, anew.flags) == ("bypass", 2, ("better",))
    assert (kept.account.cache, kept.flags) == ("hit", ("better",))
    assert inner.calls == 2


async def test_bypass_waits_for_nobody() -> None:
    inner = PaidTier()
    inner.gate.clear()
    tier = cached(inner)
    tasks = [waiting(tier), waiting(tier, JudgeOptions(cache="bypass")), waiting(tier, JudgeOptions(cache="bypass"))]
    await settle()

    assert inner.running == 3
    inner.gate.set()
    assert sorted(str(judged.account.cache) for judged in await asyncio.gather(*tasks)) == ["bypass", "bypass", "miss"]


async def test_an_incomplete_judgement_is_given_and_not_kept() -> None:
    inner, store = PaidTier(replace(JUDGEMENT, flags=("incomplete",))), MemoryStore()
    tier = cached(inner, store)

    for _ in range(2):
        assert (await tier.judge(CASE, JudgeOptions(), seconds=SLOW)).flags == ("incomplete",)
        await settle()

    assert inner.calls == 2
    assert store.values == {}


async def test_a_store_that_hangs_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_cache, "_LOOKUP_SECONDS", 0.02)
    tier = cached(PaidTier(), MemoryStore(delay=0.5))

    async with asyncio.timeout(0.3):
        assert (await tier.judge(CASE, JudgeOptions(), seconds=SLOW)).account.cache == "miss"
    await tier.close()


async def test_fifty_at_once_are_one_call_and_one_is_charged() -> None:
    inner, store = PaidTier(), MemoryStore()
    tier = cached(inner, store)
    asks = [JudgeOptions() for _ in range(50)]

    judged = await asyncio.gather(*(tier.judge(CASE, ask, seconds=SLOW) for ask in asks))

    assert (inner.calls, store.gets) == (1, 1)
    assert sorted(ask.ledger.usage.calls for ask in asks) == [0] * 49 + [1]
    assert sorted(str(judgement.account.cache) for judgement in judged) == ["hit"] * 49 + ["miss"]
    assert {judgement.claims for judgement in judged} == {JUDGEMENT.claims}


async def test_who_comes_while_it_is_being_written_needs_no_call() -> None:
    inner = PaidTier()
    tier = cached(inner, MemoryStore(delay=0.05))
    await tier.judge(CASE, JudgeOptions(), seconds=SLOW)

    assert (await tier.judge(CASE, JudgeOptions(), seconds=SLOW)).account.cache == "hit"
    assert inner.calls == 1
    await tier.close()


async def test_requests_with_another_bound_on_cost_do_not_share() -> None:
    inner = PaidTier()
    inner.gate.clear()
    tier = cached(inner)
    tasks = [waiting(tier, JudgeOptions(ledger=Ledger(max_cost=bound))) for bound in (None, 1.0, 1.0)]
    await settle()

    assert inner.running == 2
    inner.gate.set()
    await asyncio.gather(*tasks)


async def test_the_first_one_may_leave_and_the_others_are_answered() -> None:
    inner = PaidTier()
    inner.gate.clear()
    tier = cached(inner)
    leader, follower = waiting(tier), waiting(tier)
    await settle()
    leader.cancel()
    await settle()
    late = waiting(tier)
    await settle()
    inner.gate.set()

    assert [judged.account.cache for judged in await asyncio.gather(follower, late)] == ["hit", "hit"]
    assert leader.cancelled()
    assert inner.calls == 1


async def test_when_all_have_left_the_call_is_cancelled_and_the_next_one_asks_anew() -> None:
    inner = PaidTier()
    inner.gate.clear()
    tier = cached(inner)
    tasks = [waiting(tier) for _ in range(3)]
    await settle()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    last = waiting(tier)
    await settle()

    assert (inner.calls, inner.running) == (2, 1)
    inner.gate.set()
    assert (await last).account.cache == "miss"


async def test_a_failure_is_shared_with_those_who_wait_and_never_kept() -> None:
    inner, store = PaidTier(TierFailure(FailureReason.RATE_LIMITED, "slow down"), JUDGEMENT), MemoryStore()
    inner.gate.clear()
    tier = cached(inner, store)
    tasks = [waiting(tier) for _ in range(3)]
    await settle()
    inner.gate.set()

    failures = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(failure, "reason", None) for failure in failures] == [FailureReason.RATE_LIMITED] * 3
    assert inner.calls == 1
    assert (await tier.judge(CASE, JudgeOptions(), seconds=SLOW)).account.cache == "miss"


@pytest.mark.parametrize("bug", [ValueError("a bug"), TimeoutError("not the deadline's")])
async def test_a_bug_stays_one(bug: Exception) -> None:
    tier = cached(PaidTier(bug))

    for outcome in await asyncio.gather(waiting(tier), waiting(tier), return_exceptions=True):
        assert outcome is bug


async def test_a_follower_waits_no_longer_than_its_own_deadline() -> None:
    inner = PaidTier()
    inner.gate.clear()
    tier = cached(inner)
    leader = waiting(tier)
    await settle()

    with pytest.raises(TierFailure, match="timeout"):
        await tier.judge(CASE, JudgeOptions(), seconds=0.02)

    inner.gate.set()
    assert (await leader).account.cache == "miss"


async def test_who_has_more_time_than_the_first_one_asks_anew_once_for_all() -> None:
    inner = PaidTier()
    inner.gate.clear()
    tier = cached(inner)
    leader = waiting(tier, seconds=0.05)
    # Its deadline is hardly later than the leader's: it shares the failure.
    close_by = waiting(tier, seconds=0.06)
    patient = [waiting(tier, seconds=SLOW), waiting(tier, seconds=SLOW)]
    failures = await asyncio.gather(leader, close_by, return_exceptions=True)
    await settle()
    assert (inner.calls, inner.running) == (2, 1)
    inner.gate.set()

    assert [getattr(failure, "reason", None) for failure in failures] == [FailureReason.TIMEOUT] * 2
    assert sorted(str(judged.account.cache) for judged in await asyncio.gather(*patient)) == ["hit", "miss"]


async def test_closing_leaves_no_task_and_keeps_what_was_judged() -> None:
    inner, store = PaidTier(), MemoryStore(delay=0.02)
    tier = cached(inner, store)
    await tier.judge(CASE, JudgeOptions(), seconds=SLOW)
    inner.gate.clear()
    under_way = asyncio.get_running_loop().create_task(
        tier.judge(case_of("It shines.", "It shines."), JudgeOptions(), seconds=SLOW)
    )
    await settle()

    await tier.close()
    await asyncio.wait({under_way})

    assert under_way.cancelled()
    assert len(store.values) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
