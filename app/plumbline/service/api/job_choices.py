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
from plumbline.service.api.field_problems import field_problems, printable
from plumbline.service.api.json_body import check_values, read_json
from plumbline.service.api.problems import validation_detail

M = TypeVar("M", bound=BaseModel)
# Where choices stand: fields of the JSON body, a part of a form, a parameter of the query.
Place = Literal["body", "part", "query"]

MAX_CHOICES_BYTES: Final = 100_000
# Of a sound row there are two.
_MAX_CONTAINERS: Final = 400_000
_PATH: Final[Mapping[Place, tuple[str, ...]]] = {"body": (), "part": ("choices",), "query": ()}


class ChoicesRefused(Exception):
    """Fields of the choices are wrong; `problems` names them, `str()` says how many there are."""

    def __init__(self, detail: str, problems: list[FieldProblem]) -> None:
        super().__init__(detail)
        self.problems = problems


class ChoicesReader:
    """Reads choices for the rows of one service.

    Args:
        judge_names: those that options may name.
    """

    def __init__(self, judge_names: Collection[str]) -> None:
        self._judge_names = judge_names

    def request(self, body: bytes) -> JobChoices:
        """Return the choices of a JSON body; its rows are not validated.

        Raises:
            MalformedBody: as `read_json`.
            ChoicesRefused: no object, a field that is unknown or wrong, no rows.
            InvalidInput: options name a judge that there is not.
        """
        value = read_json(body, max_containers=_MAX_CONTAINERS)
        has_rows = type(value) is dict and isinstance(value.get("rows"), list)
        request = _validated(JobRequest, value, "body", checked={**value, "rows": None} if has_rows else value)
        return self._known(JobChoices(**{name: getattr(request, name) for name in JobChoices.model_fields}), "body")

    def choices(self, text: bytes, place: Place) -> JobChoices:
        """Return the choices of a form or a query; the default if there are none.

        Raises:
            InvalidInput: no JSON, too long, or options name a judge that there is not.
            ChoicesRefused: no object, a field that is unknown or wrong.
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
        return self._known(choices, place)

    def _known(self, choices: JobChoices, place: Place) -> JobChoices:
        """Return the choices if the columns and judges that they name exist."""
        columns = choices.columns
        if columns is not None and columns not in PRESETS:
            close = get_close_matches(columns, PRESETS, n=1)
            meant = f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(PRESETS)}"
            flaw = f"unknown form of rows '{printable(columns)}'{meant}"
            raise _refused([{"type": "columns", "loc": ("columns",), "msg": flaw}], {"columns": columns}, place)
        where = "/".join(("choices" if place == "query" else "", *_PATH[place], "options"))
        check_judge_names(choices.options, self._judge_names, place=where)
        return choices


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
    """Return the refusal, with pointers from where the choices stand."""
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
