"""The queue before the model: all callers in turn, nothing twice, nothing for nobody."""

import asyncio
import threading

from plumbline.models.encoder.fair_queue import FairQueue, Text, Waiter


def text(name: str, length: int = 10) -> Text:
    return Text(name.encode(), [1] * length)


def names(taken: object) -> list[str]:
    assert isinstance(taken, tuple)
    return [each.key.decode() for each in taken[0]]


def test_callers_are_served_in_turn() -> None:
    queue = FairQueue(128, supports_packing=True)
    queue.put([text(f"long{number}") for number in range(50)])
    queue.put([text("short")])

    first = names(queue.take())

    assert first[:2] == ["long0", "short"]
    assert len(first) == 16  # two rows of 80 tokens


def test_who_came_first_is_last_in_the_next_batch() -> None:
    queue = FairQueue(32, supports_packing=True)
    for caller in "abc":
        queue.put([text(f"{caller}{number}", 100) for number in range(2)])

    assert [names(queue.take()) for _ in range(6)] == [["a0"], ["b0"], ["c0"], ["a1"], ["b1"], ["c1"]]


def test_long_texts_come_first_and_short_ones_fill_the_gaps() -> None:
    queue = FairQueue(128, supports_packing=True)
    queue.put([text("short", 20), text("long", 100), text("middle", 60), text("tiny", 8)])

    assert names(queue.take()) == ["long", "short", "tiny"]
    assert names(queue.take()) == ["middle"]


async def test_what_nobody_waits_for_is_taken_out() -> None:
    queue = FairQueue(128, supports_packing=True)
    wanted, unwanted = text("wanted"), text("unwanted", 30)
    wanted.waiting.append(Waiter())
    queue.put([wanted, unwanted])

    assert queue.drop_unwanted() == [unwanted]
    assert queue.tokens == 10
    assert names(queue.take()) == ["wanted"]


async def test_closing_ends_whoever_waits() -> None:
    queue = FairQueue(128, supports_packing=True)
    taken: list[object] = []
    thread = threading.Thread(target=lambda: taken.append(queue.take()))
    thread.start()

    left = queue.close()
    await asyncio.to_thread(thread.join)

    assert (taken, left) == ([None], [])
