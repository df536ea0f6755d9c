"""What a call may cost at most and what it did cost, in tokens and money."""

from dataclasses import dataclass, field

from plumbline.ground.settings import ModelPrice
from plumbline.judging.ports.exchange import ChatRequest, Ledger, estimate_tokens
from plumbline.judging.ports.observation import JudgeCallRecord
from plumbline.models.chat.completions import TokenCounts
from plumbline.models.chat.judge_connections import SendStatus

_MILLION = 1_000_000
# What roles and separators of two messages take.
_FRAME_TOKENS = 16


def prompt_tokens(request: ChatRequest) -> int:
    """Estimated tokens of a request, its schema included."""
    schema = estimate_tokens(str(request.schema)) if request.schema else 0
    return estimate_tokens(request.system) + estimate_tokens(request.user) + schema + _FRAME_TOKENS


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of one model; `price` None where nobody told it."""

    price: ModelPrice | None

    def worst_case(self, prompt: int, max_output: int) -> float | None:
        """The most that a call can cost; None when its price is not known."""
        if self.price is None:
            return None
        return (prompt * max(self.price.input, self.price.cached or 0.0) + max_output * self.price.output) / _MILLION

    def cost(self, tokens: TokenCounts, *, worst: float | None) -> float | None:
        """What a call did cost: the worst case where the provider did not count, as it may have billed it."""
        if self.price is None:
            return None
        if not tokens.is_known:
            return worst
        cached = min(tokens.cached or 0, tokens.prompt or 0)
        fresh = (tokens.prompt or 0) - cached
        cached_price = self.price.input if self.price.cached is None else self.price.cached
        return (
            fresh * self.price.input + cached * cached_price + (tokens.completion or 0) * self.price.output
        ) / _MILLION


@dataclass(slots=True)
class Bill:
    """What one call used, as far as it is known. `is_free`: the provider refused it and bills nothing."""

    send_status: SendStatus = field(default_factory=SendStatus)
    tokens: TokenCounts = field(default_factory=TokenCounts)
    is_free: bool = False

    def write(self, ledger: Ledger, tariff: Tariff, worst: float | None) -> None:
        """Into the ledger, when the request has left."""
        if not self.send_status.has_left:
            return
        ledger.add_call(
            prompt_tokens=self.tokens.prompt,
            completion_tokens=self.tokens.completion,
            cached_tokens=self.tokens.cached,
            cost=self._cost(tariff, worst),
        )

    def describe(self, note: JudgeCallRecord, tariff: Tariff, worst: float | None) -> None:
        """The same into a note for those who listen."""
        note.has_left = self.send_status.has_left
        if note.has_left:
            note.prompt_tokens = self.tokens.prompt
            note.completion_tokens = self.tokens.completion
            note.cached_tokens = self.tokens.cached
            note.cost = self._cost(tariff, worst)

    def tokens_used(self, expected: int) -> int:
        """For the budget of tokens: the count, or the estimate where a provider that read the request gave none."""
        if self.tokens.is_known:
            return (self.tokens.prompt or 0) + (self.tokens.completion or 0)
        return expected if self.send_status.has_left else 0

    def _cost(self, tariff: Tariff, worst: float | None) -> float | None:
        return 0.0 if self.is_free and not self.tokens.is_known else tariff.cost(self.tokens, worst=worst)
