"""Validation of batches: the envelope as a whole, then each sample by itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from plumbline.ground.errors import PlumblineError
from plumbline.ground.telemetry import log_failure
from plumbline.judging.text.sample import Sample
from plumbline.rows.evaluation_wire import to_sample
from plumbline.rows.scored_row import row_problem
from plumbline.schemas.batch import BatchRequest, BatchSample
from plumbline.schemas.evaluation import MAX_ID_CHARACTERS
from plumbline.schemas.problem import FAILURE_DETAIL, INTERNAL, VALIDATION, RowProblem
from plumbline.service.api.field_problems import field_problems
from plumbline.service.api.json_body import body_with, check_values, is_text, read_json
from plumbline.service.api.problems import kind_of, validation_detail

M = TypeVar("M", bound=BaseModel)

# A valid sample has two; the rest is room for invalid ones, each of which gets an error of its own.
_CONTAINERS_OF_A_ROW = 100


@dataclass(frozen=True, slots=True)
class SentSample:
    """One sample as it was sent.

    Args:
        custom_id: None if there is none that could be repeated in the answer.
        duplicate_of: index of an earlier sample with the same id.
    """

    index: int
    value: object
    custom_id: str | None
    duplicate_of: int | None


class BatchReader:
    """Validates batches within the limits of one service.

    Args:
        request: model of the whole request, to suggest names for unknown fields.
        envelope: model of the request with samples of any form.
        sample: model of one sample.
        max_samples: limit of one batch.
    """

    def __init__(
        self,
        request: type[BatchRequest],
        envelope: type[BatchRequest],
        sample: type[BatchSample],
        *,
        max_samples: int,
    ) -> None:
        self._request = request
        self._envelope = envelope
        self._sample = sample
        self._max_containers = _CONTAINERS_OF_A_ROW * max_samples

    def envelope(self, body: bytes) -> BatchRequest:
        """Return the batch, its samples not yet validated.

        Raises:
            MalformedBody: as `read_json`.
            RequestValidationError: no object, an unknown field, wrong options, no sample or too many.
        """
        value = read_json(body, max_containers=self._max_containers)
        has_samples = type(value) is dict and isinstance(value.get("samples"), list)
        check_values({**value, "samples": None} if has_samples else value)
        return _validated(self._envelope, value, place=())

    def rows(self, samples: Sequence[object]) -> Iterator[SentSample]:
        """Yield the samples with their ids; of several with the same id the first keeps it."""
        index_by_id: dict[str, int] = {}
        for index, value in enumerate(samples):
            custom_id = _custom_id(value)
            first = index if custom_id is None else index_by_id.setdefault(custom_id, index)
            yield SentSample(index, value, custom_id, None if first == index else first)

    def sample(self, row: SentSample) -> Sample:
        """Return the sample of a row.

        Raises:
            MalformedBody, RequestValidationError: as a single evaluation, and for a repeated `custom_id`.
        """
        place = ("samples", row.index)
        check_values(row.value, place=place)
        sample = _validated(self._sample, row.value, place=place)
        if row.duplicate_of is not None:
            taken = f"is that of sample {row.duplicate_of} too, counted from 0; each may be used once"
            error = {"type": "custom_id_repeated", "loc": ("body", *place, "custom_id"), "msg": taken}
            raise RequestValidationError([error], body=body_with(row.value, place))
        return to_sample(sample)

    def problem(self, row: SentSample, error: Exception) -> RowProblem:
        """Return the problem of a row that has no result. An unexpected error is logged, without its message."""
        if isinstance(error, RequestValidationError):
            detail = validation_detail(error, "sample")
            return row_problem(VALIDATION, detail).model_copy(update={"errors": field_problems(error, self._request)})
        kind = kind_of(type(error)) if isinstance(error, PlumblineError) else INTERNAL
        if kind.status < INTERNAL.status:
            return row_problem(kind, str(error))
        log_failure(error, "row_failed", row=row.index)
        return row_problem(INTERNAL, FAILURE_DETAIL)


def _validated(model: type[M], value: object, *, place: tuple[str | int, ...]) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *place, *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(errors, body=body_with(value, place)) from None


def _custom_id(value: object) -> str | None:
    name = value.get("custom_id") if isinstance(value, dict) else None
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_ID_CHARACTERS or not is_text(name):
        return None
    return name
