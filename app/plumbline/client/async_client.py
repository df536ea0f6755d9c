"""The client for asyncio."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from typing import Final, Self, TypeVar, Unpack

import httpx2

from plumbline.client.chunks import Chunks, NextSample, source_of
from plumbline.client.connection import JSON_HEADERS, Ask, Connection
from plumbline.client.fields import OptionFields
from plumbline.client.flow import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT, Flow
from plumbline.client.jobs import AsyncJobs
from plumbline.client.reading import read_model
from plumbline.client.retries import Retries
from plumbline.client.row import Row
from plumbline.client.samples import AnyOptions, AnySample, body_of, checked_options, evaluation_request
from plumbline.ground.errors import InvalidInput
from plumbline.schemas.evaluation import EvaluationResult

S = TypeVar("S", bound=AnySample)

DEFAULT_URL: Final = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_SECONDS: Final = 120.0


class AsyncPlumbline:
    """A running service, asked from asyncio; use it as a context manager or call `close`.

    `jobs` has the jobs of the service: `await client.jobs.submit("samples.jsonl")`.

    Args:
        base_url: of the service, without `/v1`. Redirects are not followed: the key goes nowhere else.
        api_key: None: that of the environment variable `PLUMBLINE_API_KEY`; no key where that is empty.
        timeout: seconds without a byte after which an answer is given up; `httpx2.Timeout` for more choice.
        retries: what is tried again, and how often. Evaluations may be repeated; a job is submitted under a key.
        transport: in place of the network, for tests.

    Raises:
        ConfigurationError: `base_url` or `api_key` cannot be one.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float | httpx2.Timeout = DEFAULT_TIMEOUT_SECONDS,
        retries: Retries = Retries(),  # noqa: B008
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = Connection(base_url, api_key=api_key, timeout=timeout, retries=retries, transport=transport)
        self.jobs = AsyncJobs(self._connection)

    async def evaluate(
        self,
        *,
        contexts: Iterable[str],
        answer: str,
        question: str = "",
        reference: str | None = None,
        id: str | None = None,  # noqa: A002
        **options: Unpack[OptionFields],
    ) -> EvaluationResult:
        """Judges one answer; options as those of `EvaluationOptions`.

        Raises:
            InvalidInput: a field that does not validate, named.
            ClientError: the service was not reached or refused.
        """
        texts = {"question": question or None, "contexts": contexts, "answer": answer, "reference": reference, "id": id}
        request = evaluation_request({name: text for name, text in texts.items() if text is not None}, options)
        ask = Ask("POST", "/v1/evaluations", headers=JSON_HEADERS, content=body_of(request))
        return read_model(EvaluationResult, (await self._connection.answer(ask)).content)

    def evaluate_many(
        self,
        samples: Iterable[S] | AsyncIterable[S],
        *,
        options: AnyOptions = None,
        in_flight: int = DEFAULT_IN_FLIGHT,
        batch_size: int = DEFAULT_BATCH_SIZE,
        in_order: bool = False,
    ) -> AsyncGenerator[Row[S], None]:
        """Judges many samples; each comes back in a `Row` with its result or its own problem.

        The samples are read as rows are taken, never more than about `in_flight` ahead, so an endless iterable is fine.
        A sample that cannot be judged costs no other. Rows of a request that was cut or put off are sent again, those
        that have their answer are not. Close what is returned (`contextlib.aclosing`) when not all of it is taken: what
        is under way is then cancelled.

        Args:
            samples: `BatchSample`s, mappings with its fields, or samples and records of files; read on the event loop.
            options: for each of them.
            in_flight: samples read and not yet taken back, at most.
            batch_size: of one request at most; a request waits for so many, or for the end.
            in_order: rows in the order of the samples; otherwise as they are done.

        Raises:
            InvalidInput: at once: options or numbers that cannot be.
            ClientError: while iterating: the service was not reached, refused the whole, or stayed busy.
        """
        return self.evaluate_source(
            source_of(samples), options=options, in_flight=in_flight, batch_size=batch_size, in_order=in_order
        )

    def evaluate_source(
        self, source: NextSample[S], *, options: AnyOptions, in_flight: int, batch_size: int, in_order: bool
    ) -> AsyncGenerator[Row[S], None]:
        """As `evaluate_many`, with samples that are asked for one by one."""
        for name, number in (("in_flight", in_flight), ("batch_size", batch_size)):
            if number < 1:
                raise InvalidInput(f"{name} is {number}; expected 1 or more")
        chunks = Chunks(source, max_samples=min(batch_size, in_flight))
        body = body_of(checked_options(options))
        flow = Flow(self._connection, chunks, body, at_once=max(1, in_flight // batch_size))
        return flow.rows(in_order=in_order)

    async def close(self) -> None:
        """Closes the connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
