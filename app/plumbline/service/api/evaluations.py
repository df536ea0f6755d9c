"""POST /v1/evaluations: one sample in, one result out."""

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Body, Response

from plumbline.ground.settings import Settings
from plumbline.judging.tiers.offload import is_small
from plumbline.rows.evaluation_wire import build_options, request_limits, to_sample, to_wire
from plumbline.schemas.evaluation import EvaluationRequest, EvaluationResult, bounded_request
from plumbline.service.api.dependencies import ScorerDep, TenantDep
from plumbline.service.api.json_body import StrictRoute
from plumbline.service.api.openapi import EVALUATION_EXAMPLES
from plumbline.service.api.problems import PROBLEM_RESPONSES


def evaluation_routes(settings: Settings, *, judge_names: Collection[str] = ()) -> APIRouter:
    """Return the route of single evaluations, with the limits of these settings in the type of its body."""
    router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["evaluation"])
    bounded = bounded_request(request_limits(settings))

    @router.post("/evaluations", operation_id="evaluate", response_model=EvaluationResult)
    async def evaluate(
        body: Annotated[bounded, Body(openapi_examples=EVALUATION_EXAMPLES)],  # type: ignore[valid-type]
        scorer: ScorerDep,
        tenant: TenantDep,
    ) -> Response:
        """Judge one answer: which claims its contexts support, which they do not, and where the evidence is.

        The first tier that can answer does: an LLM judge, then sentence embeddings, then word overlap. A tier that
        fails is listed in `attempts` with the reason; it never becomes a score.
        """
        request: EvaluationRequest = body
        sample = to_sample(request)
        options = build_options(request, settings, judge_names=judge_names, tenant=tenant)
        result = await scorer.score(sample, options)

        def write() -> str:
            return to_wire(result, sample, sample_id=request.id, offset_unit=request.offset_unit).model_dump_json()

        # The result of a long answer can have a megabyte.
        answer = await scorer.offload(write, inline=is_small(sample))
        return Response(answer, media_type="application/json")

    return router
