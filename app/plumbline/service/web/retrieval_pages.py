"""The page at `/retrieval`: judgments and runs as files in, their measures and comparison out, as the API has them."""

import json
import re
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from plumbline.ground.errors import BadRequest, BodyTooLarge
from plumbline.retrieval.measure import DEFAULT_MEASURES
from plumbline.service.api import retrieval_answers as answers
from plumbline.service.api.dependencies import RetrievalThreadsDep, ScorerDep
from plumbline.service.api.openapi import COMPARISON_EXAMPLES
from plumbline.service.api.retrieval import read_files, run_in_thread
from plumbline.service.web.pages import refuse_other_origins, render_page

RETRIEVAL_PATH: Final = "/retrieval"
_DEPTH: Final = 10
# Of measures that are typed; a comma without a space is within one, as in `recall@1,3`.
_BETWEEN: Final = re.compile(r"[,，;；、]?\s+|[，;；、]")
_INVALID: Final = 422
_TOO_LARGE: Final = 413


router = APIRouter(prefix=RETRIEVAL_PATH, include_in_schema=False)


@router.get("")
async def show_retrieval(request: Request) -> Response:
    return _render(request)


@router.get("/example")
async def show_example(request: Request, scorer: ScorerDep, threads: RetrievalThreadsDep) -> Response:
    body = json.dumps(COMPARISON_EXAMPLES["markdown"]["value"] | {"measures": DEFAULT_MEASURES}).encode()
    return _render(request, await run_in_thread(scorer, threads, len(body), partial(answers.compare_runs, body)))


@router.post("", dependencies=[Depends(refuse_other_origins)])
async def measure_retrieval(request: Request, scorer: ScorerDep, threads: RetrievalThreadsDep) -> Response:
    given: dict[str, str] = {}
    try:
        form = await read_files(request, texts=("depth", "measures"))
        given = dict(form.texts)
        options = json.dumps({"measures": _measures(given)}).encode()
        measure = partial(answers.compare_files, form.qrels, form.runs, options, request.state.body_limit)
        found = await run_in_thread(scorer, threads, form.size, measure)
    except BadRequest as error:
        status = _TOO_LARGE if isinstance(error, BodyTooLarge) else _INVALID
        return _render(request, status=status, problem=error.text, given=given)
    return _render(request, found, given=given)


def _measures(given: dict[str, str]) -> list[str]:
    """Return the measures that a person typed, or the usual ones to the depth that they chose."""
    if typed := given.get("measures", "").strip():
        return _BETWEEN.split(typed)
    depth = given.get("depth", "").strip() or str(_DEPTH)
    return [each.replace(f"@{_DEPTH}", f"@{depth}") for each in DEFAULT_MEASURES]


def _render(request: Request, found: Any = None, *, status: int = 200, **values: Any) -> Response:
    return render_page(
        request, "retrieval.html", status=status, found=found, **{"problem": "", "given": {}, "depth": _DEPTH, **values}
    )
