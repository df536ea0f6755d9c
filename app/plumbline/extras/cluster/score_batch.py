"""`score_batch(records) -> records`: a blocking function that Ray, Spark, Dask or a loop of one's own can wrap."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, Self, TypeVar

from plumbline.assembly import build, encoder_of, make_plan
from plumbline.client.loop_thread import LoopThread
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import Settings
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import choose_columns, record_or_problem
from plumbline.rows.records.record import RawRow, ReadPosition, Record, RecordProblem
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions

T = TypeVar("T")

# The flat columns, and the whole result as a line of JSON.
BATCH_COLUMNS: Final = (*RESULT_COLUMNS, "line")
# Tables of pyarrow and frames of pandas are recognized by their attributes: neither is imported.
Batch = Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]] | Any


class BatchScorer:
    """Blocking scorer of batches that stays warm from one batch to the next; make one in each process.

    Each call judges up to `settings.batch_concurrency` rows concurrently. If the embedding tier may be asked and
    `settings.warm_up` is set, the model is loaded before the first row, so that no row is degraded meanwhile.

    Args:
        columns: of the batches handed to `score_batch`; None: found by the names in each batch.

    Raises:
        ConfigurationError, PromptError, CalibrationError: as `make_plan`.
        InvalidInput: the options name an unknown judge.
    """

    def __init__(
        self,
        settings: Settings,
        options: EvaluationOptions | None = None,
        *,
        columns: ColumnMap | str | None = None,
    ) -> None:
        self._columns = columns
        self._at_once = settings.batch_concurrency
        self._stack = AsyncExitStack()
        self._loop = LoopThread()
        try:
            self._scorer = self._loop.run(self._opened(settings, options or EvaluationOptions()))
        except BaseException:
            self.close()
            raise

    def score_batch(self, records: Batch, *, first_row: int = 0) -> list[dict[str, object]]:
        """Return one record for each row, in order, with the columns `BATCH_COLUMNS`.

        Deterministic but for the seconds of attempts inside `line`. A row that cannot be scored has its reason in
        `error` and in `line`. Ids are not compared between rows, since engines choose the batches.

        Args:
            records: a mapping of columns, a list of records, an Arrow table or a pandas frame.
            first_row: number of the batch's first row; the id of a row that has none is its number.

        Raises:
            InvalidInput: it is no batch, or its columns are not those of samples.
        """
        names, found = _columns_and_records(records)
        rows = [
            RawRow(row, None, {name: plain(value) for name, value in fields.items()}, ReadPosition(row + 1))
            for row, fields in enumerate(found, start=first_row)
        ]
        if not rows:
            return []
        columns = choose_columns(names, rows, self._columns).map
        return [flat_record(row) for row in self.score(record_or_problem(raw, columns) for raw in rows)]

    def score(self, rows: Iterable[Record | RecordProblem]) -> list[ScoredRow]:
        return self._loop.run(self._scored(rows))

    def close(self) -> None:
        self._loop.run(self._stack.aclose())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _opened(self, settings: Settings, options: EvaluationOptions) -> RowScorer:
        encoder = encoder_of(settings)
        self._stack.callback(encoder.close)
        plan = make_plan(settings, encoder=encoder)
        service = build(plan, self._stack)
        patient = settings.model_copy(update={"deadline_seconds": settings.row_deadline_seconds})
        scorer = RowScorer(service.scorer, patient, options, judge_names=plan.judge_names)
        if settings.warm_up and (options.tiers is None or "embedding" in options.tiers):
            await encoder.warm_up()
        return scorer

    async def _scored(self, rows: Iterable[Record | RecordProblem]) -> list[ScoredRow]:
        results = map_concurrently(self._scorer.score, rows, limit=self._at_once, in_order=True)
        async with aclosing(results):
            return [row async for row in results]


def flat_record(row: ScoredRow) -> dict[str, object]:
    """Return the columns of a scored row, and its line."""
    text = row.line.decode()
    return {**flat_result(json.loads(text)), "line": text}


def _columns_and_records(batch: Batch) -> tuple[tuple[str, ...] | None, list[Mapping[str, object]]]:
    """Return the columns, None if each row names its own fields, and the rows."""
    if hasattr(batch, "to_pylist") and hasattr(batch, "schema"):
        return tuple(batch.schema.names), batch.to_pylist()
    if hasattr(batch, "to_dict") and hasattr(batch, "columns"):
        return tuple(batch.columns), batch.to_dict("records")
    if isinstance(batch, Mapping):
        lengths = {len(values) for values in batch.values()}
        if len(lengths) > 1:
            few, many = min(lengths), max(lengths)
            raise InvalidInput(f"the columns of a batch have {few} to {many} values; expected one length")
        return tuple(batch), [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    if isinstance(batch, Sequence) and all(isinstance(each, Mapping) for each in batch):
        return None, list(batch)
    raise InvalidInput("a batch is a mapping of columns, a list of records, an Arrow table or a pandas frame")


def plain(value: object) -> object:
    """Return a value without numpy in it; NaN, the missing value there, becomes None."""
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
