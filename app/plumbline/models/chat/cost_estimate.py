"""Estimate of what tier llm will ask, and what that costs; asks nobody."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from plumbline.ground.errors import TierFailure
from plumbline.ground.settings import Settings
from plumbline.judging.judge.decision_session import claims_per_request, expected_decisions
from plumbline.judging.judge.metrics import Metric
from plumbline.judging.judge.prepared_sample import prepare_sample
from plumbline.judging.judge.questions import Prompts, Questions, keyed_mark
from plumbline.judging.judge.session import expected_requests
from plumbline.judging.ports.exchange import expected_tokens
from plumbline.judging.text.sample import Sample, turn_samples
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.models.chat.decisions import decision_tokens
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.resilient_endpoint import prompt_tokens

# About what bounds of a promise of 20 % leave a chat judge (benchmarks/decision_judges.py).
_ASSUMED_SHARE: Final = 0.15
_MILLION: Final = 1_000_000
# What is only counted has the same ids, and so the same length, each time.
_ESTIMATE: Final = keyed_mark(b"estimate")


@dataclass(slots=True)
class CostEstimate:
    """Expected requests of tier llm, and their tokens as providers usually count them.

    Args:
        votes: the endpoint of each vote on a row; without one, nothing is asked.
        escalation: name of the judge of a second look; None for that of the settings.
    """

    settings: Settings
    prompts: Prompts
    judges: Mapping[str, Sequence[Endpoint]]
    votes: Sequence[Endpoint]
    metrics: Sequence[Metric] = ()
    escalation: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    # None without a price
    cost: float | None = 0.0
    second_cost: float | None = 0.0

    @property
    def second(self) -> Endpoint | None:
        """Return the judge that is asked of what a decision model leaves open; None if there is none."""
        is_first_decision = len(self.votes) == 1 and self.votes[0].api not in (None, "chat")
        endpoints = self.judges.get(self.escalation or self.settings.llm_escalation or "", ())
        return endpoints[0] if endpoints and is_first_decision else None

    @property
    def second_share(self) -> tuple[float, bool]:
        """Return the share of rows that it is asked of, and True if that is known of the model."""
        bounds = (self.settings.llm_bounds or {}).get(self.votes[0].model) if self.votes else None
        return (_ASSUMED_SHARE, False) if bounds is None or bounds.share is None else (bounds.share, True)

    def add(self, sample: Sample | None) -> None:
        """Count the requests of a row, in some milliseconds; None for one that cannot be read."""
        self.counts["rows"] += 1
        if sample is None:
            self.counts["bad"] += 1
        elif self.votes:
            samples = [segment(each) for each in turn_samples(sample)]
            self.counts["asked"] += sum(self._add_requests(each) for each in samples if each.needs_judge) > 0

    def _add_requests(self, sample: SegmentedSample) -> bool:
        """Return False if the sample is too long for a judge."""
        try:
            # The first vote makes the claims, the others judge them
            for position, endpoint in enumerate(self.votes):
                for prompt, completion in self._tokens(sample, endpoint, is_first=position == 0):
                    self.counts.update(requests=1, prompt=prompt, completion=completion)
                    self.cost = self._add_cost(self.cost, endpoint, prompt, completion)
            for prompt, completion in self._tokens(sample, self.second, is_first=False) if self.second else ():
                self.counts["second"] += 1
                self.second_cost = self._add_cost(self.second_cost, self.second, prompt, completion)
        except TierFailure:
            return False
        return True

    def _tokens(self, sample: SegmentedSample, endpoint: Endpoint, *, is_first: bool) -> Iterator[tuple[int, int]]:
        """Yield the expected tokens in and out of each request; raise TierFailure `too_long`."""
        is_chat = endpoint.api in (None, "chat")
        questions = 0 if is_chat else endpoint.provider.decisions.questions
        room = self.settings.llm_max_output_tokens if is_chat else 0
        prepared = prepare_sample(
            Questions(sample, self.prompts[sample.language], room, _ESTIMATE),
            context_tokens=min(each.context_tokens for each in self.votes),
            metrics=self.metrics,
            decided=claims_per_request(questions, sample),
            is_chat=is_chat,
            has_controls=self.settings.llm_controls,
            denies=not is_chat,
        )
        if not is_chat:
            for asked in expected_decisions(prepared, questions=questions):
                yield expected_tokens(decision_tokens(asked)), 0
            return
        for request in expected_requests(prepared, is_first=is_first):
            most = prompt_tokens(request, has_schema=endpoint.provider.structure == "json_schema")
            yield expected_tokens(most), request.expected_output_tokens

    def _add_cost(self, cost: float | None, endpoint: Endpoint | None, prompt: int, completion: int) -> float | None:
        price = (self.settings.llm_prices or {}).get(endpoint.model) if endpoint else None
        if price is None or cost is None:
            return None
        return cost + (prompt * price.input + completion * price.output) / _MILLION
