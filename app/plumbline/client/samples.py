"""Samples and options of callers, checked and encoded as the service takes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.frames import frame_records
from plumbline.rows.records.record import Record, RecordProblem, context_fields
from plumbline.schemas.batch import BatchConversation, BatchSample
from plumbline.schemas.conversation import ConversationRequest, is_conversation
from plumbline.schemas.evaluation import CONTEXT_TAGS, Criterion, EvaluationOptions, EvaluationRequest
from plumbline.schemas.problem import VALIDATION, RowProblem
from plumbline.schemas.result_parts import TierName

AnySample = BatchSample | BatchConversation | Sample | Record | RecordProblem | Mapping[str, Any]
AnyOptions = EvaluationOptions | Mapping[str, Any] | None
S = TypeVar("S", bound=AnySample)
M = TypeVar("M", bound=BaseModel)

_ENCODER: Final = msgspec.json.Encoder()
_MOST_DETAIL_CHARACTERS: Final = 200


class OptionFields(TypedDict, total=False):
    """The fields of `EvaluationOptions` as keyword arguments."""

    tiers: list[TierName] | None
    threshold: float | None
    deadline_seconds: float | None
    judges: list[str] | None
    samples: int
    escalation: str | None
    disputed: Literal["lower", "unsure"]
    cache: Literal["use", "bypass"]
    max_cost: float | None
    metrics: list[str] | None
    criteria: list[Criterion] | None
    citation_base: Literal[0, 1] | None
    offset_unit: Literal["code_point", "utf16"]


@dataclass(frozen=True, slots=True)
class EncodedSample(Generic[S]):
    """A sample with its number, as JSON; `body` is None if it has none, and `problem` says why."""

    index: int
    sample: S
    custom_id: str | None
    body: bytes | None
    problem: RowProblem | None


def open_samples(samples: Any) -> Any:
    """Return the records of a data frame, or the samples as they are; raises as `frame_records`."""
    records = frame_records(samples)
    return samples if records is None else records


def encode_sample(index: int, sample: S) -> EncodedSample[S]:
    """Encode a sample as JSON; the service validates it."""
    try:
        value = sample_fields(sample)
        name = value.get("custom_id") if isinstance(value, Mapping) else None
        custom_id = name if isinstance(name, str) else None
        return EncodedSample(index, sample, custom_id, encode_json(value), None)
    except InvalidInput as error:
        problem = RowProblem(type=VALIDATION.urn, title=VALIDATION.title, status=VALIDATION.status, detail=error.detail)
        custom_id = sample.custom_id if isinstance(sample, RecordProblem) else None
        return EncodedSample(index, sample, custom_id, None, problem)


def sample_fields(sample: object) -> Any:
    """Return the fields of the wire format, anything else unchanged; raise InvalidInput for a row that was not read."""
    if isinstance(sample, RecordProblem):
        raise InvalidInput(sample.fault)
    if isinstance(sample, Record):
        return {"custom_id": sample.custom_id, **_texts(sample.sample)}
    if isinstance(sample, Sample):
        return _texts(sample)
    if isinstance(sample, BaseModel):
        return sample.model_dump(exclude_unset=True)
    return dict(sample) if isinstance(sample, Mapping) else sample


def encode_json(value: object) -> bytes:
    """Encode a value as JSON; raise InvalidInput if a part of it has no JSON, or a text no UTF-8."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        raise InvalidInput("a text holds half a character (a lone surrogate); expected Unicode text") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"it cannot be written as JSON: {str(error)[:_MOST_DETAIL_CHARACTERS]}") from None


def evaluation_request(fields: Mapping[str, Any], options: AnyOptions) -> EvaluationRequest | ConversationRequest:
    """Build the request for one sample; raises as `validate` does."""
    chosen = options.model_dump(exclude_unset=True) if isinstance(options, EvaluationOptions) else options or {}
    given = {**chosen, **fields}
    contexts = given.get("contexts")
    if isinstance(contexts, Iterable) and not isinstance(contexts, str | bytes | Mapping):
        given["contexts"] = list(contexts)
    if is_conversation(given):
        return validate(ConversationRequest, given)
    return validate(EvaluationRequest, given)


def check_options(options: AnyOptions) -> EvaluationOptions:
    """Validate the options of a caller; raises as `validate` does."""
    return options if isinstance(options, EvaluationOptions) else validate(EvaluationOptions, dict(options or {}))


def encode_model(model: BaseModel) -> bytes:
    """Encode the fields that were set as JSON; raise InvalidInput if UTF-8 cannot hold a text."""
    try:
        return model.model_dump_json(exclude_unset=True).encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        raise InvalidInput("a text holds half a character (a lone surrogate); expected Unicode text") from None


def validate(model: type[M], fields: Mapping[str, Any]) -> M:
    """Build a model; raise InvalidInput naming each field that does not validate."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        places = ["".join(f"/{part}" for part in each["loc"] if part not in CONTEXT_TAGS) for each in found]
        detail = "; ".join(f"{place}: {each['msg']}" for place, each in zip(places, found, strict=True))
        raise InvalidInput(detail) from None


def _texts(sample: Sample) -> dict[str, Any]:
    if sample.conversation is not None:
        return dict(sample.conversation)
    texts = {"question": sample.question, "contexts": context_fields(sample), "answer": sample.answer}
    return texts if sample.reference is None else {**texts, "reference": sample.reference}
