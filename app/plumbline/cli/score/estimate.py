"""Estimate of `plumbline score --estimate`: the requests of tier llm, their tokens and cost; asks nobody."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from plumbline.cli.score.local import LocalEngine
from plumbline.cli.score.source import InputSource
from plumbline.ground.errors import TierFailure
from plumbline.judging.ports.exchange import expected_tokens
from plumbline.judging.text.sample import turn_samples
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.tiers.llm import expected_decisions, expected_requests
from plumbline.models.chat.decisions import decision_tokens
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.resilient_endpoint import prompt_tokens
from plumbline.rows.evaluation_wire import metrics_of
from plumbline.rows.records.record import Record, RecordProblem

# About what bounds of a promise of 20 % leave a chat judge (benchmarks/decision_judges.py).
_ASSUMED_SHARE: Final = 0.15
_MILLION: Final = 1_000_000


class CostEstimate:
    """Expected requests of tier llm, and their tokens as providers usually count them."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._metrics = metrics_of(engine.options)
        self._counts: Counter[str] = Counter()
        settings, votes = engine.settings, engine.votes
        name = engine.options.escalation or settings.llm_escalation
        is_first_decision = len(votes) == 1 and votes[0].api not in (None, "chat")
        self._second = engine.judges[name][0] if name in engine.judges and is_first_decision else None
        bounds = (settings.llm_bounds or {}).get(votes[0].model) if votes else None
        self._known_share = bounds.share if bounds else None
        # None without a price
        self._cost: float | None = 0.0
        self._second_cost: float | None = 0.0

    def add(self, row: Record | RecordProblem) -> None:
        """Count the requests of a row, in some milliseconds."""
        self._counts["rows"] += 1
        if isinstance(row, RecordProblem):
            self._counts["bad"] += 1
        elif self._engine.votes:
            samples = [segment(sample) for sample in turn_samples(row.sample)]
            self._counts["asked"] += sum(self._add_requests(each) for each in samples if each.needs_judge) > 0

    def lines(self) -> list[str]:
        """Return the estimate and its assumptions for a person."""
        counts, models = self._counts, dict.fromkeys(endpoint.model for endpoint in self._engine.votes)
        unasked = counts["rows"] - counts["asked"] - counts["bad"]
        head = f"{counts['rows']} rows: {counts['asked']} for tier llm, {unasked} without it, {counts['bad']} bad"
        if not models:
            return [head, "tier llm: no judge is configured, or --tiers leaves it out: it costs nothing"]
        cost = "not known: set PLUMBLINE_LLM_PRICES" if self._cost is None else f"{self._cost:.6g}"
        return [
            head,
            f"tier llm ({', '.join(models)}): {counts['requests']} requests, {counts['prompt']} tokens in, "
            f"{counts['completion']} tokens out, cost {cost}",
            *self._escalation_lines(),
            "assumed: from what one strong model used, 4.2 ASCII characters or 1.4 other characters a token, and 80 "
            "tokens out a sentence; nothing from a cache",
            "not in it: second looks at what is missing or doubtful (one more request for a row that needs it), "
            "escalation, retries, fallbacks",
        ]

    def _escalation_lines(self) -> list[str]:
        if self._second is None:
            return []
        share, said = self._known_share, "by PLUMBLINE_LLM_BOUNDS"
        if share is None:
            share, said = _ASSUMED_SHARE, "assumed; `plumbline rate threshold` finds yours"
        requests = round(self._counts["second"] * share)
        cost = "not known" if self._second_cost is None else f"{self._second_cost * share:.6g}"
        return [f"escalation ({self._second.model}): {requests} requests for {share:.0%} ({said}), cost {cost}"]

    def _add_requests(self, sample: SegmentedSample) -> bool:
        """Return False if the sample is too long for a judge."""
        try:
            # The first vote makes the claims, the others judge them
            for position, endpoint in enumerate(self._engine.votes):
                for prompt, completion in self._tokens(sample, endpoint, is_first=position == 0):
                    self._counts.update(requests=1, prompt=prompt, completion=completion)
                    self._cost = self._add_cost(self._cost, endpoint, prompt, completion)
            for prompt, completion in self._tokens(sample, self._second, is_first=False) if self._second else ():
                self._counts["second"] += 1
                self._second_cost = self._add_cost(self._second_cost, self._second, prompt, completion)
        except TierFailure:
            return False
        return True

    def _tokens(self, sample: SegmentedSample, endpoint: Endpoint, *, is_first: bool) -> Iterator[tuple[int, int]]:
        """Yield the expected tokens in and out of each request; raise TierFailure `too_long`."""
        settings, prompts = self._engine.settings, self._engine.plan.prompts[sample.language]
        context_tokens = min(each.context_tokens for each in self._engine.votes)
        shared: Any = {
            "has_controls": settings.llm_controls,
            "metrics": self._metrics,
            "context_tokens": context_tokens,
        }
        if endpoint.api not in (None, "chat"):
            most = endpoint.provider.decisions.questions
            for asked in expected_decisions(sample, prompts, most_questions=most, **shared):
                yield expected_tokens(decision_tokens(asked)), 0
            return
        room = settings.llm_max_output_tokens
        for request in expected_requests(sample, prompts, max_output_tokens=room, is_first=is_first, **shared):
            most = prompt_tokens(request, has_schema=endpoint.provider.structure == "json_schema")
            yield expected_tokens(most), request.expected_output_tokens

    def _add_cost(self, cost: float | None, endpoint: Endpoint | None, prompt: int, completion: int) -> float | None:
        price = (self._engine.settings.llm_prices or {}).get(endpoint.model) if endpoint else None
        if price is None or cost is None:
            return None
        return cost + (prompt * price.input + completion * price.output) / _MILLION


def estimate_cost(source: InputSource, engine: LocalEngine) -> CostEstimate:
    """Return the estimate over all rows."""
    estimate = CostEstimate(engine)
    with source.open() as reader:
        for row in islice(reader, source.limit):
            if source.shard.has(row.row):
                estimate.add(row)
    return estimate
