"""Bodies decoded by msgspec, and its types in the OpenAPI document: for messages too large for FastAPI's own way."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI, Request

from app.errors import InvalidInput, MalformedBody, UnsupportedBody

T = TypeVar("T")

_JSON = re.compile(r"application/(?:[a-z0-9.+_-]+\+)?json", re.IGNORECASE)
_REFERENCE = "#/components/schemas/{name}"
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


def check_json(request: Request) -> None:
    """Refuses a body that is not sent as JSON; this keeps out forms of other origins too.

    Raises:
        UnsupportedBody: the Content-Type is another one.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if not _JSON.fullmatch(media_type):
        raise UnsupportedBody("the Content-Type must be application/json")


def decode(body: bytes, message: type[T]) -> T:
    """The message in a JSON body, every field checked.

    Raises:
        MalformedBody: not JSON in UTF-8.
        InvalidInput: JSON of another form; the place is a path such as `/runs/0/results`.
    """
    if not body.strip():
        raise MalformedBody("the body is empty; send a JSON object")
    try:
        return msgspec.json.decode(body, type=message)
    except msgspec.ValidationError as error:
        said = str(error)
        found = _PLACE.search(said)
        raise InvalidInput(_PLACE.sub("", said), place=_pointer(found.group(1)) if found else "") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(
            f"the body is not JSON: {error}"
            if isinstance(error, msgspec.DecodeError)
            else "the body cannot be read as JSON"
        ) from None


def document(app: FastAPI, messages: Sequence[type[Any]]) -> None:
    """Adds the schemas of the messages to the OpenAPI document of the app."""
    plain_openapi = app.openapi
    _, components = msgspec.json.schema_components(messages, ref_template=_REFERENCE)

    def openapi() -> dict[str, Any]:
        described = plain_openapi()
        described.setdefault("components", {}).setdefault("schemas", {}).update(components)
        return described

    app.openapi = openapi  # type: ignore[method-assign]


def json_content(message: type[Any], examples: dict[str, Any] | None = None) -> dict[str, Any]:
    """The `content` of a request or a response that holds this message."""
    schema = {"schema": {"$ref": _REFERENCE.format(name=message.__name__)}}
    return {"application/json": {**schema, **({"examples": examples} if examples else {})}}


def _pointer(path: str) -> str:
    """`.runs[0].results[...]` as `/runs/0/results/...`."""
    return re.sub(r"\[([^\]]*)\]", r"/\1", path).replace(".", "/").replace("////", "/...").replace("///", "/...")
