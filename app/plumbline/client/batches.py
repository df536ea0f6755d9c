"""Many samples over POST /v1/evaluations/batch: chunks in flight concurrently, rows as they come or in order."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final, Generic, NamedTuple, TypeVar

from plumbline.client.connection import Connection, RequestSpec, lines_of
from plumbline.client.failures import AnswerCut, AnswerUnreadable, ClientError, Refused, RetryState, parse_model
from plumbline.client.row import Row, parse_line
from plumbline.client.samples import AnySample, EncodedSample, encode_sample
from plumbline.ground.concurrency import end_tasks
from plumbline.schemas.problem import RowProblem

S = TypeVar("S", bound=AnySample)

BATCH_PATH: Final = "/v1/evaluations/batch"
DEFAULT_IN_FLIGHT: Final = 128
DEFAULT_BATCH_SIZE: Final = 32
# Far below what a service reads by default (33,554,432 bytes), so that one request is soon sent.
MAX_CHUNK_BYTES: Final = 4_194_304
_NDJSON: Final = "application/x-ndjson"
_PLACE: Final = re.compile(r"^/samples(?:/[0-9]+)?")
_HEADERS: Final = {"content-type": "application/json", "accept": _NDJSON}
_BAD_BODY, _TOO_LARGE, _INVALID = 400, 413, 422


class End(NamedTuple):
    """The end of the samples."""


NextSample = Callable[[], Awaitable[S | End]]


def iterate_samples(samples: Iterable[S] | AsyncIterable[S]) -> NextSample[S]:
    """Return a function that reads the next sample, on the event loop that calls it."""
    if isinstance(samples, AsyncIterable):
        later = aiter(samples)

        async def next_later() -> S | End:
            try:
                return await anext(later)
            except StopAsyncIteration:
                return End()

        return next_later
    now = iter(samples)

    async def next_now() -> S | End:
        return next(now, End())

    return next_now


class Chunks(Generic[S]):
    """Read samples in chunks.

    A chunk has at most `max_samples` and `MAX_CHUNK_BYTES`, except for a single larger sample, and each custom_id once:
    a batch refuses duplicates.
    """

    def __init__(self, next_sample: NextSample[S], *, max_samples: int) -> None:
        self._next_sample = next_sample
        self._max_samples = max_samples
        self._held_over: EncodedSample[S] | None = None
        self._count = 0
        self._is_exhausted = False

    async def take(self) -> list[EncodedSample[S]]:
        """Return the next samples; empty at the end."""
        chunk: list[EncodedSample[S]] = []
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

    async def _next(self) -> EncodedSample[S] | None:
        if self._held_over is not None:
            held, self._held_over = self._held_over, None
            return held
        # Not called after its end, which not every iterator allows.
        sample = End() if self._is_exhausted else await self._next_sample()
        if isinstance(sample, End):
            self._is_exhausted = True
            return None
        self._count += 1
        return encode_sample(self._count - 1, sample)


class BatchRun(Generic[S]):
    """Send chunks, at most `at_once` of them not yet taken whole by the caller."""

    def __init__(self, connection: Connection, chunks: Chunks[S], options: bytes, *, at_once: int) -> None:
        self._connection = connection
        self._chunks = chunks
        self._options = options
        self._at_once = at_once
        self._slots = asyncio.Semaphore(at_once)
        self._reading = asyncio.Lock()
        # A row, and True for the last one of its chunk; at the end of a worker its failure, or None.
        self._came: asyncio.Queue[tuple[Row[S], bool] | Exception | None] = asyncio.Queue()

    async def rows(self, *, in_order: bool) -> AsyncGenerator[Row[S], None]:
        """Yield each sample's row. Closing the generator cancels the requests in flight.

        Raises:
            ClientError: a request failed; rows that came before it are yielded first, but not those that wait for an
                earlier one if `in_order`.
        """
        tasks = [asyncio.create_task(self._work()) for _ in range(self._at_once)]
        waiting: dict[int, tuple[Row[S], bool]] = {}
        due, running = 0, len(tasks)
        try:
            while running:
                came = await self._came.get()
                if isinstance(came, Exception):
                    raise came
                if came is None:
                    running -= 1
                elif not in_order:
                    yield self._taken(*came)
                else:
                    waiting[came[0].index] = came
                    while (ready := waiting.pop(due, None)) is not None:
                        due += 1
                        yield self._taken(*ready)
        finally:
            await end_tasks(tasks)

    def _taken(self, row: Row[S], is_last: bool) -> Row[S]:
        if is_last:
            self._slots.release()
        return row

    async def _work(self) -> None:
        try:
            while True:
                await self._slots.acquire()
                async with self._reading:
                    chunk = await self._chunks.take()
                if not chunk:
                    break
                left = len(chunk)
                async with aclosing(_evaluate_chunk(self._connection, chunk, self._options)) as rows:
                    async for row in rows:
                        left -= 1
                        self._came.put_nowait((row, left == 0))
        except Exception as failure:
            self._came.put_nowait(failure)
        else:
            self._slots.release()
            self._came.put_nowait(None)


async def _evaluate_chunk(
    connection: Connection, chunk: list[EncodedSample[S]], options: bytes
) -> AsyncGenerator[Row[S], None]:
    """Yield a row for each sample of the chunk, once, in order of completion.

    Only samples without a result are retried. A request that is refused because of one sample is sent in halves, until
    that sample alone has the refusal as its problem.
    """
    for sent in chunk:
        if sent.body is None and sent.problem is not None:
            yield _without_result(sent, sent.problem)
    to_send = [sent for sent in chunk if sent.body is not None]
    groups = [to_send] if to_send else []
    retries = RetryState(connection.retries)
    while groups:
        waiting = dict(enumerate(groups.pop()))
        try:
            async with aclosing(_post(connection, waiting, options)) as rows:
                async for row in rows:
                    retries.renew()
                    yield row
        except ClientError as failure:
            left = list(waiting.values())
            if not (isinstance(failure, Refused) and _is_for_a_sample(failure)):
                # Where nothing is left, only the end of the answer was missing.
                if left:
                    await retries.sleep_after(failure)
                    groups.append(left)
            elif len(left) > 1:
                # Groups are taken from the end: the first half goes first.
                middle = len(left) // 2
                groups += [left[middle:], left[:middle]]
            else:
                yield _without_result(left[0], failure.row_problem)


async def _post(
    connection: Connection, waiting: dict[int, EncodedSample[S]], options: bytes
) -> AsyncGenerator[Row[S], None]:
    """Send one request; each sample leaves `waiting` when its row is yielded."""
    samples = b",".join(sent.body or b"" for sent in waiting.values())
    body = b'{"samples":[%b],"options":%b,"format":"ndjson"}' % (samples, options)
    async with connection.stream(RequestSpec("POST", BATCH_PATH, headers=_HEADERS, content=body)) as response:
        if not response.headers.get("content-type", "").startswith(_NDJSON):
            raise AnswerUnreadable("the answer to a batch is not in lines; is base_url that of the service?")
        async with aclosing(lines_of(response)) as lines:
            async for line in lines:
                wire = parse_line(line)
                if bytes(wire.summary):
                    # Read to the end: only then is the connection used again.
                    continue
                if (sent := waiting.pop(wire.index, None)) is None:
                    raise AnswerUnreadable("the answer has a row that was not asked for, or one twice")
                if wire.problem_json is None:
                    yield Row(sent.index, sent.custom_id, sent.sample, wire.result_json)
                else:
                    yield _without_result(sent, parse_model(RowProblem, wire.problem_json))
    if waiting:
        raise AnswerCut(f"the answer to a batch ended without {len(waiting)} of its rows")


def _is_for_a_sample(refusal: Refused) -> bool:
    """Return True if a sample or their number is the reason, not the key or the options."""
    if not refusal.is_ours:
        return False
    if refusal.status == _INVALID:
        return bool(refusal.errors) and all(each.pointer.startswith("/samples") for each in refusal.errors)
    return refusal.status in (_BAD_BODY, _TOO_LARGE)


def _without_result(sent: EncodedSample[S], problem: RowProblem) -> Row[S]:
    # Pointers lead into the caller's sample, not into the request.
    errors = [each.model_copy(update={"pointer": _PLACE.sub("", each.pointer)}) for each in problem.errors]
    own = problem.model_copy(update={"errors": errors})
    return Row(sent.index, sent.custom_id, sent.sample, problem_json=own.model_dump_json().encode())
