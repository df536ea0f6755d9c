"""A limit that halves once for a burst of complaints and grows by one for each clean round."""

import asyncio

import pytest

from plumbline.models.chat.call_limits import AdaptiveLimit


async def complain(limit: AdaptiveLimit, *, calls: int = 1) -> None:
    """So many calls at one time, all refused as too many."""
    ready = asyncio.Event()

    async def call() -> None:
        async with limit.slot() as slot:
            await ready.wait()
            slot.was_throttled = True

    tasks = [asyncio.create_task(call()) for _ in range(calls)]
    # A slot is taken in two turns of the loop.
    for _ in range(2):
        await asyncio.sleep(0)
    ready.set()
    await asyncio.gather(*tasks)


async def test_it_starts_at_the_cap() -> None:
    assert AdaptiveLimit(64).limit == 64


@pytest.mark.parametrize("calls", [1, 8])
async def test_a_burst_of_complaints_halves_it_once(calls: int) -> None:
    limit = AdaptiveLimit(8)

    await complain(limit, calls=calls)

    assert limit.limit == 4


async def test_it_never_falls_below_one() -> None:
    limit = AdaptiveLimit(5)

    for _ in range(9):
        await complain(limit)

    assert limit.limit == 1


async def test_it_grows_by_one_for_each_clean_round_up_to_the_cap() -> None:
    limit = AdaptiveLimit(4)
    await complain(limit)
    await complain(limit)
    limits = []
    for _ in range(12):
        async with limit.slot():
            pass
        limits.append(limit.limit)

    assert limits == [2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4]


async def test_a_place_given_to_one_who_left_goes_to_the_next() -> None:
    limit = AdaptiveLimit(1)
    entered = []

    async def call(name: str) -> None:
        async with limit.slot():
            entered.append(name)

    async with limit.slot():
        tasks = [asyncio.create_task(call(name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
    # `a` has its place already, and is gone before it runs
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert entered == ["c"]
    async with asyncio.timeout(1), limit.slot():
        pass
