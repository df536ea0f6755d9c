"""Bodies decoded by msgspec, and its types in the OpenAPI document: for messages too large for FastAPI's own way."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI

from plumbline.ground.errors import InvalidInput, MalformedBody
from plumbline.service.api.openapi_schemas import add_schemas

T = TypeVar("T")

_REFERENCE = "#/components/schemas/{name}"
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


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
    _, components = msgspec.json.schema_components(messages, ref_template=_REFERENCE)
    add_schemas(app, components)


def json_content(message: type[Any], examples: dict[str, Any] | None = None) -> dict[str, Any]:
    """The `content` of a request or a response that holds this message."""
    schema = {"schema": {"$ref": _REFERENCE.format(name=message.__name__)}}
    return {"application/json": {**schema, **({"examples": examples} if examples else {})}}


def _pointer(path: str) -> str:
    """`.runs[0].results[...]` as `/runs/0/results/...`."""
    return re.sub(r"\[([^\]]*)\]", r"/\1", path).replace(".", "/").replace("////", "/...").replace("///", "/...")
