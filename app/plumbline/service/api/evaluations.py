"""POST /v1/evaluations: one sample in, one result out; /v1/evaluations/batch: many, streamed as they are judged."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Body, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Discriminator, Tag
from starlette.types import Scope

from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import PlumblineError
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import log_failure
from plumbline.ground.texts import CodedText, Language
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.offload import are_small, is_small
from plumbline.judging.text.sample import Sample
from plumbline.rows.evaluation_wire import build_options, request_limits, to_sample, to_wire
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import RowLines, RowTally, ScoredRow, row_problem
from plumbline.schemas.batch import (
    BatchConversation,
    BatchError,
    BatchRequest,
    BatchResult,
    BatchResults,
    BatchSample,
    Format,
    bounded_batch,
    bounded_sample,
)
from plumbline.schemas.conversation import ConversationRequest, is_conversation
from plumbline.schemas.evaluation import MAX_ID_CHARACTERS, EvaluationRequest, EvaluationResult, bounded_request
from plumbline.schemas.problem import FAILURE_DETAIL, INTERNAL, VALIDATION, RowProblem, count_problems
from plumbline.schemas.wire import json_line
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.dependencies import BatchSlotsDep, ScorerDep, TenantDep
from plumbline.service.api.edge import path_of
from plumbline.service.api.json_body import (
    MAX_VALUES,
    StrictRoute,
    build_model,
    check_media_type,
    check_values,
    invalid_at,
    is_text,
    read_envelope,
)
from plumbline.service.api.openapi import BATCH_EXAMPLES, DOCUMENTS, EVALUATION_EXAMPLES, SCHEMA_REFERENCE, reference
from plumbline.service.api.problems import (
    PROBLEM_RESPONSES,
    field_problems,
    invalid_response,
    kind_of,
)
from plumbline.service.api.responses import JSON, NDJSON, BackpressureResponse, choose_format, name_language

URL_PATH: Final = "/v1/evaluations"
_TAGS: Final = ("(sample)", "(conversation)")


def has_deadline(scope: Scope) -> bool:
    """Return True for requests that are judged while the caller waits; batches and jobs wait themselves."""
    path = path_of(scope)
    return path == URL_PATH or path.startswith("/v1/compat/")


async def evaluate_request(
    request: EvaluationRequest | ConversationRequest,
    scorer: Scorer,
    settings: Settings,
    *,
    judge_names: Collection[str],
    tenant: str,
    language: Language | None = None,
) -> EvaluationResult:
    """Return the result of a request that is within the limits. Raises InvalidInput, as `build_options`."""
    sample = to_sample(request, request_limits(settings))
    options = build_options(request, settings, judge_names=judge_names, tenant=tenant)
    result = await scorer.score(sample, options)

    def write() -> EvaluationResult:
        return to_wire(result, sample, sample_id=request.id, offset_unit=request.offset_unit, language=language)

    # The result of a long answer can have a megabyte.
    return await scorer.offload(write, inline=is_small(sample))


def evaluation_routes(settings: Settings, *, judge_names: Collection[str] = ()) -> APIRouter:
    router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["evaluation"])
    bounded = bounded_request(request_limits(settings))

    @router.post("/evaluations", operation_id="evaluate", response_model=EvaluationResult)
    async def evaluate(
        body: Annotated[
            Annotated[bounded, Tag(_TAGS[False])]  # type: ignore[valid-type]
            | Annotated[ConversationRequest, Tag(_TAGS[True])],
            Discriminator(lambda value: _TAGS[is_conversation(value)]),
            # generators of clients name the model by its title
            Body(openapi_examples=EVALUATION_EXAMPLES, title="SampleOrConversation"),
        ],
        request: Request,
    ) -> Response:
        """Judge one answer: which claims its contexts support, which they do not, and where the evidence is.

        The first tier that can answer does: an LLM judge, then sentence embeddings, then word overlap. A tier that
        fails is listed in `trace.attempts` with the reason; it never becomes a score. With `messages` in place of
        contexts and answer, each turn of a conversation is judged by what was retrieved or returned before it.
        """
        # No dependencies: each costs a fiftieth of a small sample.
        scorer: Scorer = request.app.state.service.scorer
        result = await evaluate_request(
            body, scorer, settings, judge_names=judge_names, tenant=tenant_of(request), language=name_language(request)
        )
        small = are_small(claim.text for claim in result.claims)
        answer = await scorer.offload(result.model_dump_json, inline=small)
        return Response(answer, media_type="application/json")

    return router


BATCH_PATH = "/evaluations/batch"
# JSON is what callers get who take both.
_MEDIA_TYPES: Final[Mapping[Format, str]] = {"array": JSON, "ndjson": NDJSON}
# A valid sample has two, a conversation some dozens; the rest is room for invalid ones, each with an error of its own.
_CONTAINERS_OF_A_ROW = 100
_LOG = structlog.get_logger()


def batch_routes(settings: Settings, *, judge_names: Collection[str] = ()) -> APIRouter:
    router = APIRouter(responses=PROBLEM_RESPONSES, tags=["evaluation"])
    reader = _BatchReader(settings)
    body = {"schema": reference("BatchRequest"), "examples": BATCH_EXAMPLES}

    @router.post(
        BATCH_PATH,
        operation_id="evaluate_batch",
        response_class=Response,
        responses={200: {"model": BatchResults, **DOCUMENTS["batch_answer"]}},
        openapi_extra={"requestBody": {"required": True, "content": {JSON: body}}},
    )
    async def evaluate_batch(request: Request, scorer: ScorerDep, slots: BatchSlotsDep, tenant: TenantDep) -> Response:
        """Judge many answers with one set of options; every sample is judged as in a single evaluation.

        A sample that does not validate, or that fails on our side, gets an `error` in place of a `result` and does not
        affect the others. Results are streamed with backpressure while the rest is judged. If the last line is not the
        summary, the response was truncated.
        """
        check_media_type(request.headers.getlist("content-type"))
        # not `body()`, which would keep it until the response ends
        received = b"".join([chunk async for chunk in request.stream()])
        try:
            envelope = await scorer.offload(lambda: reader.envelope(received))
        except RequestValidationError as error:
            return invalid_response(request.scope, error, reader.whole)
        language = name_language(request)
        batch = _Batch(
            reader=reader,
            samples=envelope.samples,
            rows=RowScorer(
                scorer,
                settings,
                envelope.options,
                judge_names=judge_names,
                tenant=tenant,
                lines=_BATCH_LINES,
                language=language,
            ),
            scorer=scorer,
            slots=slots,
            limit=settings.batch_concurrency,
        )
        media_type = _MEDIA_TYPES[choose_format(request.headers.getlist("accept"), _MEDIA_TYPES, envelope.format)]
        return BackpressureResponse(batch.pieces(media_type), media_type)

    return router


def batch_schemas(settings: Settings) -> dict[str, Any]:
    schema = _BatchReader(settings).whole.model_json_schema(ref_template=SCHEMA_REFERENCE)
    return {**schema.pop("$defs"), "BatchRequest": schema}


_BATCH_LINES = RowLines(
    result=lambda custom_id, row, result: json_line(BatchResult(custom_id=custom_id, index=row, result=result)),
    error=lambda custom_id, row, _, problem: json_line(BatchError(custom_id=custom_id, index=row, error=problem)),
)


@dataclass(frozen=True, slots=True)
class _SentSample:
    """One sample as sent; `custom_id` is None if none can be repeated; `duplicate_of`: index of an earlier one."""

    index: int
    value: object
    custom_id: str | None
    duplicate_of: int | None


class _BatchReader:
    """Validates batches within the limits of one service: the envelope (`whole`), then each sample separately."""

    def __init__(self, settings: Settings) -> None:
        self._limits = request_limits(settings)
        self._sample: type[BatchSample] = bounded_sample(self._limits)
        self.whole = bounded_batch(self._sample | BatchConversation, settings.max_batch_samples)
        self._envelope = bounded_batch(Any, settings.max_batch_samples)
        self._max_containers = max(MAX_VALUES, _CONTAINERS_OF_A_ROW * settings.max_batch_samples)

    def envelope(self, body: bytes) -> BatchRequest:
        """Return the batch, its samples not yet validated; raise as `parse_strictly`."""
        return read_envelope(body, self._envelope, "samples", max_containers=self._max_containers)

    def rows(self, samples: Sequence[object]) -> Iterator[_SentSample]:
        """Yield the samples with their ids; of several with the same id the first keeps it."""
        index_by_id: dict[str, int] = {}
        for index, value in enumerate(samples):
            custom_id = _custom_id(value)
            first = index if custom_id is None else index_by_id.setdefault(custom_id, index)
            yield _SentSample(index, value, custom_id, None if first == index else first)

    def sample(self, row: _SentSample) -> Sample:
        at = ("body", "samples", row.index)
        check_values(row.value, at=at)
        model: type[BatchConversation | BatchSample] = BatchConversation if is_conversation(row.value) else self._sample
        sample = build_model(model, row.value, at=at)
        if row.duplicate_of is not None:
            taken = CodedText("id_is_taken", index=row.duplicate_of)
            raise invalid_at(at, row.value, [{"type": "custom_id_repeated", "loc": ("custom_id",), "msg": taken}])
        return to_sample(sample, self._limits)

    def problem(self, row: _SentSample, error: Exception) -> RowProblem:
        if isinstance(error, RequestValidationError):
            detail = count_problems(len(error.errors()), CodedText("whole_sample"))
            return row_problem(VALIDATION, detail, errors=field_problems(error, self.whole))
        if isinstance(error, PlumblineError) and (kind := kind_of(type(error))).status < INTERNAL.status:
            return row_problem(kind, error.text)
        log_failure(error, "row_failed", row=row.index)
        return row_problem(INTERNAL, FAILURE_DETAIL)


def _custom_id(value: object) -> str | None:
    name = value.get("custom_id") if isinstance(value, dict) else None
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_ID_CHARACTERS or not is_text(name):
        return None
    return name


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch; of all batches of the service a sample holds one of the slots while it is judged."""

    reader: _BatchReader
    samples: list[Any]
    rows: RowScorer
    scorer: Scorer
    slots: asyncio.Semaphore
    limit: int

    async def pieces(self, media_type: str) -> AsyncGenerator[bytes, None]:
        """Yield the answer row by row; at most `limit` rows are judged ahead of the reader."""
        is_array, tally, is_complete = media_type == JSON, RowTally(), False
        rows = map_concurrently(self._score, self.reader.rows(self.samples), limit=self.limit, in_order=is_array)
        before, after = (b'{"results":[', b"") if is_array else (b"", b"\n")
        try:
            if before:
                yield before
            separator = b""
            async with aclosing(rows) as scored:
                async for row in scored:
                    tally.add(row)
                    yield separator + row.line + after
                    separator = b"," if is_array else b""
            summary = tally.summary().model_dump_json().encode()
            yield (b'],"summary":' if is_array else b'{"summary":') + summary + b"}\n"
            is_complete = True
        finally:
            counts = tally.summary()
            _LOG.info(
                "batch_ended",
                is_complete=is_complete,
                rows=counts.rows,
                errors=counts.errors,
                not_judged=counts.not_judged,
                degraded=counts.degraded,
                seconds=counts.seconds,
            )

    async def _score(self, row: _SentSample) -> ScoredRow:
        try:
            sample = await self.scorer.offload(lambda: self.reader.sample(row))
            async with self.slots:
                return await self.rows.score_valid(row.index, row.custom_id, sample)
        except Exception as error:
            return self.rows.refuse(row.index, row.custom_id, self.reader.problem(row, error))
