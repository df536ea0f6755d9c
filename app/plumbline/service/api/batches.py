"""POST /v1/evaluations/batch: many samples in, one result for each out, streamed as they are judged."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError

from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import NotAcceptable
from plumbline.ground.settings import Settings
from plumbline.judging.scoring import Scorer
from plumbline.rows.evaluation_wire import request_limits
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import RowLines, RowTally, ScoredRow
from plumbline.schemas.batch import (
    BatchError,
    BatchRequest,
    BatchResult,
    BatchResults,
    Format,
    batch_envelope,
    bounded_batch,
    bounded_sample,
)
from plumbline.schemas.wire import json_line
from plumbline.service.api.auth import budget_check_of
from plumbline.service.api.batch_rows import BatchReader, SentSample
from plumbline.service.api.dependencies import BatchSlotsDep, ScorerDep, TenantDep
from plumbline.service.api.json_body import check_media_type
from plumbline.service.api.openapi import BATCH_EXAMPLES, SCHEMA_REFERENCE, reference
from plumbline.service.api.problems import PROBLEM_RESPONSES, invalid_response, problem_responses
from plumbline.service.api.responses import JSON, NDJSON, BackpressureResponse, preferred

BATCH_PATH = "/evaluations/batch"
_MEDIA_TYPES: dict[Format, str] = {"ndjson": NDJSON, "array": JSON}
_LOG = structlog.get_logger()


def batch_routes(settings: Settings, *, judge_names: Collection[str] = ()) -> APIRouter:
    """Return the route of batches, with the limits of these settings; `batch_schemas` has the schemas of its body."""
    router = APIRouter(responses={**PROBLEM_RESPONSES, **problem_responses(406)}, tags=["evaluation"])
    whole, sample = _models(settings)
    most = settings.max_batch_samples
    reader = BatchReader(whole, batch_envelope(most), sample, max_samples=most)

    @router.post(
        BATCH_PATH,
        operation_id="evaluate_batch",
        response_class=Response,
        responses={200: _DOCUMENTED_ANSWER},
        openapi_extra={"requestBody": {"required": True, "content": {JSON: _DOCUMENTED_BODY}}},
    )
    async def evaluate_batch(request: Request, scorer: ScorerDep, slots: BatchSlotsDep, tenant: TenantDep) -> Response:
        """Judge many answers with one set of options; every sample is judged as in a single evaluation.

        A sample that does not validate, or that fails on our side, gets an `error` in place of a `result` and does not
        affect the others. Results are streamed with backpressure while the rest is judged. If the last line is not the
        summary, the response was truncated.
        """
        accept = request.headers.getlist("accept")
        _media_type(accept, None)
        check_media_type(request.headers.getlist("content-type"))
        # Not `body()`, which would keep it for as long as the answer takes.
        body = b"".join([chunk async for chunk in request.stream()])
        try:
            envelope = await scorer.offload(lambda: reader.envelope(body))
        except RequestValidationError as error:
            return invalid_response(request.scope, error, whole)
        batch = _Batch(
            reader=reader,
            samples=envelope.samples,
            rows=RowScorer(
                scorer, settings, envelope.options, judge_names=judge_names, tenant=tenant, lines=_BATCH_LINES
            ),
            scorer=scorer,
            slots=slots,
            limit=settings.batch_concurrency,
            check_budget=budget_check_of(request),
        )
        media_type = _media_type(accept, envelope.format)
        return BackpressureResponse(lambda: batch.pieces(media_type), media_type)

    return router


def batch_schemas(settings: Settings) -> dict[str, Any]:
    """Return the schemas of the body, for the OpenAPI document."""
    whole, _ = _models(settings)
    schema = whole.model_json_schema(ref_template=SCHEMA_REFERENCE)
    return {**schema.pop("$defs"), "BatchRequest": schema}


_DOCUMENTED_BODY = {"schema": reference("BatchRequest"), "examples": BATCH_EXAMPLES}
_SUMMARY_LINE = {
    "type": "object",
    "title": "the last line",
    "properties": {"summary": reference("BatchSummary")},
    "required": ["summary"],
    "additionalProperties": False,
}
_DOCUMENTED_ANSWER: dict[str, Any] = {
    "model": BatchResults,
    "description": "One line for each sample in order of completion and the summary as last line, or one object with "
    "the results in the order of the samples. If the summary is missing at the end, the response was truncated.",
    "content": {
        NDJSON: {
            "schema": {
                "description": "Each line is one of these.",
                "oneOf": [
                    reference("BatchResult"),
                    reference("BatchError"),
                    _SUMMARY_LINE,
                ],
            }
        }
    },
}


def _models(settings: Settings) -> tuple[type[BatchRequest], type[Any]]:
    sample = bounded_sample(request_limits(settings))
    return bounded_batch(sample, settings.max_batch_samples), sample


def _media_type(accept: list[str], form: Format | None) -> str:
    """Return the media type of the answer.

    Raises:
        NotAcceptable: the Accept header allows neither form, or not the one that the body asks for.
    """
    taken = preferred(accept, [NDJSON, JSON])
    if not taken:
        raise NotAcceptable(f"the answer is {NDJSON} or {JSON}, and the Accept header takes neither")
    if form is None:
        return taken[0]
    if _MEDIA_TYPES[form] not in taken:
        raise NotAcceptable(f"format '{form}' is {_MEDIA_TYPES[form]}, which the Accept header does not take")
    return _MEDIA_TYPES[form]


@dataclass(frozen=True, slots=True)
class _Layout:
    """The bytes around the rows and the summary."""

    begin: bytes
    before_next: bytes
    after_each: bytes
    before_summary: bytes
    end: bytes


_LAYOUTS = {
    NDJSON: _Layout(b"", b"", b"\n", b'{"summary":', b"}\n"),
    JSON: _Layout(b'{"results":[', b",", b"", b'],"summary":', b"}\n"),
}


_BATCH_LINES = RowLines(
    result=lambda custom_id, row, result: json_line(BatchResult(custom_id=custom_id, index=row, result=result)),
    error=lambda custom_id, row, _, problem: json_line(BatchError(custom_id=custom_id, index=row, error=problem)),
)


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch to judge.

    Args:
        rows: scores them, with `_BATCH_LINES`.
        slots: one is held while a sample is judged, over all batches of the service.
        check_budget: raises BudgetSpent; the remaining rows then get that as their error.
    """

    reader: BatchReader
    samples: list[Any]
    rows: RowScorer
    scorer: Scorer
    slots: asyncio.Semaphore
    limit: int
    check_budget: Callable[[], None]

    async def pieces(self, media_type: str) -> AsyncGenerator[bytes, None]:
        """Yield the answer row by row; at most `limit` rows are judged ahead of the reader."""
        layout, tally, is_complete = _LAYOUTS[media_type], RowTally(), False
        rows = map_concurrently(
            self._score, self.reader.rows(self.samples), limit=self.limit, in_order=media_type == JSON
        )
        try:
            if layout.begin:
                yield layout.begin
            separator = b""
            async with aclosing(rows) as scored:
                async for row in scored:
                    tally.add(row)
                    yield separator + row.line + layout.after_each
                    separator = layout.before_next
            summary = tally.summary().model_dump_json().encode()
            yield layout.before_summary + summary + layout.end
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

    async def _score(self, row: SentSample) -> ScoredRow:
        try:
            sample = await self.scorer.offload(lambda: self.reader.sample(row))
            async with self.slots:
                self.check_budget()
                return await self.rows.score_valid(row.index, row.custom_id, sample)
        except Exception as error:
            return self.rows.refuse(row.index, row.custom_id, self.reader.problem(row, error))
