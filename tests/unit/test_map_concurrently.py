"""Work on many items, a bounded number at a time."""

import asyncio
from contextlib import aclosing

import pytest

from plumbline.ground.concurrency import map_concurrently


class Work:
    """Takes as many turns of the event loop as the item says, and returns the item; a negative item is a bug."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.under_way = self.most = self.cancelled = 0

    async def __call__(self, item: int) -> int:
        self.begun.append(item)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(abs(item)):
                await asyncio.sleep(0)
            if item < 0:
                raise ZeroDivisionError
            return item
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_results_come_in_order_of_completion() -> None:
    results = [each async for each in map_concurrently(Work(), [30, 3, 9, 1], limit=4)]

    assert results == [1, 3, 9, 30]


async def test_results_come_in_the_order_of_the_items_when_asked() -> None:
    results = [each async for each in map_concurrently(Work(), [30, 3, 9, 1], limit=4, in_order=True)]

    assert results == [30, 3, 9, 1]


async def test_nothing_comes_of_nothing() -> None:
    assert [each async for each in map_concurrently(Work(), [], limit=4)] == []


@pytest.mark.parametrize("in_order", [False, True])
async def test_no_more_than_so_many_are_under_way(in_order: bool) -> None:
    work = Work()

    results = [each async for each in map_concurrently(work, range(1, 20), limit=3, in_order=in_order)]

    assert sorted(results) == list(range(1, 20))
    assert work.most == 3


@pytest.mark.parametrize("in_order", [False, True])
async def test_items_are_begun_only_as_results_are_taken(in_order: bool) -> None:
    work = Work()

    async with aclosing(map_concurrently(work, [1] * 20, limit=3, in_order=in_order)) as results:
        await anext(results)
        await turns(50)
        after_one = len(work.begun)
        await anext(results)
        await turns(50)
        after_two = len(work.begun)

    # three ahead of the reader, and what the reader has
    assert (after_one, after_two) == (3, 4)


@pytest.mark.parametrize("in_order", [False, True])
async def test_closing_ends_what_is_under_way(in_order: bool) -> None:
    work = Work()

    async with aclosing(map_concurrently(work, [1, 10_000, 10_000, 10_000], limit=3, in_order=in_order)) as results:
        assert await anext(results) == 1

    assert (work.under_way, work.cancelled) == (0, 2)


async def test_a_bug_ends_the_work_and_is_raised() -> None:
    work = Work()

    with pytest.raises(ZeroDivisionError):
        await anext(map_concurrently(work, [10_000, -3, 10_000], limit=3))

    assert (work.under_way, work.cancelled) == (0, 2)
