"""Replies of an embeddings API for a scripted judge, right or wrong: cosines can be calculated by hand."""

import base64
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from plumbline.ground.settings import Settings
from plumbline.models.chat.resilient_endpoint import RetryPolicy
from plumbline.models.embeddings.remote_encoder import RemoteEncoder, build_remote_encoder, resolve_embedding_service
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, TokenCount, status
from tests.doubles.scripted_transport import PROMPT_RETRIES

KEY = "sk-vectors-key-0001"
MODEL = "vectors-1"
_WORDS = ("lamp", "burns", "red", "keeper", "sleeps", "bridge", "opened", "灯", "桥")
DIMENSIONS = len(_WORDS) + 1
Item = dict[str, Any]


def word_vector(text: str) -> list[float]:
    """A 1 for each known word in the text, not of length 1: the cosine of two texts is their share of common words."""
    return [float(word in text.casefold()) for word in _WORDS] + [0.01]


def embeddings(
    change: Callable[[list[Item]], list[Item]] = lambda items: items,
    *,
    vector: Callable[[str], Sequence[float]] = word_vector,
    tokens: int | None = 5,
) -> Callable[[RecordedRequest], Reply]:
    """Answer with a vector for each text of the request, in the encoding that it asks for.

    Args:
        change: of the items, to spoil them.
        vector: of a text.
        tokens: that `usage` counts for a text; None leaves the field out.
    """

    def reply(request: RecordedRequest) -> Reply:
        texts = request.json["input"]
        encoded = _base64 if request.json.get("encoding_format") == "base64" else list
        items = [
            {"object": "embedding", "index": index, "embedding": encoded(vector(text))}
            for index, text in enumerate(texts)
        ]
        payload: dict[str, Any] = {"object": "list", "data": change(items), "model": request.json["model"]}
        if tokens is not None:
            payload["usage"] = {"prompt_tokens": tokens * len(texts), "total_tokens": tokens * len(texts)}
        # NaN as some servers write it, which is no JSON.
        body = json.dumps(payload).encode()
        return replace(status(HTTPStatus.OK, {}), body=body, tokens=TokenCount((tokens or 0) * len(texts), 0))

    return reply


def remote_settings(server: ScriptedJudge, **knobs: Any) -> Settings:
    """Settings of a service whose vectors the server makes."""
    given = {"embedding_base_url": server.base_url, "embedding_model": MODEL, "embedding_api_key": KEY}
    return Settings(**{**given, **knobs})


def remote_encoder(
    server: ScriptedJudge, policy: RetryPolicy = PROMPT_RETRIES, *, timeout_seconds: float = 10.0, **knobs: Any
) -> RemoteEncoder:
    """The encoder that asks the server; retries do not wait."""
    settings = remote_settings(server, **knobs)
    service = resolve_embedding_service(settings)
    assert service is not None
    return build_remote_encoder(service, settings, policy, timeout_seconds=timeout_seconds)


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
