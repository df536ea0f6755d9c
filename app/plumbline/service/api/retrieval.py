"""POST /v1/retrieval/...: judgments and runs in; measures, comparisons, fused runs and parsed rankings out."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Request, Response

from plumbline.ground.deadline import work_deadline
from plumbline.ground.errors import InvalidInput, TierFailure, UnsupportedBody
from plumbline.ground.texts import CodedText, render
from plumbline.judging.scoring import Scorer
from plumbline.retrieval.input_rows import NamedFile
from plumbline.service.api import retrieval_answers as answers
from plumbline.service.api import retrieval_messages as wire
from plumbline.service.api.auth import is_from_another_origin
from plumbline.service.api.dependencies import RetrievalThreadsDep, ScorerDep
from plumbline.service.api.form_body import FORM, read_form
from plumbline.service.api.json_body import check_media_type
from plumbline.service.api.openapi import (
    COMPARISON_EXAMPLES,
    DOCUMENTS,
    FUSION_EXAMPLES,
    RETRIEVAL_EXAMPLES,
    json_content,
)
from plumbline.service.api.problems import PROBLEM_RESPONSES
from plumbline.service.api.responses import JSON, choose_language
from plumbline.service.api.retrieval_limits import MAX_RUNS

T = TypeVar("T")

MESSAGES = (
    wire.FormOptions,
    wire.RetrievalEvaluationRequest,
    wire.RetrievalEvaluationResult,
    wire.ComparisonRequest,
    wire.ComparisonResult,
    wire.FusionRequest,
    wire.FusionResult,
)
LARGE_BODY_ADVICE = CodedText("large_body_advice")
_MOST_SECONDS = 60.0


def _describe(message: type[Any], result: type[Any], examples: dict[str, Any]) -> dict[str, Any]:
    return {
        "openapi_extra": {"requestBody": {"required": True, "content": json_content(message, examples)}},
        "responses": {200: {"content": json_content(result)}},
        "response_class": Response,
    }


_EVALUATIONS = _describe(wire.RetrievalEvaluationRequest, wire.RetrievalEvaluationResult, RETRIEVAL_EXAMPLES)
_EVALUATIONS["openapi_extra"]["requestBody"]["content"] |= {FORM: DOCUMENTS["retrieval_files"]}
# Every operation reads it. openapi-python-client 0.29 writes a module that cannot be imported for an operation with two
# kinds of bodies and no optional parameter.
_EVALUATIONS["openapi_extra"]["parameters"] = [
    {
        "name": "X-Request-ID",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": "Name of the request in logs and problems, 1 to 128 of A-Z, a-z, 0-9 and `._-`; sent back.",
    }
]

router = APIRouter(prefix="/retrieval", tags=["retrieval"], responses=PROBLEM_RESPONSES)


@router.post("/evaluations", operation_id="evaluate_retrieval", **_EVALUATIONS)
async def evaluate_retrieval(request: Request, scorer: ScorerDep, threads: RetrievalThreadsDep) -> Response:
    """Compute the measures of one or many runs against judgments, with every convention that changes a number stated.

    Send JSON, or a multipart form of files in the forms of the command: `qrels`, `run`s, and `options`.
    """
    if not request.headers.get("content-type", "").startswith(FORM):
        return await _answer(request, scorer, threads, answers.evaluate_runs)
    form = await read_files(request)
    options = form.texts.get("options", "").encode()
    evaluate = partial(answers.evaluate_files, form.qrels, form.runs, options, request.state.body_limit)
    return await _send(request, scorer, threads, form.size, evaluate)


@router.post(
    "/comparisons",
    operation_id="compare_retrieval",
    **_describe(wire.ComparisonRequest, wire.ComparisonResult, COMPARISON_EXAMPLES),
)
async def compare_retrieval(request: Request, scorer: ScorerDep, threads: RetrievalThreadsDep) -> Response:
    """Compare runs with each other or with a baseline: paired tests over queries, corrected for multiple testing."""
    return await _answer(request, scorer, threads, answers.compare_runs)


@router.post(
    "/fusions", operation_id="fuse_retrieval", **_describe(wire.FusionRequest, wire.FusionResult, FUSION_EXAMPLES)
)
async def fuse_retrieval(request: Request, scorer: ScorerDep, threads: RetrievalThreadsDep) -> Response:
    """Fuse several runs into one; with judgments also its measures."""
    return await _answer(request, scorer, threads, answers.fuse_runs)


async def _answer(request: Request, scorer: Scorer, threads: Executor, work: Callable[[bytes], Any]) -> Response:
    check_media_type(request.headers.getlist("content-type"))
    body = await request.body()
    return await _send(request, scorer, threads, len(body), partial(work, body))


async def _send(request: Request, scorer: Scorer, threads: Executor, size: int, work: Callable[[], Any]) -> Response:
    language = choose_language(request)
    # The hook is called for texts of ours: msgspec knows no subclasses of `str`.
    encode = partial(msgspec.json.encode, enc_hook=partial(render, language=language))
    return Response(await run_in_thread(scorer, threads, size, lambda: encode(work())), media_type=JSON)


async def run_in_thread(scorer: Scorer, threads: Executor, size: int, work: Callable[[], T]) -> T:
    """Return what `work` returns on a body of this size; raise InvalidInput if it takes too long."""
    with scorer.interpreter.yield_often(size), work_deadline(time.monotonic() + _MOST_SECONDS):
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except TierFailure:
            raise InvalidInput(CodedText("too_much_work", seconds=_MOST_SECONDS)) from None


class RetrievalForm(NamedTuple):
    """Files of judgments and runs, and the other parts of their form."""

    qrels: NamedFile
    runs: Sequence[NamedFile]
    texts: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(len(each.content) for each in (self.qrels, *self.runs))


async def read_files(request: Request, *, texts: Sequence[str] = ("options",)) -> RetrievalForm:
    # Browsers send forms without preflight.
    if is_from_another_origin(request):
        raise UnsupportedBody(CodedText("form_of_another_origin"))
    async with read_form(request, files=("qrels", "run"), texts=texts, max_files=MAX_RUNS) as form:
        files = {
            name: [NamedFile(each.filename or name, await each.read()) for each in parts]
            for name, parts in form.files.items()
        }
    if len(files["qrels"]) != 1 or not files["run"]:
        raise InvalidInput(CodedText("retrieval_files_expected"))
    return RetrievalForm(files["qrels"][0], files["run"], form.texts)
