"""Rows scored in this process: the parts that score, built for one run."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Final

from plumbline.assembly import build, build_encoder, make_plan
from plumbline.cli.score.run import RunLimits
from plumbline.ground.concurrency import InlineExecutor, map_concurrently
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import DEFAULT_JUDGE
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.version import VERSION
from plumbline.judging.scoring import unreachable_warning
from plumbline.judging.tiers.calibration import highest_score
from plumbline.judging.tiers.tier import TierName
from plumbline.models.chat.endpoints import MAX_MODEL_CALLS, resolve_judges
from plumbline.models.embeddings.remote_encoder import resolve_embedding_service
from plumbline.rows.evaluation_wire import check_judge_names
from plumbline.rows.jobs.job import ResultLine
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions

# Settings that decide a result; keys and limits of the service do not.
_DECIDING_SETTINGS: Final = frozenset(
    {
        *("threshold", "row_deadline_seconds"),
        *("llm_prices", "llm_max_output_tokens", "llm_context_tokens", "llm_max_cost", "llm_controls"),
        *("llm_bounds", "llm_escalation"),
        *("embedding_model", "embedding_provider", "embedding_precision"),
        *("detector", "detector_model"),
        *("max_contexts", "max_context_characters", "max_answer_characters", "max_question_characters"),
    }
)
# Concurrency with tier embedding: the encoder has a thread of its own, and other rows use the time meanwhile
_BESIDE_ENCODER: Final = 4
# Rows read ahead of the slowest row in flight, as a multiple of the concurrency, so that it blocks no others
_WINDOW: Final = 2


async def score_in_order(
    score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]],
    rows: Iterable[Record | RecordProblem],
    limits: RunLimits,
    *,
    concurrency: int,
) -> AsyncGenerator[ScoredRow, None]:
    """Yield the scored rows in their order, with at most `concurrency` in flight; `score` never raises for a row."""
    # A semaphore is fair: rows start in order, and those that never start stand behind all others
    room = asyncio.Semaphore(concurrency)

    async def score_one(row: Record | RecordProblem) -> ScoredRow | None:
        async with room:
            if limits.is_stopped:
                return None
            scored = await score(row)
            limits.pay(scored.usage.cost)
            return scored

    if concurrency == 1:
        # Without tasks, which take a tenth of the time of a short row
        for row in rows:
            if (alone := await score_one(row)) is None:
                return
            yield alone
            # Signals and progress get their turn
            await asyncio.sleep(0)
        return
    async with aclosing(map_concurrently(score_one, rows, limit=_WINDOW * concurrency, in_order=True)) as done:
        async for scored in done:
            if scored is None:
                return
            yield scored


class LocalEngine:
    """`Engine` in this process, checked before a row is read: raises as the service at its start, and InvalidInput."""

    def __init__(self, settings: Settings, options: EvaluationOptions, *, concurrency: int | None = None) -> None:
        # A model is loaded only if rows need it, before the first of them
        self.settings = settings.model_copy(update={"warm_up": False})
        self.options = options
        self._concurrency = concurrency
        self.plan = make_plan(self.settings)
        check_judge_names(options, self.plan.judge_names)
        self.tiers = tuple(options.tiers or (tier.value for tier in TierName))
        self.judges = resolve_judges(self.settings) if TierName.LLM in self.tiers else {}
        names = options.judges or [next(iter(self.judges), DEFAULT_JUDGE)]
        # The endpoint of each vote on a row
        self.votes = [self.judges[name][0] for name in names if name in self.judges for _ in range(options.samples)]
        self.vectors = resolve_embedding_service(self.settings) if TierName.EMBEDDING in self.tiers else None

    def check(self, max_cost: float | None) -> str | None:
        """Return a warning about an unreachable threshold; raise ConfigurationError if no tier could answer."""
        if self.tiers == (TierName.LLM,) and not self.judges:
            raise ConfigurationError(
                "tier llm has no judge: set DASHSCOPE_API_KEY, or PLUMBLINE_LLM_PROVIDER and its key; or let other "
                "tiers answer: --tiers llm,embedding,lexical"
            )
        models = [endpoint.model for endpoints in self.judges.values() for endpoint in endpoints]
        models += [] if self.vectors is None else [self.vectors.endpoint.model]
        for model in models if max_cost is not None else ():
            if model not in (self.settings.llm_prices or {}):
                raise ConfigurationError(f"PLUMBLINE_LLM_PRICES: has no price of {model!r}, which --max-cost needs")
        threshold = self.settings.threshold if self.options.threshold is None else self.options.threshold
        highest = {tier: highest_score(TierName(tier)) for tier in self.tiers}
        short = {tier: most for tier, most in highest.items() if threshold is not None and threshold > most}
        return unreachable_warning(threshold, short) if threshold is not None and short else None

    def identity(self) -> dict[str, object]:
        settings, prompts = self.settings.model_dump(mode="json", include=set(_DECIDING_SETTINGS)), self.plan.prompts
        asked = (prompts["en"], prompts["zh"]) if self.judges else ()
        return {
            "plumbline": VERSION,
            "options": self.options.model_dump(mode="json"),
            "settings": settings,
            "calibrations": [entry.model_dump(mode="json") for entry in self.plan.calibrations.entries],
            "judges": [
                (name, each.place, each.variant) for name, endpoints in self.judges.items() for each in endpoints
            ],
            "prompts": [prompt.digest for each in asked for prompt in (each.verify, each.check, each.metrics)],
        }

    async def score_rows(
        self, rows: Iterable[Record | RecordProblem], limits: RunLimits
    ) -> AsyncGenerator[ResultLine, None]:
        """Yield the results; a model that they will need is loaded before the first is taken."""
        async with AsyncExitStack() as stack:
            encoder = build_encoder(self.settings)
            stack.push_async_callback(encoder.aclose)
            if TierName.EMBEDDING in self.tiers and not self.judges:
                await encoder.warm_up()
            # Nothing else needs the event loop while no API is awaited
            is_alone = not self.judges and self.vectors is None
            service = build(replace(self.plan, encoder=encoder), stack, executor=InlineExecutor() if is_alone else None)
            # The loaded parts live as long as the run; collecting them again and again costs a tenth of the time
            gc.collect()
            gc.freeze()
            # The deadline of a service's callers does not bound one's own
            deadline = self.options.deadline_seconds or self.settings.row_deadline_seconds
            settings = self.settings.model_copy(update={"deadline_seconds": deadline})
            scorer = RowScorer(service.scorer, settings, self.options, judge_names=self.plan.judge_names)
            # Many rows that wait for an LLM, few that need this machine alone
            usual = _BESIDE_ENCODER if TierName.EMBEDDING in self.tiers else 1
            usual = MAX_MODEL_CALLS if self.vectors is not None else usual
            usual = self.settings.batch_concurrency if self.judges else usual
            work = score_in_order(scorer.score, rows, limits, concurrency=self._concurrency or usual)
            async with aclosing(work) as done:
                async for scored in done:
                    yield ResultLine(scored.row, scored.line)


def open_local_engine(options: EvaluationOptions, *, concurrency: int | None = None) -> LocalEngine:
    """Return the engine with the settings of this process; raises as `LocalEngine`."""
    settings = load_settings()
    # Each row says if a tier failed; a log line for each of a million rows helps no one
    configure_logging(settings.log_level if "log_level" in settings.model_fields_set else "ERROR")
    return LocalEngine(settings, options, concurrency=concurrency)
