"""Validation of a job's options, sent as JSON body, form part or query parameter."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from plumbline.ground.errors import InvalidInput, MalformedBody
from plumbline.rows.evaluation_wire import check_judge_names
from plumbline.rows.records.columns import PRESETS
from plumbline.schemas.jobs import JobChoices, JobRequest
from plumbline.schemas.problem import FieldProblem
from plumbline.service.api.json_body import check_values, read_json
from plumbline.service.api.message_body import printable
from plumbline.service.api.problems import field_problems, validation_detail

M = TypeVar("M", bound=BaseModel)
# Source of the choices: the JSON body, a part of a form, a query parameter.
Place = Literal["body", "part", "query"]

MAX_CHOICES_BYTES: Final = 100_000
# A valid row has two.
_MAX_CONTAINERS: Final = 400_000
_PATH: Final[Mapping[Place, tuple[str, ...]]] = {"body": (), "part": ("choices",), "query": ()}


class ChoicesRefused(Exception):
    """Fields of the choices are wrong; `problems` names them, `str()` says how many there are."""

    def __init__(self, detail: str, problems: list[FieldProblem]) -> None:
        super().__init__(detail)
        self.problems = problems


def read_job_request(body: bytes, judge_names: Collection[str]) -> JobChoices:
    """Return the choices of a JSON body; its rows are not validated.

    Raises:
        MalformedBody: as `read_json`.
        ChoicesRefused: no object, an unknown or wrong field, or no rows.
        InvalidInput: options name a judge that is not in `judge_names`.
    """
    value = read_json(body, max_containers=_MAX_CONTAINERS)
    has_rows = type(value) is dict and isinstance(value.get("rows"), list)
    request = _validated(JobRequest, value, "body", checked={**value, "rows": None} if has_rows else value)
    choices = JobChoices(**{name: getattr(request, name) for name in JobChoices.model_fields})
    _check_names(choices, "body", judge_names)
    return choices


def read_choices(text: bytes, place: Place, judge_names: Collection[str]) -> JobChoices:
    """Return the choices of a form or a query; the default if there are none.

    Raises:
        InvalidInput: no JSON, too long, or options name a judge that is not in `judge_names`.
        ChoicesRefused: no object, or an unknown or wrong field.
    """
    if not text:
        return JobChoices()
    if len(text) > MAX_CHOICES_BYTES:
        raise InvalidInput(f"has more than {MAX_CHOICES_BYTES} bytes", place="choices")
    try:
        value = read_json(text)
        choices = _validated(JobChoices, value, place, checked=value)
    except MalformedBody as error:
        raise InvalidInput(str(error).replace("the body", "the text", 1), place="choices") from None
    _check_names(choices, place, judge_names)
    return choices


def _check_names(choices: JobChoices, place: Place, judge_names: Collection[str]) -> None:
    columns = choices.columns
    if columns is not None and columns not in PRESETS:
        close = get_close_matches(columns, PRESETS, n=1)
        meant = f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(PRESETS)}"
        flaw = f"unknown form of rows '{printable(columns)}'{meant}"
        raise _refused([{"type": "columns", "loc": ("columns",), "msg": flaw}], {"columns": columns}, place)
    where = "/".join(("choices" if place == "query" else "", *_PATH[place], "options"))
    check_judge_names(choices.options, judge_names, place=where)


def _validated(model: type[M], value: object, place: Place, *, checked: object) -> M:
    try:
        check_values(checked)
        return model.model_validate(value)
    except RequestValidationError as error:
        errors = [{**each, "loc": each["loc"][1:]} for each in error.errors()]
    except ValidationError as error:
        errors = [dict(each) for each in error.errors(include_url=False, include_context=True)]
    raise _refused(errors, checked, place, model)


def _refused(
    errors: list[dict[str, Any]], value: object, place: Place, annotation: object = JobChoices
) -> ChoicesRefused:
    located = [{**each, "loc": ("body", *each["loc"])} for each in errors]
    error = RequestValidationError(located, body=value)
    problems = [_placed(each, place) for each in field_problems(error, annotation)]
    return ChoicesRefused(validation_detail(error, "request"), problems)


def _placed(problem: FieldProblem, place: Place) -> FieldProblem:
    if place == "query":
        where = f" at {problem.pointer}" if problem.pointer else ""
        return FieldProblem(pointer="", detail=f"query parameter 'choices'{where}: {problem.detail}")
    path = "".join(f"/{part}" for part in _PATH[place])
    return FieldProblem(pointer=path + problem.pointer, detail=problem.detail)
