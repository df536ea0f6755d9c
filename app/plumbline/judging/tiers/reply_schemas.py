"""The forms of the two replies as JSON schemas, strict enough for providers that hold a model to one."""

from collections.abc import Mapping
from typing import Any, Final

from plumbline.judging.text.verdicts import Verdict

_STRING: Final = {"type": "string"}
_VERDICT_MEMBERS: Final[Mapping[str, Any]] = {
    "context_ids": {"type": "array", "items": {"type": "integer"}},
    "quotes": {"type": "array", "items": _STRING},
    "derived": {"type": "boolean"},
    "reason": _STRING,
    "verdict": {"type": "string", "enum": [verdict.value for verdict in Verdict]},
}


def _object(members: Mapping[str, Any]) -> dict[str, Any]:
    """An object with these members, all required and in this order, and no other."""
    return {"type": "object", "properties": dict(members), "required": list(members), "additionalProperties": False}


def _list_of(name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return _object({name: {"type": "array", "items": dict(item)}})


VERIFY_SCHEMA: Final[Mapping[str, object]] = _list_of(
    "sentences",
    _object(
        {
            "id": {"type": "integer"},
            "claims": {"type": "array", "items": _object({"claim": _STRING, **_VERDICT_MEMBERS})},
        }
    ),
)
CHECK_SCHEMA: Final[Mapping[str, object]] = _list_of("claims", _object({"id": _STRING, **_VERDICT_MEMBERS}))
