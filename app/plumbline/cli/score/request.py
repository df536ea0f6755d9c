"""Request of one `plumbline score`: argparse's namespace, read and checked once, as frozen values."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import ValidationError

from plumbline.extras.cluster.task import BlockFormat, ClusterTask
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.schemas.evaluation import EvaluationOptions

COLUMN_FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")
# Options of a run on one machine that a cluster does not have.
_ONE_MACHINE: Final = (
    "url", "limit", "restart", "estimate", "max_cost", "concurrency", "context_separator",
    "fail_under", "max_degraded", "baseline", "max_drop", "junit", "markdown",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InputRequest:
    """Input of a run; `-` is standard input.

    Args:
        columns: a preset's name, a whole map, or None to find the columns.
        changes: fields of the map that is found, to replace by these.
    """

    path: str
    form: str | None
    columns: ColumnMap | str | None
    changes: Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class GateRequest:
    """Gates of a run and the reports on them; None if not given."""

    fail_under: Sequence[str]
    max_degraded: float | None
    baseline: Path | None
    max_drop: float | None
    junit: Path | None
    markdown: Path | None
    quiet: bool

    @property
    def is_empty(self) -> bool:
        """Return True if nothing is to be judged or reported."""
        wanted = (self.max_degraded, self.baseline, self.junit, self.markdown)
        return not self.fail_under and all(each is None for each in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """Request of a run on one machine.

    Args:
        output: file of the results; `-` is standard output; None with `estimate`.
        options: of every row.
        url: service that scores; None: this process does.
        concurrency: rows in flight; None: what suits the tiers.
        max_cost: bound of the whole run.
        limit: number of rows to score, from the first one.
    """

    input: InputRequest
    output: str | None
    out_form: str | None
    options: EvaluationOptions
    gates: GateRequest
    url: str | None
    concurrency: int | None
    max_cost: float | None
    limit: int | None
    restart: bool
    estimate: bool
    quiet: bool

    @property
    def is_resumable(self) -> bool:
        """Return True if the same command continues an interrupted run."""
        return "-" not in (self.output, self.input.path)


def parse_request(given: argparse.Namespace) -> ScoreRequest:
    """Return the request of a run on one machine.

    Raises:
        InvalidInput: an option is wrong; the message names it.
    """
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
    if given.max_drop is not None and given.baseline is None:
        raise InvalidInput("--max-drop: needs --baseline, the earlier results")
    named = _named_columns(given.column)
    whole = _whole_map(given, named)
    changes = {} if whole is not None else named
    if given.context_separator is not None:
        changes = {**changes, "context_separator": given.context_separator.replace("\\n", "\n").replace("\\t", "\t")}
    return ScoreRequest(
        input=InputRequest(given.data[0], given.format, whole or given.columns, changes),
        output=given.output,
        out_form=given.out_format,
        options=_evaluation_options(given),
        gates=GateRequest(
            given.fail_under,
            given.max_degraded,
            given.baseline,
            given.max_drop,
            given.junit,
            given.markdown,
            given.quiet,
        ),
        url=given.url,
        concurrency=given.concurrency,
        max_cost=given.max_cost,
        limit=given.limit,
        restart=given.restart,
        estimate=given.estimate,
        quiet=given.quiet,
    )


def parse_cluster_task(given: argparse.Namespace) -> ClusterTask:
    """Return the task of a run on a cluster.

    Raises:
        InvalidInput: an option is wrong, or is one of a run on one machine; the message names it.
    """
    alone = [name for name in _ONE_MACHINE if getattr(given, name) not in (None, [], False)]
    if alone:
        raise InvalidInput(f"--{alone[0].replace('_', '-')}: not with --engine; see `plumbline report` for its results")
    if given.output in (None, "-"):
        raise InvalidInput("-o: expected a folder for the results")
    form: BlockFormat = given.out_format or "jsonl"
    if form not in get_args(BlockFormat):
        raise InvalidInput(f"--out-format {form}: expected {' or '.join(get_args(BlockFormat))} with --engine")
    whole = _whole_map(given, _named_columns(given.column))
    if given.column and whole is None:
        raise InvalidInput("--column: with --engine name answer and contexts too, or neither")
    return ClusterTask(
        paths=tuple(given.data),
        out_dir=given.output,
        options=_evaluation_options(given),
        format=given.format,
        columns=whole or given.columns,
        block_format=form,
        block_rows=given.block_rows,
        address=given.address,
        workers=given.workers,
    )


def _evaluation_options(given: argparse.Namespace) -> EvaluationOptions:
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


def _named_columns(pairs: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    named: dict[str, str | tuple[str, ...]] = {}
    for pair in pairs:
        field, separator, column = pair.partition("=")
        if field not in COLUMN_FIELDS or not separator or not column:
            raise InvalidInput(
                f"--column {pair[:80]!r}: expected FIELD=COLUMN with a field of {', '.join(COLUMN_FIELDS)}"
            )
        if field in named:
            raise InvalidInput(f"--column {field}: is named twice")
        parts = tuple(part.strip() for part in column.split(","))
        named[field] = parts if field == "contexts" and len(parts) > 1 else column
    return named


def _whole_map(given: argparse.Namespace, named: Mapping[str, str | tuple[str, ...]]) -> ColumnMap | None:
    """Return a whole map if the options name contexts and answer."""
    if not {"answer", "contexts"} <= named.keys():
        return None
    if given.columns is not None:
        raise InvalidInput("--columns: --column names contexts and answer already; expected one of the two")
    return ColumnMap(**named)  # type: ignore[arg-type]
