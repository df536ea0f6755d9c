"""Rows scored in this process: the parts that score, built for one run, and an estimate of their cost."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from plumbline.assembly import build, encoder_of, make_plan
from plumbline.cli.score.run import Budget, StopSignal
from plumbline.ground.concurrency import InlineExecutor, map_concurrently
from plumbline.ground.errors import ConfigurationError, TierFailure
from plumbline.ground.settings import DEFAULT_JUDGE, Settings
from plumbline.judging.ports.exchange import ChatRequest, estimate_tokens
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.llm import expected_requests
from plumbline.judging.tiers.tier import SentenceEncoder, TierName
from plumbline.models.chat.endpoints import Endpoint, resolve_judges
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
# As `judging/tiers/hearing.py` has it: a verdict with its claim, reason and quote
TOKENS_OF_A_VERDICT: Final = 90
_FRAME_TOKENS: Final = 16
_MILLION: Final = 1_000_000


class LocalScorer:
    """`StreamScorer` in this process.

    Args:
        score: scores a single row; never raises for its content.
        concurrency: rows in flight.
    """

    def __init__(self, score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]], *, concurrency: int) -> None:
        self._score = score
        self._concurrency = concurrency

    async def scored(
        self, rows: Iterable[Record | RecordProblem], stop: StopSignal, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """Yield the scored rows as `StreamScorer` does."""
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

    @property
    def usual_concurrency(self) -> int:
        """Return the default concurrency: many rows that wait for an LLM, few that need this machine alone."""
        if self.has_judge:
            return self.settings.batch_concurrency
        return _BESIDE_ENCODER if TierName.EMBEDDING in self.tiers else 1

    def check_prices(self) -> None:
        """Check that every judge's model has a price.

        Raises:
            ConfigurationError: one has none.
        """
        known = self.settings.llm_prices or {}
        judges = resolve_judges(self.settings).values() if self.has_judge else ()
        for model in (endpoint.model for endpoints in judges for endpoint in endpoints):
            if model not in known:
                raise ConfigurationError(f"PLUMBLINE_LLM_PRICES: has no price of {model!r}, which --max-cost needs")

    def identity(self) -> dict[str, Choice]:
        """Return the identity of a run with this plan."""
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
            # Nothing else needs the event loop while no judge is awaited
            service = build(plan, stack, executor=None if self.has_judge else InlineExecutor())
            # The loaded parts live as long as the run; collecting them again and again costs a tenth of the time
            gc.collect()
            gc.freeze()
            rows = RowScorer(service.scorer, self.settings, self.options, judge_names=plan.judge_names)
            yield LocalScorer(rows.score, concurrency=concurrency or self.usual_concurrency)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Expected requests of tier llm. Tokens are rather too many than too few; `cost` is None without a price.

    rows = asked + unasked + bad. Unasked rows are decided by code, or too long for the judge.
    """

    rows: int
    asked: int
    unasked: int
    bad: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    models: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the estimate and its assumptions for a person."""
        head = f"{self.rows} rows: {self.asked} for tier llm, {self.unasked} without it, {self.bad} bad"
        if not self.models:
            return [head, "tier llm: no judge is configured, or --tiers leaves it out: it costs nothing"]
        cost = "not known: set PLUMBLINE_LLM_PRICES" if self.cost is None else f"{self.cost:.6g}"
        return [
            head,
            f"tier llm ({', '.join(self.models)}): {self.requests} requests, {self.prompt_tokens} tokens in, "
            f"{self.completion_tokens} tokens out, cost {cost}",
            f"assumed: 3 ASCII characters or 1 other character a token (providers count fewer), {TOKENS_OF_A_VERDICT} "
            "tokens a verdict, one claim a sentence, nothing from a cache",
            "not in it: second looks at what is missing or doubtful (one more request for a row that needs it), "
            "escalation, retries, fallbacks",
        ]


class CostEstimator:
    """Sum of what rows would cost with one plan."""

    def __init__(self, plan: LocalPlan) -> None:
        self._plan = plan
        judges = resolve_judges(plan.settings) if plan.has_judge else {}
        names = plan.options.judges or [next(iter(judges), DEFAULT_JUDGE)]
        self._endpoints: list[Endpoint] = [judges[name][0] for name in names if name in judges]
        # The first vote makes the claims, the others judge them
        self._votes = [endpoint for endpoint in self._endpoints for _ in range(plan.options.samples)]
        self._smallest = min((endpoint.context_tokens for endpoint in self._endpoints), default=0)
        self._rows = self._asked = self._bad = self._requests = self._prompt = self._completion = 0
        self._cost: float | None = 0.0

    def estimate(self, rows: Iterable[Record | RecordProblem]) -> CostEstimate:
        """Return the estimate over all rows; takes some milliseconds each."""
        for row in rows:
            self._rows += 1
            if isinstance(row, RecordProblem):
                self._bad += 1
            elif self._endpoints:
                self._add(Sample(row.sample.question, row.sample.contexts, row.sample.answer, row.sample.reference))
        return CostEstimate(
            rows=self._rows,
            asked=self._asked,
            unasked=self._rows - self._asked - self._bad,
            bad=self._bad,
            requests=self._requests,
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
            cost=self._cost,
            models=tuple(dict.fromkeys(endpoint.model for endpoint in self._endpoints)),
        )

    def _add(self, sample: Sample) -> None:
        segmented = segment(sample)
        if not segmented.needs_judge:
            return
        most = self._plan.settings.llm_max_output_tokens
        prompts = self._plan.plan.prompts.for_case(segmented)
        for position, endpoint in enumerate(self._votes):
            requests = expected_requests(
                segmented, prompts, context_tokens=self._smallest, max_output_tokens=most, is_first=position == 0
            )
            try:
                for request, verdicts in requests:
                    self._count(request, endpoint, TOKENS_OF_A_VERDICT * verdicts)
            except TierFailure:
                return
        self._asked += 1

    def _count(self, request: ChatRequest, endpoint: Endpoint, completion: int) -> None:
        prompt = estimate_tokens(request.system) + estimate_tokens(request.user) + _FRAME_TOKENS
        if endpoint.provider.structure == "json_schema":
            prompt += estimate_tokens(str(request.schema))
        self._requests += 1
        self._prompt += prompt
        self._completion += completion
        price = (self._plan.settings.llm_prices or {}).get(endpoint.model)
        if price is None or self._cost is None:
            self._cost = None
        else:
            self._cost += (prompt * price.input + completion * price.output) / _MILLION
