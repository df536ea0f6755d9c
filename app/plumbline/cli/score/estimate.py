"""Estimate of `plumbline score --estimate`: the requests of tier llm, their tokens and cost; asks nobody."""

from collections import Counter
from itertools import islice
from typing import Final

from plumbline.cli.score.local import LocalEngine
from plumbline.cli.score.source import InputSource
from plumbline.ground.errors import TierFailure
from plumbline.judging.ports.exchange import estimate_tokens, expected_tokens
from plumbline.judging.text.sample import turn_samples
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.tiers.llm import expected_requests
from plumbline.rows.evaluation_wire import metrics_of
from plumbline.rows.records.record import Record, RecordProblem

_FRAME_TOKENS: Final = 16
_MILLION: Final = 1_000_000


class CostEstimate:
    """Expected requests of tier llm, and their tokens as providers usually count them."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._metrics = metrics_of(engine.options)
        self._counts: Counter[str] = Counter()
        # None without a price
        self._cost: float | None = 0.0

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
            "assumed: from what one strong model used, 4.2 ASCII characters or 1.4 other characters a token, and 80 "
            "tokens out a sentence; nothing from a cache",
            "not in it: second looks at what is missing or doubtful (one more request for a row that needs it), "
            "escalation, retries, fallbacks",
        ]

    def _add_requests(self, sample: SegmentedSample) -> bool:
        """Return False if the sample is too long for a judge."""
        settings, votes = self._engine.settings, self._engine.votes
        judging = self._engine.plan.prompts[sample.language]
        # The first vote makes the claims, the others judge them
        for position, endpoint in enumerate(votes):
            requests = expected_requests(
                sample,
                judging,
                context_tokens=min(each.context_tokens for each in votes),
                max_output_tokens=settings.llm_max_output_tokens,
                is_first=position == 0,
                has_controls=settings.llm_controls,
                metrics=self._metrics,
            )
            price = (settings.llm_prices or {}).get(endpoint.model)
            try:
                for request in requests:
                    most = estimate_tokens(request.system) + estimate_tokens(request.user) + _FRAME_TOKENS
                    if endpoint.provider.structure == "json_schema":
                        most += estimate_tokens(str(request.schema))
                    prompt, completion = expected_tokens(most), request.expected_output_tokens
                    self._counts.update(requests=1, prompt=prompt, completion=completion)
                    if price is None or self._cost is None:
                        self._cost = None
                    else:
                        self._cost += (prompt * price.input + completion * price.output) / _MILLION
            except TierFailure:
                return False
        return True


def estimate_cost(source: InputSource, engine: LocalEngine) -> CostEstimate:
    """Return the estimate over all rows."""
    estimate = CostEstimate(engine)
    with source.open() as reader:
        for row in islice(reader, source.limit):
            if source.shard.has(row.row):
                estimate.add(row)
    return estimate
