"""Readers of JSON bodies: strict values for pydantic, and msgspec messages."""

import json
import math
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from plumbline.ground.errors import InvalidInput, MalformedBody, UnsupportedBody
from plumbline.ground.texts import CodedText
from plumbline.schemas.problem import MOST_FIELD_PROBLEMS
from plumbline.service.api.problems import printable

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

MAX_DEPTH = 32
MAX_DIGITS = 64
MAX_KEYS = 64
MAX_VALUES = 30_000  # 150 samples of 200 contexts; FastAPI spends up to 10 microseconds on each that is wrong

_JSON_MEDIA_TYPE = re.compile(r"application/(?:[a-z0-9!#$&^_.-]+\+)?json", re.IGNORECASE)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";]*)", re.IGNORECASE)
_UNTEXT = re.compile("[\0\ud800-\udfff]")
# Possessive, and the end quote optional, so that it runs in linear time.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

_PATH_PART: Final = re.compile(r"\.([^.\[]++)|\[([^\[\]]*+)\]")
_PLACE: Final = re.compile(r" - at `(?:key in )?\$(.*)`$")
_MOST_SHOWN: Final = 80

_Path = tuple[str | int, ...]


_NO_OBJECT: Final = {
    "type": "model_attributes_type",
    "loc": ("body",),
    "msg": CodedText("model_attributes_type"),
}


class StrictRoute(APIRoute):
    """A route that reads its body by `parse_strictly`, JSON in UTF-8 alone; `APIRouter(route_class=StrictRoute)`.

    That also refuses forms of other origins (CSRF). An empty body is refused even when the parameter has a default.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            # Before FastAPI does: it would answer 400 without a reason, and old versions take null for no body
            if self.body_field is not None:
                body = await request.body()
                if body:
                    check_media_type(request.headers.getlist("content-type"))
                # What Starlette's `json()` returns from then on.
                request._json = parse_strictly(body)
                if request._json is None:
                    raise RequestValidationError([_NO_OBJECT], body=None)
            return await handle(request)

        return handle_strictly


def parse_strictly(body: bytes) -> Any:
    """Parse a JSON body.

    Raises:
        MalformedBody: empty, not UTF-8, not JSON, nested deeper than 32, or with more than 30,000 lists and objects.
        RequestValidationError: it names up to 20 places with more than 64 keys, a number that is not
            finite or a string that is not text (NUL, lone surrogate), or the place at which it passes 30,000 values.
    """
    value = read_json(body)
    check_values(value)
    return value


def read_json(body: bytes, *, max_containers: int = MAX_VALUES) -> Any:
    """Parse a JSON body, whose parts must still pass `check_values`; raise MalformedBody."""
    if not body.strip():
        raise MalformedBody(CodedText("body_empty"))
    try:
        text = body.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise MalformedBody(CodedText("json_not_utf8", number=error.start)) from None
    _check_containers(text, max_containers)
    try:
        return json.loads(
            text,
            # A longer one is finite as a number of less precision, or refused as infinite.
            parse_int=lambda digits: int(digits) if len(digits) <= MAX_DIGITS else float(digits),
        )
    except json.JSONDecodeError as error:
        reason = f"{error.msg.rstrip(': ')} at line {error.lineno} column {error.colno}"
        raise MalformedBody(CodedText("not_json", flaw=reason)) from None
    except RecursionError:
        raise _too_deep() from None


def read_envelope(body: bytes, model: type[M], rows: str, *, max_containers: int) -> M:
    """Return a JSON body whose field `rows` holds values that are not checked yet; raise as `parse_strictly`."""
    value = read_json(body, max_containers=max_containers)
    has_rows = type(value) is dict and isinstance(value.get(rows), list)
    check_values({**value, rows: None} if has_rows else value)
    return build_model(model, value)


def check_values(value: object, *, at: Sequence[str | int] = ("body",)) -> None:
    """Check a value of `read_json`, at this place of the request; raise as `parse_strictly`."""
    flaws = list(islice(_flaws(value), MOST_FIELD_PROBLEMS))
    if flaws:
        raise invalid_at(at, value, [{"type": "strict_json", "loc": path, "msg": flaw} for path, flaw in flaws])


def build_model(model: type[M], value: object, *, at: Sequence[str | int] = ("body",)) -> M:
    """Build a model from a value of `read_json`; RequestValidationError names its fields at this place."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid_at(at, value, error.errors(include_url=False)) from None


def invalid_at(at: Sequence[str | int], value: object, errors: Sequence[Any]) -> RequestValidationError:
    """Return the error of a value at this place of the request, of which the rest is left out."""
    body = value
    for part in reversed(at[1:]):
        body = {part: body}
    return RequestValidationError([{**each, "loc": (*at, *each["loc"])} for each in errors], body=body)


def is_text(value: str) -> bool:
    return _UNTEXT.search(value) is None


def check_media_type(content_types: list[str]) -> None:
    """Raise UnsupportedBody unless there is one Content-Type, JSON in UTF-8; this also refuses forms (CSRF)."""
    media_type = content_types[0].partition(";")[0].strip() if len(content_types) == 1 else ""
    if not _JSON_MEDIA_TYPE.fullmatch(media_type):
        raise UnsupportedBody(CodedText("json_type_expected"))
    charset = _CHARSET.search(content_types[0])
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise UnsupportedBody(CodedText("utf8_expected"))


def _check_containers(text: str, limit: int) -> None:
    """Raise MalformedBody before millions of containers are made, which would cost the garbage collector a second."""
    if text.count("[") + text.count("{") > limit:
        structure = _STRING.sub("", text)
        if structure.count("[") + structure.count("{") > limit:
            raise MalformedBody(CodedText("json_too_deep_or_many", levels=MAX_DEPTH, limit=limit))


def _flaws(root: object) -> Iterator[tuple[_Path, str]]:
    """Yield the flaws of a value with their paths, in one walk."""
    left = MAX_VALUES
    pending: list[tuple[_Path, object]] = [((), root)]
    while pending:
        path, value = pending.pop()
        flaw = _flaw(value)
        if flaw:
            yield path, flaw
        elif isinstance(value, dict | list):
            if len(path) >= MAX_DEPTH:
                raise _too_deep()
            left -= len(value)
            if left < 0:
                yield path, CodedText("too_many_values", count=len(value), limit=MAX_VALUES)
                return
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            pending.extend(((*path, key), item) for key, item in reversed(items))


def _flaw(value: object) -> str | None:
    if isinstance(value, str):
        return None if is_text(value) else CodedText("not_text")
    if isinstance(value, float):
        return None if math.isfinite(value) else CodedText("number_not_finite")
    if isinstance(value, dict):
        if len(value) > MAX_KEYS:
            return CodedText("too_many_keys", count=len(value), limit=MAX_KEYS)
        return None if all(map(is_text, value)) else CodedText("key_not_text")
    return None


def _too_deep() -> MalformedBody:
    return MalformedBody(CodedText("json_too_deep", levels=MAX_DEPTH))


def decode_message(body: bytes, message: type[T]) -> T:
    """Return the msgspec message in a JSON body; raise MalformedBody, or InvalidInput with a place (`/runs/0`)."""
    if not body.strip():
        raise MalformedBody(CodedText("body_empty"))
    try:
        return msgspec.json.decode(body, type=message)
    except msgspec.ValidationError as error:
        said = str(error)
        found = _PLACE.search(said)
        # `.runs[0].results[...]` becomes `/runs/0/results/...`
        path = [name or index for name, index in _PATH_PART.findall(found[1])] if found else []
        place = "".join(f"/{printable(part)[:_MOST_SHOWN]}" for part in path)
        raise InvalidInput(_PLACE.sub("", said), place=place) from None
    except msgspec.DecodeError as error:
        raise MalformedBody(CodedText("not_json", flaw=str(error))) from None
    except (UnicodeDecodeError, RecursionError):
        raise MalformedBody(CodedText("json_unreadable")) from None
