"""The client for asyncio: one evaluation, many, or jobs."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import Any, Final, Self, TypeVar, Unpack

from plumbline.client.batches import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT, BatchPlan, iterate_batches
from plumbline.client.connection import JSON_HEADERS, Connection, RequestSpec
from plumbline.client.failures import Retries, check_shape, parse_model
from plumbline.client.jobs import AsyncJobs
from plumbline.client.row import Row
from plumbline.client.samples import (
    AnyOptions,
    AnySample,
    OptionFields,
    encode_model,
    evaluation_request,
    open_samples,
)
from plumbline.schemas.evaluation import EvaluationResult

S = TypeVar("S", bound=AnySample)

DEFAULT_TIMEOUT_SECONDS: Final = 120.0


class AsyncPlumbline:
    """An asyncio client of a running service; use it as a context manager or call `close`.

    `jobs` are the jobs of the service: `await client.jobs.submit("samples.jsonl")`. The proxies of the environment are
    used (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), and its certificates (SSL_CERT_FILE, SSL_CERT_DIR,
    REQUESTS_CA_BUNDLE). Each event loop has connections of its own, so one object serves several `asyncio.run`.

    Args:
        base_url: of the service, without `/v1`; None: that of the environment variable `PLUMBLINE_URL`. Redirects are
            not followed: the key goes nowhere else.
        api_key: None: that of the environment variable `PLUMBLINE_API_KEY`; no key where that is empty.
        timeout: seconds without a byte after which an answer is given up, 5 at most to connect.
        retries: which failures are retried, and how often. Evaluations are read-only, job submission is idempotent.

    Raises:
        ConfigurationError: there is no address, or it, `api_key`, or a proxy of the environment is invalid.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: Retries = Retries(),  # noqa: B008
    ) -> None:
        self.connection = Connection(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self.jobs = AsyncJobs(self.connection)

    async def evaluate(
        self,
        *,
        contexts: Iterable[str | Mapping[str, str]] | None = None,
        answer: str | None = None,
        messages: Iterable[Mapping[str, Any]] | None = None,
        question: str = "",
        reference: str | None = None,
        evidence_roles: list[str] | None = None,
        turn_contexts: str | None = None,
        id: str | None = None,  # noqa: A002
        **options: Unpack[OptionFields],
    ) -> EvaluationResult:
        """Evaluate one answer with its contexts, or a conversation; the options are those of `EvaluationOptions`.

        Args:
            messages: chat messages in place of question and answer; each answer in them is judged by what came before
                it. `evidence_roles` and `turn_contexts` as of `ConversationRequest`.

        Raises:
            InvalidInput: names the field that does not validate.
            ClientError: the service was not reached or refused.
        """
        texts = {
            "question": question or None,
            "contexts": contexts,
            "answer": answer,
            "messages": None if messages is None else list(messages),
            "evidence_roles": evidence_roles,
            "turn_contexts": turn_contexts,
            "reference": reference,
            "id": id,
        }
        request = evaluation_request({name: text for name, text in texts.items() if text is not None}, options)
        spec = RequestSpec("POST", "/v1/evaluations", headers=JSON_HEADERS, content=encode_model(request))
        content = await self.connection.answer(spec)
        check_shape(content)
        return parse_model(EvaluationResult, content)

    def evaluate_many(
        self,
        samples: Iterable[S] | AsyncIterable[S],
        *,
        options: AnyOptions = None,
        in_flight: int = DEFAULT_IN_FLIGHT,
        batch_size: int = DEFAULT_BATCH_SIZE,
        in_order: bool = False,
    ) -> AsyncGenerator[Row[S], None]:
        """Evaluate many samples; each comes back in a `Row` with its result or its own problem.

        Backpressure: samples are read at most about `in_flight` ahead of the rows taken; an endless iterable is fine.
        A sample that cannot be judged costs no other. Of a request that was cut or refused for now, only the rows
        without a result are sent again. Close the generator (`contextlib.aclosing`) if not all of it is taken: this
        cancels the requests in flight.

        Args:
            samples: `BatchSample`s, mappings with its fields, or samples and records of files; read on the event loop.
                Or a data frame of pandas, polars or Arrow, or a mapping of columns, with names as in a file: each row
                is a `Record`.
            options: for each of them.
            in_flight: most samples that are read and not yet returned.
            batch_size: most samples of one request; a request waits for so many, or for the end.
            in_order: rows in the order of the samples; otherwise in order of completion.

        Raises:
            InvalidInput: at once: options or numbers that cannot be, or a frame without a known column.
            ClientError: while iterating: the service was not reached, refused the whole, or stayed busy.
        """
        plan = BatchPlan[S](options, in_flight=in_flight, batch_size=batch_size, in_order=in_order)
        return iterate_batches(self.connection, open_samples(samples), plan)

    async def close(self) -> None:
        """Close the connections."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        self.connection.reopen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
