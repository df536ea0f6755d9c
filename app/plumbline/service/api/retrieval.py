"""POST /v1/retrieval/...: judgments and runs in, measures, comparisons, fused runs and parsed rankings out."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from plumbline.judging.scoring import Scorer
from plumbline.schemas.retrieval import (
    ComparisonRequest,
    ComparisonResult,
    FormOptions,
    FusionRequest,
    FusionResult,
    RankingOut,
    RankingRequest,
    RetrievalEvaluationRequest,
    RetrievalEvaluationResult,
)
from plumbline.service.api.msgspec_body import json_content
from plumbline.service.api.problems import PROBLEM_RESPONSES
from plumbline.service.api.retrieval_answers import compare_runs, evaluate_files, evaluate_runs, fuse_runs, parse_texts
from plumbline.service.api.retrieval_examples import (
    COMPARISON_EXAMPLES,
    EVALUATION_EXAMPLES,
    FUSION_EXAMPLES,
    RANKING_EXAMPLES,
)
from plumbline.service.api.retrieval_form import FORM_CONTENT, read_form
from plumbline.service.api.strict_json import check_media_type

MESSAGES = (
    FormOptions,
    RetrievalEvaluationRequest,
    RetrievalEvaluationResult,
    ComparisonRequest,
    ComparisonResult,
    FusionRequest,
    FusionResult,
    RankingRequest,
    RankingOut,
)
_FORM = "multipart/form-data"
_RANKINGS_BY_QUERY = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/RankingOut"}}


def retrieval_routes(scorer_of: Callable[[Request], Scorer]) -> APIRouter:
    """The routes of retrieval; they decode and compute in the scorer's worker threads."""
    evaluations = _described(RetrievalEvaluationRequest, RetrievalEvaluationResult, EVALUATION_EXAMPLES)
    evaluations["openapi_extra"]["requestBody"]["content"] |= {_FORM: FORM_CONTENT}
    router = APIRouter(prefix="/retrieval", tags=["retrieval"], responses=PROBLEM_RESPONSES)

    async def answer(request: Request, work: Callable[[bytes], bytes]) -> Response:
        check_media_type(request.headers.getlist("content-type"))
        body = await request.body()
        return Response(await scorer_of(request).offload(lambda: work(body)), media_type="application/json")

    @router.post("/evaluations", operation_id="evaluate_retrieval", **evaluations)
    async def evaluate_retrieval(request: Request) -> Response:
        """Measures of one or many runs against judgments, with every convention that changes a number stated.

        Send JSON, or a multipart form of files (TREC's or tables, plain or gzipped): `qrels`, `run`s, and `options`.
        """
        if not request.headers.get("content-type", "").startswith(_FORM):
            return await answer(request, evaluate_runs)
        qrels, runs, options = await read_form(request)
        work = scorer_of(request).offload(lambda: evaluate_files(qrels, runs, options))
        return Response(await work, media_type="application/json")

    @router.post(
        "/comparisons",
        operation_id="compare_retrieval",
        **_described(ComparisonRequest, ComparisonResult, COMPARISON_EXAMPLES),
    )
    async def compare_retrieval(request: Request) -> Response:
        """Runs against each other, or against a baseline: paired tests over queries, corrected for their number."""
        return await answer(request, compare_runs)

    @router.post("/fusions", operation_id="fuse_retrieval", **_described(FusionRequest, FusionResult, FUSION_EXAMPLES))
    async def fuse_retrieval(request: Request) -> Response:
        """Several runs as one; with judgments its measures, and weights tuned by k-fold with their held-out score."""
        return await answer(request, fuse_runs)

    @router.post(
        "/rankings", operation_id="parse_rankings", **_described(RankingRequest, _RANKINGS_BY_QUERY, RANKING_EXAMPLES)
    )
    async def parse_rankings(request: Request) -> Response:
        """The ids that LLM outputs rank, by query; what could not be read is said so and is no score."""
        return await answer(request, parse_texts)

    return router


def _described(message: type[Any], result: type[Any] | dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    """What a route says of its body and its answer in the OpenAPI document."""
    content = {"application/json": {"schema": result}} if isinstance(result, dict) else json_content(result)
    return {
        "openapi_extra": {"requestBody": {"required": True, "content": json_content(message, examples)}},
        "responses": {200: {"content": content}},
        "response_class": Response,
    }
