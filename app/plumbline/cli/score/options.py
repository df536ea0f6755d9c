"""Options of `plumbline score`: checked before anything is read, and read as the values that its parts take."""

import argparse
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ValidationError

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import FIELDS
from plumbline.schemas.evaluation import EvaluationOptions

# As a separator: a cell is one context
_WHOLE_CELL: Final = "none"
# Its best-known columns, in our names.
_RAGAS: Final = ["faithfulness", "answer_relevance", "context_precision", "context_recall", "correctness"]
_SHARD: Final = re.compile("([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` (from 1) of `count` parts of a file: each `count`-th row."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `K/N`. Raises InvalidInput: it is none."""
        found = _SHARD.fullmatch(text)
        if found is not None and 1 <= int(found[1]) <= int(found[2]):
            return cls(int(found[1]), int(found[2]))
        raise InvalidInput(f"--shard {text[:80]!r}: expected K/N with K from 1 to N, for example 2/8")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, row: int) -> bool:
        """Return True if the row of the file, counted from 0, is in this part."""
        return row % self.count == self.number - 1


WHOLE: Final = Shard(1, 1)


def check_options(given: argparse.Namespace) -> None:
    """Raise InvalidInput for options of a run that are wrong, before anything is read; the message names one."""
    if given.output is None and not given.estimate:
        raise InvalidInput("-o: expected a file for the results, or - for standard output")
    if given.output == "-" and str(given.markdown) == "-":
        raise InvalidInput("--markdown: results go to standard output already; name a file")
    if given.estimate and given.url:
        raise InvalidInput("--estimate: counts for the judges of this process's settings; expected no --url")
    check_gate_options(given)


def check_gate_options(given: argparse.Namespace) -> None:
    """Raise InvalidInput if an option of the gates lacks the one that it needs."""
    if given.max_drop is not None and given.baseline is None:
        raise InvalidInput("--max-drop: needs --baseline, the earlier results")


def parse_columns(given: argparse.Namespace) -> tuple[dict[str, str | tuple[str, ...]], dict[str, str | None]]:
    """Return the columns that `--column` names, and the changes of the map found with them; raise InvalidInput."""
    named: dict[str, str | tuple[str, ...]] = {}
    for pair in given.column:
        field, separator, column = pair.partition("=")
        if field not in FIELDS or not separator or not column:
            raise InvalidInput(f"--column {pair[:80]!r}: expected FIELD=COLUMN with a field of {', '.join(FIELDS)}")
        if field in named:
            raise InvalidInput(f"--column {field}: is named twice")
        parts = tuple(part.strip() for part in column.split(","))
        named[field] = parts if field == "contexts" and len(parts) > 1 else column
    if given.context_separator is None:
        return named, {}
    separator = given.context_separator.replace("\\n", "\n").replace("\\t", "\t")
    return named, {"context_separator": None if separator == _WHOLE_CELL else separator}


def parse_row_options(given: argparse.Namespace) -> EvaluationOptions:
    """Return the options of every row; raises as `parse_judging`."""
    chosen: dict[str, Any] = {
        "tiers": _names(given.tiers),
        "threshold": given.threshold,
        "deadline_seconds": given.deadline,
        "judges": _names(given.judges),
        "samples": given.samples,
        "escalation": given.escalation,
        "disputed": given.disputed,
        "cache": "bypass" if given.no_cache else None,
    }
    return parse_judging(given, chosen)


def parse_judging(given: argparse.Namespace, chosen: Mapping[str, Any]) -> EvaluationOptions:
    """Return the chosen options of every row with what `--metrics` and `--criteria` name; raise InvalidInput."""
    chosen = {
        **chosen,
        "metrics": _RAGAS if given.metrics == "ragas" else _names(given.metrics),
        "criteria": given.criteria and _read_criteria(given.criteria),
    }
    try:
        return EvaluationOptions.model_validate({name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        option, *place = [str(each) for each in first["loc"]]
        detail = f"--{option.removesuffix('_seconds')}: {' '.join([*place, first['msg']])}"
        raise InvalidInput(detail) from None


def _read_criteria(path: str) -> list[Any]:
    try:
        read = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"--criteria: {path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--criteria: {path} is not TOML in UTF-8 ({error})") from None
    tables = read.pop("criteria", None)
    if read or not isinstance(tables, list):
        raise InvalidInput(f"--criteria: {path}: expected tables [[criteria]] and nothing else")
    return tables


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
