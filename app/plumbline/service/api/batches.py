"""POST /v1/evaluations/batch: many samples in, one result for each out, as soon as it is there."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError

from plumbline.ground.errors import NotAcceptable
from plumbline.ground.settings import Settings
from plumbline.judging.scoring import Scorer
from plumbline.rows.evaluation_wire import request_limits
from plumbline.rows.row_scorer import RowScorer
from plumbline.schemas.batch import BatchRequest, BatchResults, Format, batch_envelope, bounded_batch, bounded_sample
from plumbline.service.api.accept import preferred
from plumbline.service.api.attended_stream import AttendedStream
from plumbline.service.api.auth import budget_check_of, tenant_of
from plumbline.service.api.batch_answer import BATCH_LINES, JSON, NDJSON, Batch
from plumbline.service.api.batch_examples import BATCH_EXAMPLES
from plumbline.service.api.batch_rows import BatchReader
from plumbline.service.api.problems import PROBLEM_RESPONSES, invalid_response, problem_responses
from plumbline.service.api.strict_json import check_media_type

BATCH_PATH = "/evaluations/batch"
_MEDIA_TYPES: dict[Format, str] = {"ndjson": NDJSON, "array": JSON}
_REFERENCE = "#/components/schemas/{model}"


def batch_routes(
    settings: Settings,
    scorer_of: Callable[[Request], Scorer],
    slots_of: Callable[[Request], asyncio.Semaphore],
    *,
    judge_names: Collection[str] = (),
) -> APIRouter:
    """The route of batches, with the limits of these settings; its body's schemas are `batch_schemas`."""
    router = APIRouter(responses={**PROBLEM_RESPONSES, **problem_responses(406)}, tags=["evaluation"])
    whole, sample = _models(settings)
    most = settings.max_batch_samples
    reader = BatchReader(whole, batch_envelope(most), sample, max_samples=most)

    async def evaluate_batch(request: Request) -> Response:
        """Judge many answers with one choice of options; every sample is judged as by a single evaluation.

        A sample that does not validate, or that meets a bug of ours, gets an `error` in place of a `result` and costs
        no other sample. Results are sent while the rest is judged, and no sample is judged far ahead of what is read.
        The summary ends the answer: without it the answer was cut.
        """
        accept = request.headers.getlist("accept")
        _media_type(accept, None)
        check_media_type(request.headers.getlist("content-type"))
        scorer = scorer_of(request)
        try:
            envelope = await _envelope(request, scorer, reader)
        except RequestValidationError as error:
            return invalid_response(request.scope, error, whole)
        batch = Batch(
            reader=reader,
            samples=envelope.samples,
            rows=RowScorer(
                scorer,
                settings,
                envelope.options,
                judge_names=judge_names,
                tenant=tenant_of(request),
                lines=BATCH_LINES,
            ),
            scorer=scorer,
            slots=slots_of(request),
            limit=settings.batch_concurrency,
            check_budget=budget_check_of(request),
        )
        media_type = _media_type(accept, envelope.format)
        return AttendedStream(lambda: batch.pieces(media_type), media_type)

    router.add_api_route(
        BATCH_PATH,
        evaluate_batch,
        methods=["POST"],
        operation_id="evaluate_batch",
        response_class=Response,
        responses={200: _DOCUMENTED_ANSWER},
        openapi_extra={"requestBody": {"required": True, "content": {JSON: _DOCUMENTED_BODY}}},
    )
    return router


def batch_schemas(settings: Settings) -> dict[str, Any]:
    """The schemas of the body, for the OpenAPI document."""
    whole, _ = _models(settings)
    schema = whole.model_json_schema(ref_template=_REFERENCE)
    return {**schema.pop("$defs"), "BatchRequest": schema}


_DOCUMENTED_BODY = {"schema": {"$ref": _REFERENCE.format(model="BatchRequest")}, "examples": BATCH_EXAMPLES}
_SUMMARY_LINE = {
    "type": "object",
    "title": "the last line",
    "properties": {"summary": {"$ref": _REFERENCE.format(model="BatchSummary")}},
    "required": ["summary"],
    "additionalProperties": False,
}
_DOCUMENTED_ANSWER: dict[str, Any] = {
    "model": BatchResults,
    "description": "A line for each sample in order of completion and the summary as last line, or one object with the "
    "results in the order of the samples. The summary is the last thing sent: without it the answer was cut.",
    "content": {
        NDJSON: {
            "schema": {
                "description": "Each line is one of these.",
                "oneOf": [
                    {"$ref": _REFERENCE.format(model="BatchResult")},
                    {"$ref": _REFERENCE.format(model="BatchError")},
                    _SUMMARY_LINE,
                ],
            }
        }
    },
}


def _models(settings: Settings) -> tuple[type[BatchRequest], type[Any]]:
    sample = bounded_sample(request_limits(settings))
    return bounded_batch(sample, settings.max_batch_samples), sample


async def _envelope(request: Request, scorer: Scorer, reader: BatchReader) -> BatchRequest:
    # Not `body()`, which would keep it for as long as the answer takes.
    body = b"".join([chunk async for chunk in request.stream()])
    return await scorer.offload(lambda: reader.envelope(body))


def _media_type(accept: list[str], form: Format | None) -> str:
    """The media type of the answer.

    Raises:
        NotAcceptable: the caller takes neither form, or not the one that the body asks for.
    """
    taken = preferred(accept, [NDJSON, JSON])
    if not taken:
        raise NotAcceptable(f"the answer is {NDJSON} or {JSON}, and the Accept header takes neither")
    if form is None:
        return taken[0]
    if _MEDIA_TYPES[form] not in taken:
        raise NotAcceptable(f"format '{form}' is {_MEDIA_TYPES[form]}, which the Accept header does not take")
    return _MEDIA_TYPES[form]
