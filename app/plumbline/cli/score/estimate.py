"""What tier llm would cost over a file, counted from the requests that it would send, before one is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from plumbline.cli.score.here import HerePlan
from plumbline.ground.errors import TierFailure
from plumbline.ground.settings import DEFAULT_JUDGE
from plumbline.judging.ports.exchange import ChatRequest, estimate_tokens
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.expected_requests import expected_requests, needs_judge
from plumbline.models.chat.endpoints import Endpoint, resolve_judges
from plumbline.rows.records.record import Record, RecordProblem

# As `judges/hearing.py` has it: what a verdict with its claim, reason and quote takes
TOKENS_OF_A_VERDICT: Final = 90
_FRAME_TOKENS: Final = 16
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens are estimates, rather too many than too few; `cost` is None where a model has no price.

    rows = asked + unasked + bad. Unasked: code decides them, or they are too long for the judge.
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


class Estimator:
    """Adds up what rows would cost with one plan."""

    def __init__(self, plan: HerePlan) -> None:
        self._plan = plan
        settings, options = plan.settings, plan.options
        judges = resolve_judges(settings) if plan.has_judge else {}
        names = options.judges or [next(iter(judges), DEFAULT_JUDGE)]
        self._endpoints: list[Endpoint] = [judges[name][0] for name in names if name in judges]
        # The first vote makes the claims, the others are asked about them
        self._votes = [endpoint for endpoint in self._endpoints for _ in range(options.samples)]
        self._smallest = min((endpoint.context_tokens for endpoint in self._endpoints), default=0)
        self._rows = self._asked = self._bad = self._requests = self._prompt = self._completion = 0
        self._cost: float | None = 0.0

    def of(self, rows: Iterable[Record | RecordProblem]) -> Estimate:
        """The estimate over all rows; takes some milliseconds each."""
        for row in rows:
            self._rows += 1
            if isinstance(row, RecordProblem):
                self._bad += 1
            elif self._endpoints:
                self._add(Sample(row.sample.question, row.sample.contexts, row.sample.answer, row.sample.reference))
        return Estimate(
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
        case = segment(sample)
        if not needs_judge(case):
            return
        most = self._plan.settings.llm_max_output_tokens
        prompts = self._plan.plan.prompts.for_case(case)
        for position, endpoint in enumerate(self._votes):
            requests = expected_requests(
                case, prompts, context_tokens=self._smallest, max_output_tokens=most, is_first=position == 0
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


def estimate_lines(estimate: Estimate) -> list[str]:
    """The estimate and what it assumes, for a person."""
    head = f"{estimate.rows} rows: {estimate.asked} for tier llm, {estimate.unasked} without it, {estimate.bad} bad"
    if not estimate.models:
        return [head, "tier llm: no judge is configured, or --tiers leaves it out: it costs nothing"]
    cost = "not known: set PLUMBLINE_LLM_PRICES" if estimate.cost is None else f"{estimate.cost:.6g}"
    return [
        head,
        f"tier llm ({', '.join(estimate.models)}): {estimate.requests} requests, {estimate.prompt_tokens} tokens in, "
        f"{estimate.completion_tokens} tokens out, cost {cost}",
        f"assumed: 3 ASCII characters or 1 other character a token (providers count fewer), {TOKENS_OF_A_VERDICT} "
        "tokens a verdict, one claim a sentence, nothing from a cache",
        "not in it: second looks at what is missing or doubtful (one more request for a row that needs it), "
        "escalation, retries, fallbacks",
    ]
