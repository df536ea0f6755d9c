"""Options of `plumbline score`, checked before anything is read, and their parts as plain values."""

import argparse
from typing import Any, Final

from pydantic import ValidationError

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.schemas.evaluation import EvaluationOptions

COLUMN_FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")


def check_options(given: argparse.Namespace) -> None:
    """Check the options of a run on one machine. Raises InvalidInput: an option is wrong; the message names it."""
    if len(given.data) > 1:
        raise InvalidInput(f"{len(given.data)} files: expected one, or --engine ray")
    if given.output is None and not given.estimate:
        raise InvalidInput("-o: expected a file for the results, or - for standard output")
    for name in ("limit", "concurrency"):
        value = getattr(given, name)
        if value is not None and value < 1:
            raise InvalidInput(f"--{name}: expected 1 or more, found {value}")
    if given.max_cost is not None and not given.max_cost > 0:
        raise InvalidInput("--max-cost: expected more than 0")
    if given.output == "-" and str(given.markdown) == "-":
        raise InvalidInput("--markdown: results go to standard output already; name a file")
    if given.estimate and given.url is not None:
        raise InvalidInput("--estimate: counts for the judges of this process's settings; expected no --url")
    if given.junit_rows and given.junit is None:
        raise InvalidInput("--junit-rows: needs --junit, the file they are written to")
    if given.max_drop is not None and given.baseline is None:
        raise InvalidInput("--max-drop: needs --baseline, the earlier results")


def parse_columns(given: argparse.Namespace) -> tuple[ColumnMap | str | None, dict[str, str | tuple[str, ...]]]:
    """Return a preset's name, a whole map, or None to find the columns; and the fields of that map to replace."""
    named: dict[str, str | tuple[str, ...]] = {}
    for pair in given.column:
        field, separator, column = pair.partition("=")
        if field not in COLUMN_FIELDS or not separator or not column:
            raise InvalidInput(
                f"--column {pair[:80]!r}: expected FIELD=COLUMN with a field of {', '.join(COLUMN_FIELDS)}"
            )
        if field in named:
            raise InvalidInput(f"--column {field}: is named twice")
        parts = tuple(part.strip() for part in column.split(","))
        named[field] = parts if field == "contexts" and len(parts) > 1 else column
    is_whole = {"answer", "contexts"} <= named.keys()
    if is_whole and given.columns is not None:
        raise InvalidInput("--columns: --column names contexts and answer already; expected one of the two")
    changes = {} if is_whole else named
    if given.context_separator is not None:
        changes = {**changes, "context_separator": given.context_separator.replace("\\n", "\n").replace("\\t", "\t")}
    return (ColumnMap(**named) if is_whole else given.columns), changes  # type: ignore[arg-type]


def parse_judge_options(given: argparse.Namespace) -> EvaluationOptions:
    """Return the options of every row. Raises InvalidInput: one is wrong; the message names it."""
    chosen: dict[str, Any] = {
        "tiers": _names(given.tiers),
        "threshold": given.threshold,
        "deadline_seconds": given.deadline,
        "judges": _names(given.judges),
        "samples": given.samples,
        "escalation": given.escalation,
        "cache": "bypass" if given.no_cache else None,
    }
    try:
        return EvaluationOptions.model_validate({name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        option = str(first["loc"][0]).removesuffix("_seconds")
        raise InvalidInput(f"--{option}: {first['msg']}") from None


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
