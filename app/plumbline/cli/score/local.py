"""Rows scored in this process: the parts that score, built for one run, and an estimate of their cost."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from plumbline.assembly import build, encoder_of, make_plan
from plumbline.cli.score.run import Budget, StopSignal
from plumbline.ground.concurrency import InlineExecutor, map_concurrently
from plumbline.ground.errors import ConfigurationError, TierFailure
from plumbline.ground.settings import DEFAULT_JUDGE, Settings
from plumbline.judging.ports.exchange import estimate_tokens, expected_tokens
from plumbline.judging.scoring import unreachable_warning
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.tiers.llm import expected_requests
from plumbline.judging.tiers.tier import SentenceEncoder, TierName
from plumbline.models.chat.endpoints import Endpoint, resolve_judges
from plumbline.models.embeddings.embedding_service import resolve_embedding_service
from plumbline.rows.evaluation_wire import check_judge_names
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.run_identity import Choice, run_identity
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions

# Concurrency with tier embedding: the encoder has a thread of its own, and other rows use the time meanwhile
_BESIDE_ENCODER: Final = 4
# Rows read ahead of the slowest row in flight, as a multiple of the concurrency, so that it blocks no others
_WINDOW: Final = 2
_FRAME_TOKENS: Final = 16
_MILLION: Final = 1_000_000


class LocalScorer:
    """`StreamScorer` in this process; `score` never raises for the content of a row."""

    def __init__(self, score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]], *, concurrency: int) -> None:
        self._score = score
        self._concurrency = concurrency

    async def scored(
        self, rows: Iterable[Record | RecordProblem], stop: StopSignal, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        work = self._serially if self._concurrency == 1 else self._concurrently
        async with aclosing(work(rows, stop, budget)) as done:
            async for scored in done:
                yield scored

    async def _serially(
        self, rows: Iterable[Record | RecordProblem], stop: StopSignal, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """Score without tasks, which take a tenth of the time of a short row."""
        for row in rows:
            if stop.is_set:
                return
            scored = await self._score(row)
            budget.pay(scored.usage.cost)
            yield scored
            # Signals and progress get their turn
            await asyncio.sleep(0)

    async def _concurrently(
        self, rows: Iterable[Record | RecordProblem], stop: StopSignal, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        # A semaphore is fair: rows start in order, and those that never start stand behind all others
        room = asyncio.Semaphore(self._concurrency)

        async def score(row: Record | RecordProblem) -> ScoredRow | None:
            async with room:
                if stop.is_set:
                    return None
                scored = await self._score(row)
                budget.pay(scored.usage.cost)
                return scored

        work = map_concurrently(score, rows, limit=_WINDOW * self._concurrency, in_order=True)
        async with aclosing(work) as done:
            async for scored in done:
                if scored is None:
                    return
                yield scored


class LocalPlan:
    """Parts that will score rows here, checked before a row is read.

    Raises:
        ConfigurationError, PromptError, CalibrationError: with one line that says what is wrong.
        InvalidInput: the options name an unknown judge.
    """

    def __init__(
        self, settings: Settings, options: EvaluationOptions, *, encoder: SentenceEncoder | None = None
    ) -> None:
        # A model is loaded only if rows need it, before the first of them; the deadline of a service's callers does
        # not bound one's own
        update = {"warm_up": False, "deadline_seconds": options.deadline_seconds or settings.row_deadline_seconds}
        self.settings = settings.model_copy(update=update)
        self.options = options
        self.plan = make_plan(self.settings, encoder=encoder)
        check_judge_names(options, self.plan.judge_names)
        self.tiers = tuple(options.tiers or (tier.value for tier in TierName))
        self.has_judge = TierName.LLM in self.tiers and bool(self.plan.judge_names)
        self.vectors = resolve_embedding_service(self.settings) if TierName.EMBEDDING in self.tiers else None

    def check_prices(self) -> None:
        """Check that every model behind an API has a price. Raises ConfigurationError: one has none."""
        known = self.settings.llm_prices or {}
        judges = resolve_judges(self.settings).values() if self.has_judge else ()
        models = [endpoint.model for endpoints in judges for endpoint in endpoints]
        if self.vectors is not None:
            models.append(self.vectors.endpoint.model)
        for model in models:
            if model not in known:
                raise ConfigurationError(f"PLUMBLINE_LLM_PRICES: has no price of {model!r}, which --max-cost needs")

    def threshold_warning(self) -> str | None:
        """Return one line if the threshold is above the highest score of a tier that rows may reach; else None."""
        threshold = self.settings.threshold if self.options.threshold is None else self.options.threshold
        highest = {tier: self.plan.calibrations.highest(TierName(tier)) for tier in self.tiers}
        short = {tier: most for tier, most in highest.items() if threshold is not None and threshold > most}
        return unreachable_warning(threshold, short) if threshold is not None and short else None

    def identity(self) -> dict[str, Choice]:
        judges = resolve_judges(self.settings) if self.has_judge else {}
        return run_identity(
            self.settings,
            self.options,
            calibrations=self.plan.calibrations,
            prompts=self.plan.prompts,
            judges=[f"{name}: {each.place}" for name, endpoints in judges.items() for each in endpoints],
        )

    @asynccontextmanager
    async def scorer(self, *, concurrency: int | None) -> AsyncIterator[LocalScorer]:
        """Open the scorer; a model that rows will need is loaded by then."""
        async with AsyncExitStack() as stack:
            plan = self.plan
            if plan.encoder is None:
                encoder = encoder_of(self.settings)
                stack.callback(encoder.close)
                plan = replace(plan, encoder=encoder)
                if TierName.EMBEDDING in self.tiers and not self.has_judge:
                    await encoder.warm_up()
            # Nothing else needs the event loop while no API is awaited
            is_alone = not self.has_judge and self.vectors is None
            service = build(plan, stack, executor=InlineExecutor() if is_alone else None)
            # The loaded parts live as long as the run; collecting them again and again costs a tenth of the time
            gc.collect()
            gc.freeze()
            rows = RowScorer(service.scorer, self.settings, self.options, judge_names=plan.judge_names)
            # Many rows that wait for an LLM, few that need this machine alone
            usual = _BESIDE_ENCODER if TierName.EMBEDDING in self.tiers else 1
            usual = self.settings.embedding_max_concurrency if self.vectors is not None else usual
            usual = self.settings.batch_concurrency if self.has_judge else usual
            yield LocalScorer(rows.score, concurrency=concurrency or usual)


@dataclass(slots=True)
class CostEstimate:
    """Expected requests of tier llm, and their tokens as providers usually count them; `cost` is None without a price.

    The rows that are neither asked nor bad are decided by code, or too long for the judge.
    """

    models: tuple[str, ...]
    rows: int = 0
    asked: int = 0
    bad: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0

    def lines(self) -> list[str]:
        """Return the estimate and its assumptions for a person."""
        unasked = self.rows - self.asked - self.bad
        head = f"{self.rows} rows: {self.asked} for tier llm, {unasked} without it, {self.bad} bad"
        if not self.models:
            return [head, "tier llm: no judge is configured, or --tiers leaves it out: it costs nothing"]
        cost = "not known: set PLUMBLINE_LLM_PRICES" if self.cost is None else f"{self.cost:.6g}"
        return [
            head,
            f"tier llm ({', '.join(self.models)}): {self.requests} requests, {self.prompt_tokens} tokens in, "
            f"{self.completion_tokens} tokens out, cost {cost}",
            "assumed: from what one strong model used, 4.2 ASCII characters or 1.4 other characters a token, and 80 "
            "tokens out a sentence; nothing from a cache",
            "not in it: second looks at what is missing or doubtful (one more request for a row that needs it), "
            "escalation, retries, fallbacks",
        ]


def estimate_cost(plan: LocalPlan, rows: Iterable[Record | RecordProblem]) -> CostEstimate:
    """Return the estimate over all rows with one plan; takes some milliseconds each."""
    judges = resolve_judges(plan.settings) if plan.has_judge else {}
    names = plan.options.judges or [next(iter(judges), DEFAULT_JUDGE)]
    endpoints = [judges[name][0] for name in names if name in judges]
    found = CostEstimate(models=tuple(dict.fromkeys(endpoint.model for endpoint in endpoints)))
    for row in rows:
        found.rows += 1
        if isinstance(row, RecordProblem):
            found.bad += 1
        elif endpoints:
            sample = row.sample
            segmented = segment(Sample(sample.question, sample.contexts, sample.answer, sample.reference))
            found.asked += segmented.needs_judge and _add_requests(found, plan, segmented, endpoints)
    return found


def _add_requests(
    found: CostEstimate, plan: LocalPlan, segmented: SegmentedSample, endpoints: Sequence[Endpoint]
) -> bool:
    """Return False if the sample is too long for a judge."""
    prompts = plan.plan.prompts.for_case(segmented)
    # The first vote makes the claims, the others judge them
    votes = [endpoint for endpoint in endpoints for _ in range(plan.options.samples)]
    for position, endpoint in enumerate(votes):
        requests = expected_requests(
            segmented,
            prompts,
            context_tokens=min(each.context_tokens for each in endpoints),
            max_output_tokens=plan.settings.llm_max_output_tokens,
            is_first=position == 0,
        )
        price = (plan.settings.llm_prices or {}).get(endpoint.model)
        try:
            for request in requests:
                most = estimate_tokens(request.system) + estimate_tokens(request.user) + _FRAME_TOKENS
                if endpoint.provider.structure == "json_schema":
                    most += estimate_tokens(str(request.schema))
                prompt, completion = expected_tokens(most), request.expected_output_tokens
                found.requests += 1
                found.prompt_tokens += prompt
                found.completion_tokens += completion
                if price is None or found.cost is None:
                    found.cost = None
                else:
                    found.cost += (prompt * price.input + completion * price.output) / _MILLION
        except TierFailure:
            return False
    return True
