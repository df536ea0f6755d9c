"""The queue of work: whose turn it is, and who is refused before anything is done."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from plumbline.ground.errors import TooBusy
from plumbline.ground.work_queue import WorkQueue
from tests.doubles.fakes import Clock


def queue(clock: Clock | None = None, *, limit: int = 1, rate: float = 100.0) -> WorkQueue:
    return WorkQueue(limit=limit, characters_per_second=rate, monotonic=clock or Clock())


async def take(work: WorkQueue, caller: str, characters: int, taken: list[str], name: str) -> None:
    async with work.turn(caller, characters, seconds=None):
        taken.append(name)
        await asyncio.sleep(0)


async def test_one_callers_samples_keep_their_order() -> None:
    work, taken = queue(), list[str]()

    await asyncio.gather(*(take(work, "a", 10 + number % 3, taken, str(number)) for number in range(6)))

    assert taken == list("012345")


async def test_a_caller_with_little_does_not_wait_for_all_of_another() -> None:
    work, taken = queue(), list[str]()
    many = [take(work, "a", 10, taken, "a") for _ in range(8)]

    await asyncio.gather(*many, take(work, "b", 10, taken, "b"))

    # The first is at work when the others come; then both callers take turns.
    assert taken.index("b") <= 2


async def test_only_so_many_are_worked_on_at_a_time() -> None:
    work = queue(limit=2)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(work.turn("a", 10, seconds=None))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), work.turn("a", 10, seconds=None):
                pass

    async with work.turn("a", 10, seconds=None):
        assert work.waiting_characters() == 10


async def test_a_sample_that_could_not_end_in_time_is_refused_at_once() -> None:
    work = queue(rate=100.0)
    async with work.turn("a", 1_000, seconds=30.0):
        # 10 s of work are ahead and 4 s are its own: more than .7 of 15 s.
        with pytest.raises(TooBusy, match="about 14 s, with a deadline of 15 s") as refused:
            async with work.turn("a", 400, seconds=15.0):
                pass
        waiting = asyncio.create_task(take(work, "a", 400, [], ""))
        await asyncio.sleep(0)

        assert work.waiting_characters() == 1_400

    await waiting
    assert refused.value.retry_after_seconds == pytest.approx(14 - 0.7 * 15)
    assert work.refused == 1


async def test_an_idle_queue_takes_a_sample_of_any_length() -> None:
    async with queue(rate=1.0).turn("a", 1_000, seconds=1.0) as waited:
        assert waited == 0.0


async def test_the_rate_becomes_the_measured_one() -> None:
    clock = Clock()
    work = queue(clock, rate=1_000_000.0)

    for _ in range(60):
        async with work.turn("a", 100, seconds=60.0):
            clock.now += 2.0

    assert work.characters_per_second == pytest.approx(50.0, rel=0.01)
    assert work.taken_seconds == pytest.approx(120.0)


async def test_a_caller_who_leaves_the_queue_takes_no_turn() -> None:
    work, taken = queue(), list[str]()
    async with work.turn("a", 10, seconds=None):
        left = asyncio.create_task(take(work, "a", 10, taken, "left"))
        stays = asyncio.create_task(take(work, "a", 10, taken, "stays"))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)

    await stays
    assert taken == ["stays"]
    assert work.waiting_characters() == 0
