"""Cost of calls in tokens and money: upper bounds and actual values."""

from dataclasses import dataclass, field

from plumbline.ground.connections import SendStatus
from plumbline.ground.judge_settings import ModelPrice
from plumbline.judging.ports.exchange import ChatRequest, Ledger, estimate_tokens
from plumbline.judging.ports.observation import JudgeCallRecord
from plumbline.models.chat.completions import TokenCounts

_MILLION = 1_000_000
# What roles and separators of two messages take.
_FRAME_TOKENS = 16


def prompt_tokens(request: ChatRequest) -> int:
    """Estimate the tokens of a request, its schema included."""
    schema = estimate_tokens(str(request.schema)) if request.schema else 0
    return estimate_tokens(request.system) + estimate_tokens(request.user) + schema + _FRAME_TOKENS


@dataclass(frozen=True, slots=True)
class Tariff:
    """Price of one model; None if unknown."""

    price: ModelPrice | None

    def worst_case(self, prompt: int, max_output: int) -> float | None:
        """Return the upper bound of a call's cost; None if its price is unknown."""
        if self.price is None:
            return None
        return (prompt * max(self.price.input, self.price.cached or 0.0) + max_output * self.price.output) / _MILLION

    def cost(self, tokens: TokenCounts, *, worst: float | None) -> float | None:
        """Return the cost of a call: the worst case if the provider sent no count, as it may have billed it."""
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
    """Usage of one call, as far as it is known. `is_free`: the provider refused it and bills nothing."""

    send_status: SendStatus = field(default_factory=SendStatus)
    tokens: TokenCounts = field(default_factory=TokenCounts)
    is_free: bool = False

    def write(self, ledger: Ledger, tariff: Tariff, worst: float | None) -> None:
        """Add the call to the ledger if the request has left."""
        if not self.send_status.has_left:
            return
        ledger.add_call(
            prompt_tokens=self.tokens.prompt,
            completion_tokens=self.tokens.completion,
            cached_tokens=self.tokens.cached,
            cost=self._cost(tariff, worst),
        )

    def describe(self, note: JudgeCallRecord, tariff: Tariff, worst: float | None) -> None:
        """Add the same to a record for observers."""
        note.has_left = self.send_status.has_left
        if note.has_left:
            note.prompt_tokens = self.tokens.prompt
            note.completion_tokens = self.tokens.completion
            note.cached_tokens = self.tokens.cached
            note.cost = self._cost(tariff, worst)

    def tokens_used(self, expected: int) -> int:
        """Return the tokens for the rate limit: the count, or the estimate if the request left and no count came."""
        if self.tokens.is_known:
            return (self.tokens.prompt or 0) + (self.tokens.completion or 0)
        return expected if self.send_status.has_left else 0

    def _cost(self, tariff: Tariff, worst: float | None) -> float | None:
        return 0.0 if self.is_free and not self.tokens.is_known else tariff.cost(self.tokens, worst=worst)
