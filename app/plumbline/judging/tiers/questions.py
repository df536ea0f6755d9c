"""Requests to a judge: the sample as numbered data between marks, instructions, and the schema of the reply."""

import hmac
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from plumbline.judging.ports.exchange import ChatRequest
from plumbline.judging.text.obfuscation import remove_hidden
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.tiers.context_windows import Window
from plumbline.judging.tiers.prompts import Prompt

# From the data between the marks to a mark that no text in there can know.
Mark = Callable[[str], str]

_MARKER_BYTES = 8
# Sentences before the first that is judged, for the pronouns in it.
_LEAD_SENTENCES = 2


def random_mark(_: str) -> str:
    return secrets.token_hex(_MARKER_BYTES)


def keyed_mark(secret: bytes) -> Mark:
    """Return a function that marks the same data alike, for repeatable requests; unpredictable without the secret."""

    def mark(data: str) -> str:
        return hmac.digest(secret, data.encode("utf-8", "surrogatepass"), "sha256")[:_MARKER_BYTES].hex()

    return mark


def sentences_question(
    prompt: Prompt,
    sample: SegmentedSample,
    *,
    window: Window,
    batch: Mapping[int, int],
    max_output_tokens: int,
    mark: Mark = random_mark,
) -> ChatRequest:
    """Build a request for the claims of sentences and the verdicts on them; `batch` has their numbers by position."""
    first, last = min(batch), max(batch)
    answer: list[Mapping[str, object]] = []
    for position in range(max(0, first - _LEAD_SENTENCES), last + 1):
        sentence = sample.sentences[position]
        if position in batch:
            answer.append({"id": batch[position], "text": remove_hidden(sentence.text)})
        elif sentence.kind != "markup":
            answer.append({"text": remove_hidden(sentence.text)})
    data = {**_surroundings(sample, window), "answer": answer}
    return _question(prompt, data, "verify_claims", VERIFY_SCHEMA, max_output_tokens, verdicts=len(batch), mark=mark)


def claims_question(
    prompt: Prompt,
    sample: SegmentedSample,
    *,
    window: Window,
    claims: Sequence[Claim],
    max_output_tokens: int,
    temperature: float | None = None,
    mark: Mark = random_mark,
) -> ChatRequest:
    listed = [{"id": claim.id, "text": remove_hidden(claim.text)} for claim in claims]
    data = {**_surroundings(sample, window), "claims": listed}
    return _question(
        prompt,
        data,
        "check_claims",
        CHECK_SCHEMA,
        max_output_tokens,
        verdicts=len(claims),
        mark=mark,
        temperature=temperature,
    )


def _surroundings(sample: SegmentedSample, window: Window) -> dict[str, object]:
    # Contexts first, as providers cache the common beginning of requests.
    contexts = [{"id": piece.number, "text": remove_hidden(piece.text)} for piece in window]
    return {"contexts": contexts, "question": remove_hidden(sample.source.question)}


def _question(
    prompt: Prompt,
    data: Mapping[str, object],
    schema_name: str,
    schema: Mapping[str, object],
    max_output_tokens: int,
    *,
    verdicts: int,
    mark: Mark,
    temperature: float | None = None,
) -> ChatRequest:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return ChatRequest(
        system=prompt.system,
        user=prompt.render_user(marker=mark(text), data=text),
        schema_name=schema_name,
        schema=schema,
        max_output_tokens=max_output_tokens,
        verdicts=verdicts,
        temperature=temperature,
    )


_STRING: Final = {"type": "string"}
_VERDICT_MEMBERS: Final[Mapping[str, Any]] = {
    "context_ids": {"type": "array", "items": {"type": "integer"}},
    "quotes": {"type": "array", "items": _STRING},
    "derived": {"type": "boolean"},
    "reason": _STRING,
    "verdict": {"type": "string", "enum": [verdict.value for verdict in Verdict]},
}


def _object_schema(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these members, all required, in this order."""
    return {"type": "object", "properties": dict(members), "required": list(members), "additionalProperties": False}


def _list_schema(name: str, **members: Any) -> dict[str, Any]:
    return _object_schema({name: {"type": "array", "items": _object_schema(members)}})


_CLAIMS: Final = _list_schema("claims", claim=_STRING, **_VERDICT_MEMBERS)["properties"]["claims"]
VERIFY_SCHEMA: Final[Mapping[str, object]] = _list_schema("sentences", id={"type": "integer"}, claims=_CLAIMS)
CHECK_SCHEMA: Final[Mapping[str, object]] = _list_schema("claims", id=_STRING, **_VERDICT_MEMBERS)
