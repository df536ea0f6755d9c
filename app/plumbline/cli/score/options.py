"""Options of `plumbline score`, checked before anything is read, as the values that its engines take."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from plumbline.extras.cluster.task import BlockFormat, ClusterTask
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.schemas.evaluation import EvaluationOptions

if TYPE_CHECKING:
    from plumbline.cli.score.gates import RunGates

COLUMN_FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")
# Options of a run on one machine that a cluster does not have
_ONE_MACHINE: Final = (
    "url", "limit", "restart", "estimate", "max_cost", "concurrency", "context_separator",
    "fail_under", "max_degraded", "max_abstained", "max_unsupported", "baseline", "max_drop",
    "junit", "junit_rows", "markdown",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """The file to score, `-` for standard input, of which `limit` bounds the rows.

    Args:
        columns: a preset's name, a whole map, or None to find the columns.
        changes: fields of the map that is found, to replace by these.
    """

    name: str
    form: str | None = None
    columns: ColumnMap | str | None = None
    changes: Mapping[str, str | tuple[str, ...]]
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Options of a run on one machine; `url` is that of a service, None to score in this process.

    Args:
        output: the file of results, `-` for standard output; None for an estimate alone.
        judging: of every row.
        gates: None without any.
    """

    input: InputOptions
    output: str | None
    out_format: str | None
    restart: bool
    is_quiet: bool
    judging: EvaluationOptions
    max_cost: float | None
    concurrency: int | None
    url: str | None
    gates: "RunGates | None"


def parse_options(given: argparse.Namespace) -> ScoreOptions | ClusterTask:
    """Return the options of a run on one machine, or the task of a cluster.

    Raises:
        InvalidInput: an option is wrong, or does not go with `--engine`; the message names it.
    """
    return _cluster_task(given) if given.engine is not None else _score_options(given)


def _score_options(given: argparse.Namespace) -> ScoreOptions:
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
    columns, changes = _columns(given)
    return ScoreOptions(
        input=InputOptions(name=given.data[0], form=given.format, columns=columns, changes=changes, limit=given.limit),
        output=None if given.estimate else given.output,
        out_format=given.out_format,
        restart=given.restart,
        is_quiet=given.quiet,
        judging=_judging(given),
        max_cost=given.max_cost,
        concurrency=given.concurrency,
        url=given.url,
        gates=None if given.estimate else _gates(given),
    )


def _cluster_task(given: argparse.Namespace) -> ClusterTask:
    alone = [name for name in _ONE_MACHINE if getattr(given, name) not in (None, [], False)]
    if alone:
        raise InvalidInput(f"--{alone[0].replace('_', '-')}: not with --engine; see `plumbline report` for its results")
    if given.output in (None, "-"):
        raise InvalidInput("-o: expected a folder for the results")
    form: BlockFormat = given.out_format or "jsonl"
    if form not in get_args(BlockFormat):
        raise InvalidInput(f"--out-format {form}: expected {' or '.join(get_args(BlockFormat))} with --engine")
    columns, changes = _columns(given)
    if changes:
        raise InvalidInput("--column: with --engine name answer and contexts too, or neither")
    return ClusterTask(
        paths=tuple(given.data),
        out_dir=given.output,
        options=_judging(given),
        format=given.format,
        columns=columns,
        block_format=form,
        block_rows=given.block_rows,
        address=given.address,
        workers=given.workers,
    )


def _columns(given: argparse.Namespace) -> tuple[ColumnMap | str | None, dict[str, str | tuple[str, ...]]]:
    """Return columns and changes as of `InputOptions`."""
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


def _judging(given: argparse.Namespace) -> EvaluationOptions:
    """Return the options of every row."""
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


def _gates(given: argparse.Namespace) -> "RunGates | None":
    bounds = (given.max_degraded, given.max_abstained, given.max_unsupported)
    if not given.fail_under and all(each is None for each in (*bounds, given.baseline, given.junit, given.markdown)):
        return None
    # A quarter of a second of import, for runs that have gates alone
    from plumbline.cli.score.gates import parse_gates  # noqa: PLC0415

    return parse_gates(given)
