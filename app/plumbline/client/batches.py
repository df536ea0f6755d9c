"""Many samples over POST /v1/evaluations/batch: chunks in flight concurrently, rows as they come or in order."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from plumbline.client.connection import Connection, RequestSpec, lines_of
from plumbline.client.failures import AnswerCut, AnswerUnreadable, ClientError, Refused, RetryState, parse_model
from plumbline.client.row import Row, parse_line
from plumbline.client.samples import (
    AnyOptions,
    AnySample,
    EncodedSample,
    check_options,
    encode_model,
    encode_sample,
)
from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import InvalidInput
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


class Chunker(Generic[S]):
    """Put samples into chunks of at most `max_samples` and `MAX_CHUNK_BYTES`, or one larger sample.

    Each custom_id is once in a chunk: a batch refuses duplicates.
    """

    def __init__(self, *, max_samples: int) -> None:
        self._max_samples = max_samples
        self._chunk: list[EncodedSample[S]] = []
        self._names: set[str | None] = set()
        self._size = self._count = 0

    def add(self, sample: S) -> list[EncodedSample[S]]:
        """Add a sample; return the chunk that is complete now, empty if none is."""
        sent = encode_sample(self._count, sample)
        self._count += 1
        size = len(sent.body or b"")
        is_full = bool(self._chunk) and (self._size + size > MAX_CHUNK_BYTES or sent.custom_id in self._names)
        done = self.flush() if is_full else []
        self._chunk.append(sent)
        self._size += size
        self._names |= {sent.custom_id} - {None}
        return self.flush() if len(self._chunk) == self._max_samples else done

    def flush(self) -> list[EncodedSample[S]]:
        chunk, self._chunk, self._names, self._size = self._chunk, [], set(), 0
        return chunk


class BatchPlan(Generic[S]):
    """Requests of one call of `evaluate_many`: `at_once` at most, of samples that each wait for one of `slots`."""

    def __init__(self, options: AnyOptions, *, in_flight: int, batch_size: int, in_order: bool) -> None:
        for name, number in (("in_flight", in_flight), ("batch_size", batch_size)):
            if number < 1:
                raise InvalidInput(f"{name} is {number}; expected 1 or more")
        self.options = encode_model(check_options(options))
        self.chunker = Chunker[S](max_samples=min(batch_size, in_flight))
        self.at_once = max(1, in_flight // batch_size)
        # A sample has a slot from its reading until its row is taken.
        self.slots = asyncio.Semaphore(in_flight)
        self._in_order = in_order
        self._early: dict[int, Row[S]] = {}
        self._next = 0

    def due(self, came: Row[S]) -> Iterator[Row[S]]:
        """Yield the rows that can be returned now that one more came."""
        if not self._in_order:
            yield came
            return
        self._early[came.index] = came
        while (ready := self._early.pop(self._next, None)) is not None:
            self._next += 1
            yield ready


async def iterate_batches(
    connection: Connection, samples: Iterable[S] | AsyncIterable[S], plan: BatchPlan[S]
) -> AsyncGenerator[Row[S], None]:
    """Yield each sample's row. Closing the generator cancels the requests in flight.

    Raises ClientError, after the rows that came before it, but not those that wait for an earlier one.
    """
    reading = asyncio.Lock()
    # At the end of a worker its failure, or None.
    queue: asyncio.Queue[Row[S] | Exception | None] = asyncio.Queue()
    chunks = _chunks(samples, plan)

    async def read() -> list[EncodedSample[S]] | None:
        async with reading:
            return await anext(chunks, None)

    async def work() -> None:
        try:
            while (chunk := await read()) is not None:
                async with aclosing(evaluate_chunk(connection, chunk, plan.options)) as rows:
                    async for row in rows:
                        queue.put_nowait(row)
            queue.put_nowait(None)
        except Exception as failure:
            queue.put_nowait(failure)

    tasks = [asyncio.create_task(work()) for _ in range(plan.at_once)]
    running = len(tasks)
    try:
        while running:
            came = await queue.get()
            if isinstance(came, Exception):
                raise came
            running -= came is None
            for ready in plan.due(came) if came is not None else ():
                plan.slots.release()
                yield ready
    finally:
        await end_tasks(tasks)
        await chunks.aclose()


async def _chunks(
    samples: Iterable[S] | AsyncIterable[S], plan: BatchPlan[S]
) -> AsyncGenerator[list[EncodedSample[S]], None]:
    async with aclosing(_each(samples, plan.slots)) as each:
        async for sample in each:
            if chunk := plan.chunker.add(sample):
                yield chunk
    if chunk := plan.chunker.flush():
        yield chunk


async def _each(samples: Iterable[S] | AsyncIterable[S], slots: asyncio.Semaphore) -> AsyncGenerator[S, None]:
    await slots.acquire()
    if isinstance(samples, AsyncIterable):
        async for sample in samples:
            yield sample
            await slots.acquire()
    else:
        for sample in samples:
            yield sample
            await slots.acquire()


async def evaluate_chunk(
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
                    await connection.sleep(retries.wait_after(failure))
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
    async with connection.stream(RequestSpec("POST", BATCH_PATH, headers=_HEADERS, content=body)) as reply:
        if not reply.headers.get("content-type", "").startswith(_NDJSON):
            raise AnswerUnreadable("the answer to a batch is not in lines; is base_url that of the service?")
        async with aclosing(lines_of(reply)) as lines:
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
