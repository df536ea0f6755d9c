"""`score_batch(records) -> records`: the one function that Ray, Spark, Dask or a loop of one's own can wrap."""

import json
from collections.abc import Iterable
from contextlib import AsyncExitStack, aclosing
from typing import Final, Self

from plumbline.assembly import build, encoder_of, make_plan
from plumbline.extras.cluster.engine_rows import Batch, engine_rows
from plumbline.extras.cluster.loop_thread import LoopThread
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.settings import Settings
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import chosen_columns, record_or_problem
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions

# The flat columns, and the whole result: the row as JSON, as every other way of scoring many rows writes it.
BATCH_COLUMNS: Final = (*RESULT_COLUMNS, "line")


class BatchScorer:
    """Scores batches on THE path with parts that stay warm from one batch to the next; make one in each process.

    Calls block. Rows of a batch are judged `settings.batch_concurrency` at one time, those of concurrent calls each so
    many. The embedding model is loaded before the first row where its tier may be asked and `settings.warm_up` is set,
    so that no row falls to a lower tier while it loads.

    Args:
        columns: of the batches handed to `score_batch`; None: found from the names in each batch.

    Raises:
        ConfigurationError, PromptError, CalibrationError: as `make_plan`.
        InvalidInput: the options name a judge that there is not.
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
        self._loop = LoopThread("batch-scorer")
        try:
            self._scorer = self._loop.run(self._opened(settings, options or EvaluationOptions()))
        except BaseException:
            self.close()
            raise

    def score_batch(self, records: Batch, *, first_row: int = 0) -> list[dict[str, object]]:
        """One record for each row, in their order, with the columns `BATCH_COLUMNS`.

        The same rows give the same records, the seconds of attempts inside `line` aside. A row that cannot be scored
        has its reason in `error` and in `line`. Ids are not compared between rows: an engine's batches are cut where it
        likes.

        Args:
            records: a mapping of columns, a list of records, an Arrow table or a pandas frame.
            first_row: number of the batch's first row; the id of a row that has none is its number.

        Raises:
            InvalidInput: it is no batch, or its columns are not those of samples.
        """
        batch = engine_rows(records, first_row)
        if not batch.rows:
            return []
        columns = chosen_columns(batch.columns, batch.rows, self._columns).map
        return [flat_record(row) for row in self.score(record_or_problem(raw, columns) for raw in batch.rows)]

    def score(self, rows: Iterable[Record | RecordProblem]) -> list[ScoredRow]:
        """The rows, scored, in their order."""
        return self._loop.run(self._scored(rows))

    def close(self) -> None:
        """Close models, connections and threads."""
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
    """The columns of a scored row, and its line."""
    text = row.line.decode()
    return {**flat_result(json.loads(text)), "line": text}
