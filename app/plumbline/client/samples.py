"""Samples as callers have them, and as they are sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.record import Record
from plumbline.schemas.batch import BatchSample
from plumbline.schemas.evaluation import EvaluationOptions, EvaluationRequest
from plumbline.schemas.problem import VALIDATION, RowProblem

AnySample = BatchSample | Sample | Record | Mapping[str, Any]
AnyOptions = EvaluationOptions | Mapping[str, Any] | None
S = TypeVar("S", bound=AnySample)
M = TypeVar("M", bound=BaseModel)

_ENCODER: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Sent(Generic[S]):
    """A sample under its number, as it is sent; `body` is None where it cannot be, and `problem` says why."""

    index: int
    sample: S
    custom_id: str | None
    body: bytes | None
    problem: RowProblem | None


def to_send(index: int, sample: S) -> Sent[S]:
    """The sample as JSON. Whether it is a good one is the service's to say."""
    value = sample_value(sample)
    name = value.get("custom_id") if isinstance(value, Mapping) else None
    custom_id = name if isinstance(name, str) else None
    try:
        return Sent(index, sample, custom_id, json_bytes(value), None)
    except InvalidInput as error:
        problem = RowProblem(type=VALIDATION.urn, title=VALIDATION.title, status=VALIDATION.status, detail=error.detail)
        return Sent(index, sample, None, None, problem)


def sample_value(sample: object) -> Any:
    """The sample as a mapping of the wire's fields; what is no sample stays what it is."""
    if isinstance(sample, Record):
        return {"custom_id": sample.custom_id, **_texts(sample.sample)}
    if isinstance(sample, Sample):
        return _texts(sample)
    if isinstance(sample, BaseModel):
        return sample.model_dump(exclude_unset=True)
    return dict(sample) if isinstance(sample, Mapping) else sample


def json_bytes(value: object) -> bytes:
    """JSON in UTF-8.

    Raises:
        InvalidInput: a part of the value has no JSON, or a text no UTF-8.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        raise InvalidInput("a text holds half a character (a lone surrogate); expected Unicode text") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"it cannot be written as JSON: {_shortened(str(error))}") from None


def evaluation_request(fields: Mapping[str, Any], options: AnyOptions) -> EvaluationRequest:
    """One sample with its options.

    Raises:
        InvalidInput: naming each field that does not validate.
    """
    given = {**_set_options(options), **fields}
    contexts = given.get("contexts")
    if isinstance(contexts, Iterable) and not isinstance(contexts, str | bytes | Mapping):
        given["contexts"] = list(contexts)
    return validated(EvaluationRequest, given)


def checked_options(options: AnyOptions) -> EvaluationOptions:
    """The options of a caller.

    Raises:
        InvalidInput: naming each field that does not validate.
    """
    return options if isinstance(options, EvaluationOptions) else validated(EvaluationOptions, dict(options or {}))


def body_of(model: BaseModel) -> bytes:
    """The fields that were set, as JSON.

    Raises:
        InvalidInput: a text that UTF-8 cannot hold.
    """
    try:
        return model.model_dump_json(exclude_unset=True).encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        raise InvalidInput("a text holds half a character (a lone surrogate); expected Unicode text") from None


def validated(model: type[M], fields: Mapping[str, Any]) -> M:
    """The fields as the model.

    Raises:
        InvalidInput: naming each field that does not validate.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        places = ["".join(f"/{part}" for part in each["loc"]) for each in found]
        detail = "; ".join(f"{place}: {each['msg']}" for place, each in zip(places, found, strict=True))
        raise InvalidInput(detail) from None


def _set_options(options: AnyOptions) -> dict[str, Any]:
    return options.model_dump(exclude_unset=True) if isinstance(options, EvaluationOptions) else dict(options or {})


def _texts(sample: Sample) -> dict[str, Any]:
    texts = {"question": sample.question, "contexts": sample.contexts, "answer": sample.answer}
    return texts if sample.reference is None else {**texts, "reference": sample.reference}


def _shortened(text: str, *, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
