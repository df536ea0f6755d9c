"""Cache of verdicts: a tier's judgements by key, with identical in-flight requests coalesced."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeVar

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, Readiness
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import INCOMPLETE, Judgement
from plumbline.judging.tiers.tier import JudgeOptions, Tier, judge_within

T = TypeVar("T")

# Raise it when old verdicts are no longer valid though nothing in the key changed.
_KEY_VERSION = "1"
# A store that takes longer is taken for one that holds nothing; a disk that hangs must not eat a sample's deadline.
_LOOKUP_SECONDS = 0.5
# A waiter retries after the leader's timeout if it has this much more time.
_WORTH_ASKING_SECONDS = 1.0
# Key, and the bound on cost of the waiting requests.
_Place = tuple[str, float | None]


@dataclass(slots=True, eq=False)
class _Flight:
    """One judgement in flight, and True if it came from the store. `until`: the deadline of the first request."""

    task: asyncio.Task[tuple[Judgement, bool]]
    until: float
    waiting: int = 0


class VerdictStore(Protocol):
    """Judgements by key. Bounded, may forget at any time, and raises nothing: an error is a miss."""

    async def get(self, key: str) -> Judgement | None: ...

    async def put(self, key: str, judgement: Judgement) -> None: ...


class CachedTier:
    """Cache a tier's judgements and coalesce identical in-flight requests.

    Verdicts are shared within a tenant alone. Only complete judgements are kept. The first of several identical
    requests makes the call and its ledger is charged; the others wait for it, each within its own deadline. They
    share its failure too, except its timeout: a request with more time left retries.

    `bypass` judges again on its own, and its judgement replaces the stored one.

    `identity`: what a judgement depends on besides the sample: models, parameters, prompts, the version of this
    service. Equal identities must mean that either judgement may stand for the other.
    """

    def __init__(
        self,
        inner: Tier,
        store: VerdictStore,
        *,
        identity: Callable[[SegmentedSample, JudgeOptions], str],
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self.name = inner.name
        self._inner = inner
        self._store = store
        self._identity = identity
        self._observer = observer
        self._flights: dict[_Place, _Flight] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        """Return a stored judgement, that of an identical in-flight request, or a new one.

        `account.cache` tells which: `hit` is one that this request caused no call for.

        Raises TierFailure: that of the inner tier, or `timeout` after `seconds`.
        """
        until = time.monotonic() + seconds
        key = verdict_key(sample, tenant=options.tenant, identity=self._identity(sample, options))
        if options.cache == "bypass":
            self._observer.on_cache_lookup("bypass")
            judgement = await self._inner.judge(sample, options, seconds=seconds)
            self._spawn(self._keep(key, judgement))
            return _with_cache_outcome(judgement, "bypass")
        # The bound on cost is part of the place: who may spend more must not get what a tighter bound has left undone.
        place = (key, options.ledger.max_cost)
        while True:
            flight = self._flights.get(place)
            is_leader = flight is None
            if flight is None:
                # A task of its own, so that cancelling one waiter does not cancel the others.
                flight = _Flight(self._spawn(self._fly(key, sample, options, until)), until)
                flight.task.add_done_callback(partial(self._on_landing, place, flight))
                self._flights[place] = flight
            try:
                judgement, was_kept = await self._land(place, flight, until)
            except TierFailure as failure:
                has_more_time = until - max(flight.until, time.monotonic()) >= _WORTH_ASKING_SECONDS
                if not (failure.reason is FailureReason.TIMEOUT and has_more_time):
                    if is_leader:
                        self._observer.on_cache_lookup("miss")
                    raise
            else:
                outcome: Literal["hit", "miss"] = "miss" if is_leader and not was_kept else "hit"
                self._observer.on_cache_lookup(outcome)
                return _with_cache_outcome(judgement, outcome)

    def readiness(self) -> Readiness:
        """Return that of the inner tier: a broken store only makes verdicts more expensive."""
        return self._inner.readiness()

    async def close(self) -> None:
        """Cancel what is being judged and wait until judgements are stored. Call it before closing the store."""
        for flight in self._flights.values():
            flight.task.cancel()
        # Repeat: a judgement that is just done starts a task that stores it.
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _fly(
        self, key: str, sample: SegmentedSample, options: JudgeOptions, until: float
    ) -> tuple[Judgement, bool]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOKUP_SECONDS):
                if (kept := await self._store.get(key)) is not None:
                    return kept, True
        return await judge_within(self._inner, sample, options, until - time.monotonic()), False

    def _on_landing(self, place: _Place, flight: _Flight, task: asyncio.Task[tuple[Judgement, bool]]) -> None:
        # `exception()` is read also without a waiter: asyncio would log an unread one.
        if task.cancelled() or task.exception() is not None or task.result()[1]:
            self._clear(place, flight)
            return
        # Requests during the write take it from the flight.
        writing = self._spawn(self._keep(place[0], task.result()[0]))
        writing.add_done_callback(lambda _: self._clear(place, flight))

    async def _land(self, place: _Place, flight: _Flight, until: float) -> tuple[Judgement, bool]:
        flight.waiting += 1
        try:
            await asyncio.wait({flight.task}, timeout=max(0.0, until - time.monotonic()))
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                # No waiter is left; new requests must not join what is being cancelled.
                self._clear(place, flight)
                flight.task.cancel()
        if not flight.task.done():
            raise TierFailure(FailureReason.TIMEOUT, CodedText("verdict_timed_out"))
        return flight.task.result()

    def _clear(self, place: _Place, flight: _Flight) -> None:
        if self._flights.get(place) is flight:
            del self._flights[place]

    async def _keep(self, key: str, judgement: Judgement) -> None:
        if INCOMPLETE not in judgement.flags:
            await self._store.put(key, judgement)

    def _spawn(self, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def verdict_key(sample: SegmentedSample, *, tenant: str, identity: str) -> str:
    """Return the cache key: 64 hexadecimal digits, equal for equal input only.

    The texts go in exactly as given, not normalised: claims and evidence hold offsets into them, which other code
    points would make wrong, and a judge may well see the difference. The spans of the sentences go in as well, so that
    a build that cuts them otherwise does not get claims on sentences that no longer exist.
    """
    spans = [(sentence.start, sentence.end, sentence.kind) for sentence in sample.sentences]
    first = (_KEY_VERSION, tenant, identity, sample.language, spans, sample.checkable)
    source = sample.source
    return sha256(json.dumps([*first, source.asked, source.answer, source.contexts]).encode()).hexdigest()


def _with_cache_outcome(judgement: Judgement, cache: Literal["hit", "miss", "bypass"]) -> Judgement:
    account = replace(judgement.account, cache=cache)
    if cache == "hit":
        account = replace(account, calls=0, prompt_tokens=None, completion_tokens=None)
    return replace(judgement, account=account)
