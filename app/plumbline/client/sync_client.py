"""The client for code without asyncio: the same surface, on an event loop in a thread of its own."""

from collections.abc import Generator, Iterable
from typing import Self, TypeVar, Unpack

import httpx2

from plumbline.client.async_client import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, AsyncPlumbline
from plumbline.client.fields import OptionFields
from plumbline.client.flow import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT
from plumbline.client.loop_thread import Feed, LoopThread
from plumbline.client.retries import Retries
from plumbline.client.row import Row
from plumbline.client.samples import AnyOptions, AnySample
from plumbline.client.sync_jobs import Jobs
from plumbline.schemas.evaluation import EvaluationResult

S = TypeVar("S", bound=AnySample)


class Plumbline:
    """A running service; use it as a context manager or call `close`. Arguments and errors as of `AsyncPlumbline`.

    It may be used where an event loop runs (in a notebook), and from several threads.
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
        self._client = AsyncPlumbline(base_url, api_key, timeout=timeout, retries=retries, transport=transport)
        self._thread = LoopThread()
        self.jobs = Jobs(self._client.jobs, self._thread)

    def evaluate(
        self,
        *,
        contexts: Iterable[str],
        answer: str,
        question: str = "",
        reference: str | None = None,
        id: str | None = None,  # noqa: A002
        **options: Unpack[OptionFields],
    ) -> EvaluationResult:
        """As `AsyncPlumbline.evaluate`."""
        return self._thread.run(
            self._client.evaluate(
                contexts=contexts, answer=answer, question=question, reference=reference, id=id, **options
            )
        )

    def evaluate_many(
        self,
        samples: Iterable[S],
        *,
        options: AnyOptions = None,
        in_flight: int = DEFAULT_IN_FLIGHT,
        batch_size: int = DEFAULT_BATCH_SIZE,
        in_order: bool = False,
    ) -> Generator[Row[S], None, None]:
        """As `AsyncPlumbline.evaluate_many`; the samples are read on the thread that takes the rows, while it does."""
        feed = Feed(iter(samples), at_once=min(batch_size, in_flight))
        rows = self._client.evaluate_source(
            feed.next, options=options, in_flight=in_flight, batch_size=batch_size, in_order=in_order
        )
        return self._thread.iterate(lambda: rows, feed=feed)

    def close(self) -> None:
        """Closes the connections and ends the thread."""
        if self._thread.is_open:
            self._thread.run(self._client.close())
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
