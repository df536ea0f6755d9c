"""An iterable of samples in the pieces that requests carry; read no further than asked."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from plumbline.client.samples import AnySample, Sent, to_send

S = TypeVar("S", bound=AnySample)

# Far below what a service reads by default (33,554,432 bytes), so that one request is soon sent.
MAX_CHUNK_BYTES: Final = 4_194_304


class End(NamedTuple):
    """There are no more samples."""


NextSample = Callable[[], Awaitable[S | End]]


class Chunks(Generic[S]):
    """Takes samples off a source, a chunk at a time.

    A chunk has at most `max_samples` and `MAX_CHUNK_BYTES`, a single larger sample apart, and each custom_id once: of a
    second one under the same name a batch would make an error.
    """

    def __init__(self, next_sample: NextSample[S], *, max_samples: int) -> None:
        self._next_sample = next_sample
        self._max_samples = max_samples
        self._held_over: Sent[S] | None = None
        self._count = 0
        self._is_exhausted = False

    async def take(self) -> list[Sent[S]]:
        """The next samples; empty when there are no more."""
        chunk: list[Sent[S]] = []
        names: set[str] = set()
        size = 0
        while len(chunk) < self._max_samples and (sent := await self._next()) is not None:
            size += len(sent.body or b"")
            if chunk and (size > MAX_CHUNK_BYTES or sent.custom_id in names):
                self._held_over = sent
                break
            chunk.append(sent)
            if sent.custom_id is not None:
                names.add(sent.custom_id)
        return chunk

    async def _next(self) -> Sent[S] | None:
        if (held := self._held_over) is not None:
            self._held_over = None
            return held
        # Asked no more after its end: an iterator need not bear that.
        sample = End() if self._is_exhausted else await self._next_sample()
        if isinstance(sample, End):
            self._is_exhausted = True
            return None
        self._count += 1
        return to_send(self._count - 1, sample)


def source_of(samples: Iterable[S] | AsyncIterable[S]) -> NextSample[S]:
    """Takes the samples one by one, on the event loop that asks."""
    if isinstance(samples, AsyncIterable):
        return _from_async(aiter(samples))
    return _from_sync(iter(samples))


def _from_async(samples: AsyncIterator[S]) -> NextSample[S]:
    async def next_sample() -> S | End:
        try:
            return await anext(samples)
        except StopAsyncIteration:
            return End()

    return next_sample


def _from_sync(samples: Iterator[S]) -> NextSample[S]:
    async def next_sample() -> S | End:
        return next(samples, End())

    return next_sample
