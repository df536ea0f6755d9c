"""From validation errors to field problems that name the field and the limit and never repeat what was sent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core.core_schema import ErrorType

from plumbline.schemas.problem import FieldProblem

MAX_FIELD_PROBLEMS = 20
MAX_NAME_CHARACTERS = 64
_MAX_POINTER_CHARACTERS = 160  # 20 problems of this size and the rest of a problem stay far below 16 kB
_MAX_DETAIL_CHARACTERS = 240

_PYDANTIC_TYPES = frozenset(get_args(ErrorType))
# What pydantic's own messages may be made of: words of the schema and lengths. Its `error` and `tag` quote the input.
_SCHEMA_WORDS = frozenset(
    {
        "actual_length", "class", "class_name", "decimal_places", "discriminator", "encoding", "expected",
        "expected_schemes", "expected_tags", "expected_version", "field_type", "ge", "gt", "le", "lt", "max_digits",
        "max_length", "min_length", "multiple_of", "pattern", "whole_digits",
    }
)  # fmt: skip

Path = Sequence[str | int]


def field_problems(error: RequestValidationError, body_annotation: object) -> list[FieldProblem]:
    """Return the first problems of a validation error, at most 20, each once.

    Args:
        error: as FastAPI raises it; its `body` tells places in the body from the tags pydantic puts into a location.
        body_annotation: the type of the body, to suggest names for unknown fields; None when there is no body.

    The text of a `ValueError` raised in a validator is not shown, it may quote the value:
    raise `PydanticCustomError` with a text that does not.
    """
    problems: dict[FieldProblem, None] = {}
    for item in error.errors()[:MAX_FIELD_PROBLEMS]:
        problems[_field_problem(item, error.body, body_annotation)] = None
    return list(problems)


def printable(name: object) -> str:
    """Return a caller's name in printable ASCII and at most 64 characters."""
    text = ascii(str(name)[: MAX_NAME_CHARACTERS + 1])[1:-1]
    return text if len(text) <= MAX_NAME_CHARACTERS else text[: MAX_NAME_CHARACTERS - 3] + "..."


def json_pointer(path: Path) -> str:
    """Return the RFC 6901 pointer of a path, its names made printable; cut at 160 characters."""
    pointer = "".join("/" + printable(part).replace("~", "~0").replace("/", "~1") for part in path)
    return _cut(pointer, _MAX_POINTER_CHARACTERS)


def _field_problem(item: Mapping[str, Any], body: object, body_annotation: object) -> FieldProblem:
    place, *rest = item["loc"] or ("body",)
    if place != "body":
        detail = f"{place} parameter '{printable(rest[0] if rest else '')}': {_message(item)}"
        return FieldProblem(pointer="", detail=_cut(detail, _MAX_DETAIL_CHARACTERS))
    path = list(_path_in_body(rest, body, is_missing=item["type"] == "missing"))
    is_unknown = item["type"] == "extra_forbidden" and path
    detail = _unknown_field(path, body_annotation) if is_unknown else _message(item)
    return FieldProblem(pointer=json_pointer(path), detail=_cut(detail, _MAX_DETAIL_CHARACTERS))


def _path_in_body(location: Path, body: object, *, is_missing: bool) -> Iterator[str | int]:
    here = body
    for index, part in enumerate(location):
        is_key = isinstance(here, dict) and part in here
        is_index = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if is_key or is_index:
            here = cast(Any, here)[part]
            yield part
        elif is_missing and index == len(location) - 1:
            yield part
        # anything else is the tag of a union or the name of a validator


def _message(item: Mapping[str, Any]) -> str:
    kind = item["type"]
    if kind in _PYDANTIC_TYPES and not _SCHEMA_WORDS.issuperset(item.get("ctx", ())):
        return f"is not valid ({kind})"
    return str(item["msg"])


def _unknown_field(path: Path, body_annotation: object) -> str:
    name = printable(path[-1])
    close = get_close_matches(name, _known_names(body_annotation, path[:-1]), n=1)
    return f"unknown field '{name}'" + (f"; did you mean '{close[0]}'?" if close else "")


def _known_names(annotation: object, path: Path) -> set[str]:
    choices = list(_choices(annotation))
    for part in path:
        choices = [inner for choice in choices for inner in _choices(_inner(choice, part))]
    models = [choice for choice in choices if _is_model(choice)]
    return {field.alias or name for model in models for name, field in model.model_fields.items()}


def _choices(annotation: Any) -> Iterable[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _choices(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [choice for argument in get_args(annotation) for choice in _choices(argument)]
    return [annotation]


def _inner(annotation: Any, part: str | int) -> Any:
    if _is_model(annotation):
        fields = annotation.model_fields.items()
        return next((field.annotation for name, field in fields if part in (name, field.alias)), None)
    arguments = get_args(annotation)
    return arguments[-1 if isinstance(part, str) else 0] if arguments else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
