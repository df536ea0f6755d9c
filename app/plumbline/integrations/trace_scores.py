"""Phoenix and Langfuse: results as annotations of spans and scores of traces; writing one again replaces it."""

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from plumbline.client.connection import JSON_HEADERS, Connection, RequestSpec
from plumbline.client.failures import Retries
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.explanation import decision_word, explain

_NAME: Final = "faithfulness"
_TIMEOUT_SECONDS: Final = 30.0


def phoenix_annotation(span_id: str, result: EvaluationResult) -> dict[str, Any]:
    """Return an annotation of a span; without a score its label is the status and it has no score."""
    label = decision_word(result, "faithful", "unfaithful")
    return {
        "span_id": span_id,
        "name": _NAME,
        "annotator_kind": "LLM" if result.tier == "llm" else "CODE",
        "result": {"label": label, "score": result.faithfulness, "explanation": explain(result)},
        "metadata": {"tier": result.tier, "status": result.status},
        "identifier": "plumbline",
    }


def langfuse_score(trace_id: str, result: EvaluationResult, *, observation_id: str | None = None) -> dict[str, Any]:
    """Return a score of a trace or of one of its observations; without a number it is the category `status`."""
    place = f"{trace_id}-{observation_id}" if observation_id else trace_id
    name, kind = (_NAME, "NUMERIC") if result.faithfulness is not None else (f"{_NAME}_status", "CATEGORICAL")
    score = {
        "id": f"plumbline-{place}-{name}",
        "traceId": trace_id,
        "name": name,
        "dataType": kind,
        "value": result.status if result.faithfulness is None else result.faithfulness,
        "comment": explain(result),
        "metadata": {"tier": result.tier, "passed": result.passed},
    }
    return {**score, "observationId": observation_id} if observation_id else score


def write_to_phoenix(results: Mapping[str, EvaluationResult], url: str, *, api_key: str = "") -> None:
    """Annotate spans, by their ids, of the Phoenix at `url`; raises ClientError."""
    body = {"data": [phoenix_annotation(span_id, result) for span_id, result in results.items()]}
    spec = RequestSpec("POST", "/v1/span_annotations", {"sync": "false"}, JSON_HEADERS, json.dumps(body).encode())
    asyncio.run(_send(url, api_key, [spec]))


def write_to_langfuse(results: Mapping[str, EvaluationResult], url: str, *, public_key: str, secret_key: str) -> None:
    """Score traces, by their ids, of the Langfuse at `url`; raises ClientError."""
    keys = base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()
    headers = {**JSON_HEADERS, "authorization": f"Basic {keys}"}
    scores = (json.dumps(langfuse_score(trace_id, result)).encode() for trace_id, result in results.items())
    asyncio.run(_send(url, "", (RequestSpec("POST", "/api/public/scores", {}, headers, each) for each in scores)))


async def _send(url: str, api_key: str, requests: Iterable[RequestSpec]) -> None:
    connection = Connection(url, api_key=api_key, timeout=_TIMEOUT_SECONDS, retries=Retries())
    try:
        for each in requests:
            await connection.answer(each)
    finally:
        await connection.close()
