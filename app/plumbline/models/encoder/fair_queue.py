"""Queue of texts that wait for the model, shared fairly between calls, and the threads that compute."""

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, TypeVar

from threadpoolctl import threadpool_limits

from plumbline.models.encoder.packing import HalfVectors, RowSlot, places_in_rows

# What a batch is chosen from: so many of a caller's next texts, some of its shortest, all of so many batches' tokens.
_CANDIDATES = 48
_SHORT = 4
_MOST_TRIED = 1.5


class Waiter:
    """A call that waits for texts, created in its event loop; `texts_left` is guarded by the encoder's lock."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self.texts_left = 0

    def wake(self, error: BaseException | None = None) -> None:
        """End the wait, from any thread; does nothing once the loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish, error)

    async def wait(self, seconds: float) -> None:
        """Wait to be woken; raise TimeoutError, or what `wake` was given."""
        await asyncio.wait_for(self._end, None if seconds == float("inf") else max(0.0, seconds))

    def _finish(self, error: BaseException | None) -> None:
        if self._end.done():
            return
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)


@dataclass(slots=True, eq=False)
class Text:
    key: bytes
    tokens: Sequence[int]
    waiting: list[Waiter] = field(default_factory=list)
    vectors: HalfVectors | None = None


class FairQueue:
    """Texts in lanes, one for each call; batches of `budget` tokens take from all lanes in turn. Thread-safe."""

    def __init__(self, budget: int, *, supports_packing: bool) -> None:
        self._budget = budget
        self._supports_packing = supports_packing
        self._lanes: deque[list[Text]] = deque()
        self._change = threading.Condition()
        self._is_closed = False

    @property
    def tokens(self) -> int:
        with self._change:
            return sum(len(text.tokens) for lane in self._lanes for text in lane)

    def put(self, texts: Sequence[Text]) -> None:
        """Add a lane with these texts, the longest first, as they leave gaps for the others."""
        if not texts:
            return
        lane = sorted(texts, key=lambda text: -len(text.tokens))
        with self._change:
            self._lanes.append(lane)
            self._change.notify_all()

    def take(self) -> tuple[list[Text], list[RowSlot]] | None:
        """Wait for texts; return the next batch and its slots. None when the queue was closed."""
        with self._change:
            while not self._lanes and not self._is_closed:
                self._change.wait()
            return None if self._is_closed else self._fill()

    def drop_unwanted(self) -> list[Text]:
        with self._change:
            unwanted = [text for lane in self._lanes for text in lane if not text.waiting]
            lanes = [[text for text in lane if text.waiting] for lane in self._lanes]
            self._lanes = deque(lane for lane in lanes if lane)
            return unwanted

    def close(self) -> list[Text]:
        with self._change:
            self._is_closed = True
            left = [text for lane in self._lanes for text in lane]
            self._lanes.clear()
            self._change.notify_all()
            return left

    def _fill(self) -> tuple[list[Text], list[RowSlot]]:
        candidates = self._candidates()
        lengths = [len(text.tokens) for text in candidates]
        found = places_in_rows(lengths, budget=self._budget, shares=self._supports_packing)
        taken = [(text, place) for text, place in zip(candidates, found, strict=True) if place]
        gone = {id(text) for text, _ in taken}
        # Whoever came first now is the last one of the next batch.
        self._lanes.rotate(-1)
        lanes = [[text for text in lane if id(text) not in gone] for lane in self._lanes]
        self._lanes = deque(lane for lane in lanes if lane)
        return [text for text, _ in taken], [place for _, place in taken]

    def _candidates(self) -> list[Text]:
        """Return texts for the next batch, of every lane in turn: more than fit, short ones last, for the gaps."""
        heads: list[Text] = []
        room = _MOST_TRIED * self._budget
        for turn in zip_longest(*(lane[:_CANDIDATES] for lane in self._lanes)):
            heads += [text for text in turn if text is not None]
            room -= sum(len(text.tokens) for text in turn if text is not None)
            if room <= 0:
                break
        known = {id(text) for text in heads}
        shortest = [text for lane in self._lanes for text in lane[-_SHORT:] if id(text) not in known]
        return heads + sorted(shortest[:_CANDIDATES], key=lambda text: -len(text.tokens))


LOADER: Final = "model-loader"
T = TypeVar("T")

# Of the scheduler, 0 to 19: the loop that answers requests gets a core at once, the model what is left of them.
_NICENESS = 10


def start_workers(count: int, work: Callable[[], None]) -> list[threading.Thread]:
    workers = [
        threading.Thread(target=run_in_background, args=(work,), name=f"encoder-{number}", daemon=True)
        for number in range(count)
    ]
    for worker in workers:
        worker.start()
    return workers


def run_in_background(work: Callable[[], None]) -> None:
    """Run `work` at low priority; for a dedicated thread, as there is no way back on Linux."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    work()


def make_in_background(make: Callable[[], T], made: "Future[T]") -> None:
    """Run `make` in a low-priority thread; threads that it starts inherit that. The caller may end `made` itself.

    A process that ends meanwhile should not wait for the thread, named `LOADER`: it cannot be interrupted.
    """

    def work() -> None:
        with contextlib.suppress(InvalidStateError):
            try:
                made.set_result(make())
            except InvalidStateError:
                raise
            except BaseException as error:  # raised again in the caller
                made.set_exception(error)

    threading.Thread(target=run_in_background, args=(work,), name=LOADER, daemon=True).start()


def single_threaded_algebra() -> None:
    """Make numpy's products run in the calling thread, everywhere in this process.

    Theirs are small, and a pool that spins for the next one takes the model's cores: 16 ms for a product of 1 ms.
    """
    threadpool_limits(1, user_api="blas")


def available_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
