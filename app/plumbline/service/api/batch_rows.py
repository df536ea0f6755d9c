"""A batch as it was sent: the envelope, which must be sound, and its rows, each of which is read by itself."""

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
from plumbline.service.api.problems import kind_of, validation_detail
from plumbline.service.api.strict_json import body_with, check_values, is_text, read_json

M = TypeVar("M", bound=BaseModel)

# Of a sound row there are two; the rest is room for rows that are not, which are told so one by one.
_CONTAINERS_OF_A_ROW = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One sample as it was sent. `custom_id` is None where none can be repeated; `namesake`: an earlier row's index."""

    index: int
    value: object
    custom_id: str | None
    namesake: int | None


class BatchReader:
    """Reads batches within the limits of one service.

    Args:
        request: the whole request, to suggest names for unknown fields.
        envelope: the request with samples of any form.
        sample: one sample.
        max_samples: those of one batch.
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
        """The batch, its samples not yet looked at.

        Raises:
            MalformedBody: as `read_json`.
            RequestValidationError: no object, an unknown field, wrong options, no sample or too many.
        """
        value = read_json(body, max_containers=self._max_containers)
        has_samples = type(value) is dict and isinstance(value.get("samples"), list)
        check_values({**value, "samples": None} if has_samples else value)
        return _validated(self._envelope, value, place=())

    def rows(self, samples: Sequence[object]) -> Iterator[Row]:
        """The samples as rows; of several with one name the first has it."""
        index_by_id: dict[str, int] = {}
        for index, value in enumerate(samples):
            custom_id = _custom_id(value)
            first = index if custom_id is None else index_by_id.setdefault(custom_id, index)
            yield Row(index, value, custom_id, None if first == index else first)

    def sample(self, row: Row) -> Sample:
        """Return the sample of a row.

        Raises:
            MalformedBody, RequestValidationError: as a single evaluation would be refused; and of several rows with
                one name all but the first.
        """
        place = ("samples", row.index)
        check_values(row.value, place=place)
        sample = _validated(self._sample, row.value, place=place)
        if row.namesake is not None:
            taken = f"is that of sample {row.namesake} too, counted from 0; each may be used once"
            error = {"type": "custom_id_repeated", "loc": ("body", *place, "custom_id"), "msg": taken}
            raise RequestValidationError([error], body=body_with(row.value, place))
        return to_sample(sample)

    def problem(self, row: Row, error: Exception) -> RowProblem:
        """What is said of a row that has no result. An error that nobody declared is logged, by its places alone."""
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
    """The name of a row, if it can be repeated at all."""
    name = value.get("custom_id") if isinstance(value, dict) else None
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_ID_CHARACTERS or not is_text(name):
        return None
    return name
