"""Estimate of `plumbline score --estimate`: the requests of tier llm, their tokens and cost; asks nobody."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from plumbline.cli.score.local import LocalEngine
from plumbline.cli.score.source import InputSource
from plumbline.ground.errors import TierFailure
from plumbline.ground.settings import Settings
from plumbline.judging.judge.metrics import Metric
from plumbline.judging.judge.questions import PromptSet
from plumbline.judging.ports.exchange import estimate_tokens, expected_tokens
from plumbline.judging.text.sample import turn_samples
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.tiers.llm import expected_requests
from plumbline.models.chat.endpoints import Endpoint
from plumbline.rows.evaluation_wire import metrics_of
from plumbline.rows.records.record import Record, RecordProblem

_FRAME_TOKENS: Final = 16
_MILLION: Final = 1_000_000


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


def estimate_cost(source: InputSource, engine: LocalEngine) -> CostEstimate:
    """Return the estimate over all rows, some milliseconds each."""
    with source.open() as reader:
        rows = (row for row in islice(reader, source.limit) if source.shard.has(row.row))
        metrics = metrics_of(engine.options)
        return _estimate(rows, engine.votes, engine.plan.prompts, engine.settings, metrics)


def _estimate(
    rows: Iterable[Record | RecordProblem],
    votes: Sequence[Endpoint],
    prompts: PromptSet,
    settings: Settings,
    metrics: Sequence[Metric],
) -> CostEstimate:
    found = CostEstimate(models=tuple(dict.fromkeys(endpoint.model for endpoint in votes)))
    for row in rows:
        found.rows += 1
        if isinstance(row, RecordProblem):
            found.bad += 1
        elif votes:
            is_asked = False
            for sample in turn_samples(row.sample):
                segmented = segment(sample)
                is_asked |= segmented.needs_judge and _add_requests(
                    found, segmented, votes, prompts, settings, metrics=metrics
                )
            found.asked += is_asked
    return found


def _add_requests(
    found: CostEstimate,
    sample: SegmentedSample,
    votes: Sequence[Endpoint],
    prompts: PromptSet,
    settings: Settings,
    *,
    metrics: Sequence[Metric],
) -> bool:
    """Return False if the sample is too long for a judge."""
    judging = prompts.for_case(sample)
    # The first vote makes the claims, the others judge them
    for position, endpoint in enumerate(votes):
        requests = expected_requests(
            sample,
            judging,
            context_tokens=min(each.context_tokens for each in votes),
            max_output_tokens=settings.llm_max_output_tokens,
            is_first=position == 0,
            has_controls=settings.llm_controls,
            metrics=metrics,
        )
        price = (settings.llm_prices or {}).get(endpoint.model)
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
