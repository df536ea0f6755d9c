"""POST /v1/evaluations: one sample in, one result out."""

from collections.abc import Callable, Collection
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from plumbline.ground.settings import Settings
from plumbline.judging.scoring import Scorer
from plumbline.judging.tiers.offload import is_small
from plumbline.rows.evaluation_wire import build_options, request_limits, to_sample, to_wire
from plumbline.schemas.evaluation import EvaluationRequest, EvaluationResult, bounded_request
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.evaluation_examples import EXAMPLES
from plumbline.service.api.problems import PROBLEM_RESPONSES
from plumbline.service.api.strict_json import StrictRoute


def evaluation_routes(
    settings: Settings, scorer_of: Callable[[Request], Scorer], *, judge_names: Collection[str] = ()
) -> APIRouter:
    """The routes of the main job, with the limits of these settings; `judge_names`: those that a request may name."""
    router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["evaluation"])
    bounded = bounded_request(request_limits(settings))

    async def evaluate(request: Request, body: EvaluationRequest) -> Response:
        """Judge one answer: is it true to its contexts, which sentence is not, and where is the evidence.

        The first tier that can answer does: an LLM judge, then sentence embeddings, then word overlap. A tier that
        fails is named in `attempts` with the reason; it never becomes a score.
        """
        options = build_options(body, settings, judge_names=judge_names, tenant=tenant_of(request))
        scorer, sample = scorer_of(request), to_sample(body)
        result = await scorer.score(sample, options)

        def write() -> str:
            return to_wire(result, sample, sample_id=body.id, offset_unit=body.offset_unit).model_dump_json()

        # The result of a long answer can have a megabyte.
        answer = await scorer.offload(write, inline=is_small(sample))
        return Response(answer, media_type="application/json")

    # The limits are settings, so the type of the body is known only now.
    evaluate.__annotations__["body"] = Annotated[bounded, Body(openapi_examples=EXAMPLES)]
    router.add_api_route(
        "/evaluations", evaluate, methods=["POST"], operation_id="evaluate", response_model=EvaluationResult
    )
    return router
