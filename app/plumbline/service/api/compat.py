"""Contracts of other evaluators and guardrails under /v1/compat/, by the one scoring path; off by default.

What no tier judged is an error (503) in all of them. The contract `tool` comes with a small OpenAPI document, for
platforms that import tools: Dify, Coze, FastGPT.
"""

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from plumbline.ground.bounded_cache import BoundedCache
from plumbline.ground.errors import InvalidInput, TooBusy
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText, Language
from plumbline.ground.version import VERSION
from plumbline.rows.evaluation_wire import request_limits
from plumbline.schemas.evaluation import EvaluationResult, bounded_request
from plumbline.schemas.explanation import explain, is_blocked, summarize, unjudged_reason
from plumbline.service.api.dependencies import ScorerDep, TenantDep
from plumbline.service.api.edge import path_of
from plumbline.service.api.evaluations import evaluate_request
from plumbline.service.api.json_body import parse_strictly
from plumbline.service.api.openapi import TOOL_DOCUMENT
from plumbline.service.api.responses import choose_language, name_language

Body = Mapping[str, Any]
COMPAT_PATH: Final = "/v1/compat/"
TOOL_PATH: Final = "/tool/check_answer"
TOOL_DOCUMENT_PATH: Final = "/openapi-tool.json"


class Contract(NamedTuple):
    """One operation: body and query to the fields of an evaluation, and the result, with the body, to the answer."""

    path: str
    read: Callable[[Body, Mapping[str, str]], dict[str, Any]]
    write: Callable[[EvaluationResult, Language, Body], dict[str, Any]]

    @property
    def name(self) -> str:
        return self.path.split("/")[1]


def _promptfoo_sample(body: Body, query: Mapping[str, str]) -> dict[str, Any]:
    variables = body["context"]["vars"]
    contexts = _as_list(variables[query.get("contexts", "contexts")])
    question = variables.get(query.get("question", "question"), "")
    fields = {"answer": body["output"], "contexts": contexts, "question": question}
    return {**fields, "threshold": float(query["min"])} if "min" in query else fields


def promptfoo_answer(result: EvaluationResult, language: Language, _: Body) -> dict[str, Any]:
    """Return the verdict of an assertion, which passes only if the answer does."""
    score = {} if result.faithfulness is None else {"score": result.faithfulness}
    return {"pass": result.passed is True, **score, "reason": explain(result, language)}


def _litellm_sample(body: Body, _: Mapping[str, str]) -> dict[str, Any]:
    _allows_unsure(body)
    messages = body.get("structured_messages") or (body.get("request_data") or {}).get("messages") or []
    contexts, question = [], ""
    for each in messages:
        role, text = each["role"], _text_of(each.get("content"))
        if role == "tool":
            contexts.append(text)
        elif role != "assistant":
            head, *pieces = text.split("<context>")
            parts = [piece.partition("</context>") for piece in pieces]
            contexts += [passage for passage, closing, _ in parts if closing]
            question = head + "".join(rest for *_, rest in parts) if role == "user" else question
    return {"answer": "\n".join(body.get("texts") or []), "contexts": contexts, "question": question}


def litellm_answer(result: EvaluationResult, language: Language, body: Body) -> dict[str, Any]:
    """Return the verdict of the guardrail, which blocks what the tier is unsure of unless its parameters allow it."""
    if is_blocked(result, allow_unsure=_allows_unsure(body)):
        return {"action": "BLOCKED", "blocked_reason": explain(result, language)}
    return {"action": "NONE"}


def _allows_unsure(body: Body) -> bool:
    choice: str = (body.get("additional_provider_specific_params") or {}).get("unsure", "block")
    if choice not in ("block", "allow"):
        raise ValueError(choice)
    return choice == "allow"


_CONTRACTS: Final = (
    Contract("/promptfoo", _promptfoo_sample, promptfoo_answer),
    Contract("/litellm/beta/litellm_basic_guardrail_api", _litellm_sample, litellm_answer),
    Contract(
        TOOL_PATH,
        lambda body, _: {**body, "contexts": _as_list(body["contexts"])},
        lambda result, language, _: summarize(result, language),
    ),
)


def compat_routes(settings: Settings, *, judge_names: tuple[str, ...]) -> APIRouter:
    router = APIRouter(prefix="/compat", include_in_schema=False)
    model = bounded_request(request_limits(settings))
    for each in _CONTRACTS:
        if each.name in settings.compat:
            router.add_api_route(each.path, _endpoint(each, model, settings, judge_names), methods=["POST"])
    return router


def _endpoint(contract: Contract, model: Any, settings: Settings, judge_names: tuple[str, ...]) -> Callable[..., Any]:
    memory = CallMemory()

    async def answer(request: Request, scorer: ScorerDep, tenant: TenantDep) -> JSONResponse:
        body = parse_strictly(await request.body())
        try:
            fields = contract.read(body, request.query_params)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, KeyError):
                raise InvalidInput(CodedText("contract_lacks", name=str(error.args[0]))) from None
            raise InvalidInput(CodedText("contract_of_other_types")) from None
        if contract.name == "litellm":
            is_request = body.get("input_type") == "request"
            fields = memory.recall(tenant, str(body.get("litellm_call_id")), fields, is_request=is_request)
            if is_request or not fields["contexts"]:
                # Nothing was generated yet, or no tool returned what an answer could be unfaithful to
                return JSONResponse({"action": "NONE"})
        try:
            sample = model.model_validate(fields)
        except ValidationError as error:
            raise RequestValidationError(error.errors(), body=body) from None
        language = name_language(request)
        result = await evaluate_request(
            sample, scorer, settings, judge_names=judge_names, tenant=tenant, language=language
        )
        if result.status == "not_judged":
            raise TooBusy(CodedText("no_tier_could_judge", reason=unjudged_reason(result) or ""))
        return JSONResponse(contract.write(result, choose_language(request), body))

    return answer


def compat_keys(connection: HTTPConnection) -> list[bytes]:
    """Return the keys of `Authorization: Basic`, in which clients send a key that stands in their address."""
    if not path_of(connection.scope).startswith(COMPAT_PATH):
        return []
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return []
    try:
        sent = base64.b64decode(credentials).decode("latin-1").partition(":")[::2]
    except ValueError:
        return []
    return [key.encode("latin-1", "replace") for key in sent if key]


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(each["text"] for each in content or [] if "text" in each)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_MOST_CHARACTERS: Final = 64_000_000
_CALL_SECONDS: Final = 600.0
# What a call takes besides its texts, so that their number is bounded, too.
_CALL_CHARACTERS: Final = 1_000


class _Call(NamedTuple):
    until: float
    contexts: list[str]
    question: str


class CallMemory:
    """The newest calls, for ten minutes, up to 64 million characters."""

    def __init__(self) -> None:
        self._calls: BoundedCache[tuple[str, str], _Call] = BoundedCache(
            _MOST_CHARACTERS, lambda call: sum(map(len, call.contexts)) + len(call.question) + _CALL_CHARACTERS
        )

    def recall(self, tenant: str, call_id: str, fields: dict[str, Any], *, is_request: bool) -> dict[str, Any]:
        """Keep a request's contexts; return a response's fields with them, or raise InvalidInput if there are none."""
        key, now = (tenant, call_id), time.monotonic()
        if is_request or fields["contexts"]:
            self._calls.put(key, _Call(now + _CALL_SECONDS, fields["contexts"], fields["question"]))
        call = self._calls.get(key)
        if call is None or call.until < now:
            raise InvalidInput(CodedText("call_not_seen"))
        return {**fields, "contexts": call.contexts, "question": call.question}


def tool_document_routes(settings: Settings) -> APIRouter:
    """Return the route of the document, if the settings name the contract `tool`."""
    router = APIRouter(include_in_schema=False)
    if "tool" not in settings.compat:
        return router

    @router.get(TOOL_DOCUMENT_PATH)
    async def tool_document(request: Request) -> dict[str, Any]:
        url = (settings.public_url or str(request.base_url)).rstrip("/")
        info = {**TOOL_DOCUMENT["info"], "version": VERSION}
        return {**TOOL_DOCUMENT, "info": info, "servers": [{"url": url}]}

    return router
