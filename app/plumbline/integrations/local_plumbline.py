"""The client's calls, answered in this process: needs the extra `service`."""

import logging
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

import structlog

from plumbline.assembly import Plan, Service, build, make_plan
from plumbline.client.row import Row, Rows, parse_line
from plumbline.client.samples import (
    AnyOptions,
    AnySample,
    OptionFields,
    check_options,
    open_samples,
    sample_fields,
    validate,
)
from plumbline.client.sync_client import LoopThread
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import load_settings
from plumbline.rows.evaluation_wire import to_sample
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import row_problem
from plumbline.schemas.batch import BatchConversation, BatchSample
from plumbline.schemas.conversation import is_conversation
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.problem import VALIDATION

S = TypeVar("S", bound=AnySample)

# The embedding model has one thread, and rows of the other tiers take milliseconds
_WITHOUT_JUDGE: Final = 4


class LocalPlumbline:
    """`Plumbline.evaluate` and `evaluate_many` with the settings of this process, checked as at a service's start."""

    def __init__(self) -> None:
        if not structlog.is_configured():
            # The application's own logs stay as they are; each result says if a tier failed
            structlog.configure(
                wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
                logger_factory=structlog.WriteLoggerFactory(sys.stderr),
            )
        settings = load_settings()
        self._settings = settings.model_copy(
            update={"warm_up": False, "deadline_seconds": settings.row_deadline_seconds}
        )
        self._plan: Plan = make_plan(self._settings)
        self._stack = AsyncExitStack()
        self._loop = LoopThread()
        self._service: Service = self._loop.run(self._build())

    def evaluate(self, *, id: str | None = None, **fields: Any) -> EvaluationResult:  # noqa: A002
        """Evaluate one answer, as `Plumbline.evaluate`; raise InvalidInput that names the wrong field."""
        options = {name: fields.pop(name) for name in OptionFields.__annotations__.keys() & fields.keys()}
        lists = {name: list(fields[name]) for name in ("contexts", "messages") if fields.get(name) is not None}
        sample = {name: text for name, text in {**fields, **lists, "custom_id": id}.items() if text is not None}
        (row,) = self.evaluate_many([sample], options=options)
        if row.result is None:
            problem = row.problem
            faults = [f"{each.pointer}: {each.detail}" for each in problem.errors or ()] if problem else []
            raise InvalidInput("; ".join(faults) or (problem.detail if problem else "no result"))
        return row.result.model_copy(update={"id": id})

    def evaluate_many(self, samples: Iterable[S], *, options: AnyOptions = None, in_order: bool = False) -> Rows[S]:
        scorer = RowScorer(
            self._service.scorer, self._settings, check_options(options), judge_names=self._plan.judge_names
        )

        async def score(numbered: tuple[int, S]) -> Row[S]:
            index, sample = numbered
            try:
                fields = sample_fields(sample)
                model: type[BatchConversation | BatchSample] = (
                    BatchConversation if is_conversation(fields) else BatchSample
                )
                given = validate(model, fields)
                texts = to_sample(given)
            except InvalidInput as error:
                problem = row_problem(VALIDATION, error.detail)
                custom_id = sample.custom_id if isinstance(sample, RecordProblem) else None
                return Row(index, custom_id, sample, problem_json=problem.model_dump_json().encode())
            scored = await scorer.score(Record(index, given.custom_id or str(index), texts, {}))
            line = parse_line(scored.line)
            return Row(index, given.custom_id, sample, line.result_json, line.problem_json)

        limit = self._settings.batch_concurrency if self._plan.judge_names else _WITHOUT_JUDGE
        numbered = enumerate(open_samples(samples))
        return Rows(self._loop.iterate(lambda _: map_concurrently(score, numbered, limit=limit, in_order=in_order)))

    def close(self) -> None:
        """Close connections and models, and stop the thread; idempotent."""
        self._loop.close(self._stack.aclose())

    async def _build(self) -> Service:
        return build(self._plan, self._stack)
