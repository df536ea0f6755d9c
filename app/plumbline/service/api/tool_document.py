"""A small OpenAPI document with one operation, for platforms that import tools: Dify, Coze, FastGPT.

They read OpenAPI 3.0, want `servers`, and take neither references, nor unions, nor nested answers.
"""

from typing import Any, Final

from fastapi import APIRouter, Request

from plumbline.ground.settings import Settings
from plumbline.ground.version import VERSION

TOOL_PATH: Final = "/tool/check_answer"
TOOL_DOCUMENT_PATH: Final = "/openapi-tool.json"


def tool_document_routes(settings: Settings) -> APIRouter:
    """Return the route of the document, if the settings name the contract `tool`.

    Its server is the public URL of the settings, else the address of the request.
    """
    router = APIRouter(include_in_schema=False)
    if "tool" not in settings.compat:
        return router

    @router.get(TOOL_DOCUMENT_PATH)
    async def tool_document(request: Request) -> dict[str, Any]:
        return _document((settings.public_url or str(request.base_url)).rstrip("/"))

    return router


def _document(url: str) -> dict[str, Any]:
    asked = {
        "answer": _text("The answer to check."),
        "contexts": {"type": "array", "items": {"type": "string"}, "description": "The passages that it rests on."},
        "question": _text("The question that was asked."),
    }
    told = {
        "passed": {"type": "boolean", "description": "False: something is not supported. Null: it was not judged."},
        "status": _text("judged, abstained, empty_answer or not_judged."),
        "faithfulness": {"type": "number", "description": "Share of the claims that the passages support, 0 to 1."},
        "tier": _text("The tier that judged."),
        "unsupported": {"type": "array", "items": {"type": "object"}, "description": "Claims at fault: text, verdict."},
        "explanation": _text("The verdict in words, with each claim at fault and the nearest passage."),
    }
    operation = {
        "operationId": "check_answer",
        "summary": "Check an answer against its passages",
        "description": "Checks each sentence of an answer against the passages that it rests on.",
        "requestBody": {"required": True, "content": _json(asked, required=["answer", "contexts"])},
        "responses": {"200": {"description": "The verdict.", "content": _json(told)}},
    }
    key = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Plumbline", "version": VERSION, "description": "Checks answers against their passages."},
        "servers": [{"url": url}],
        "paths": {f"/v1/compat{TOOL_PATH}": {"post": operation}},
        "components": {"securitySchemes": {"api_key": key}},
        "security": [{"api_key": []}],
    }


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


def _json(properties: dict[str, Any], *, required: list[str] | None = None) -> dict[str, Any]:
    needed = {"required": required} if required else {}
    return {"application/json": {"schema": {"type": "object", "properties": properties, **needed}}}
