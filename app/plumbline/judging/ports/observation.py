"""Readiness of the service's parts, and records of their work for metrics and traces: never a text or key.

A part opens the observer's context around its work and fills the record in; when the context ends the record is
complete. Observers raise nothing and cost microseconds.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

ANSWERED: Final = "answered"
# It ended by an exception: a bug of ours, or a cancellation by a deadline or a caller who left.
INTERRUPTED: Final = "interrupted"
# As OpenTelemetry names what a model is asked for.
Operation = Literal["chat", "embeddings", "decisions"]
CacheOutcome = Literal["hit", "miss", "bypass"]


class State(StrEnum):
    """State of a part; `idle`: it loads what it needs on first use."""

    READY = "ready"
    IDLE = "idle"
    LOADING = "loading"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A state, and one line that explains it."""

    state: State
    detail: str


@dataclass(slots=True)
class RequestRecord:
    """One HTTP request. `route`: its template or `unmatched`; `traceparent`: that header as it was sent."""

    method: str
    traceparent: str | None = None
    route: str = "unmatched"
    status: int = 0


@dataclass(slots=True)
class TierRecord:
    """One tier's attempt at one sample. `outcome`: `ANSWERED`, the `FailureReason`, or `INTERRUPTED`."""

    tier: str
    outcome: str = INTERRUPTED


@dataclass(slots=True)
class JudgeCallRecord:
    """One request to a model's API, as it left; provider, model and host are those of the settings.

    `headers` are sent along: a listener may add to them when the context opens. Tokens are None where the provider
    counted none, `cost` where the price is not known. `has_left`: a provider may have read it.
    """

    provider: str
    model: str
    host: str
    max_output_tokens: int
    operation: Operation = "chat"
    headers: dict[str, str] = field(default_factory=dict)
    outcome: str = INTERRUPTED
    has_left: bool = False
    is_truncated: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


class Observer:
    """Receiver of records, for metrics and traces; this one ignores them."""

    def request(self, record: RequestRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def tier(self, record: TierRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def judge_call(self, record: JudgeCallRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        """Count a lookup in the verdict cache."""

    def on_decision(self, tier: str, rule: str, *, passed: bool | None, score: float) -> None:
        """Count a scored answer: the tier that judged it (or `none`), the rule, its faithfulness; None: unsure."""

    def chunk_started(self) -> None:
        """Count a chunk of a job whose work starts."""

    def chunk_ended(self) -> None:
        """Count a chunk of a job whose work ended."""

    def rows_kept(self, statuses: Sequence[str]) -> None:
        """Count rows of a job whose result or error is stored, each with its `RowStatus`."""

    def row_quarantined(self) -> None:
        """Count a row of a job that crashed so many processes that it is not tried again."""


NULL_OBSERVER: Final = Observer()


class Observers(Observer):
    """Two observers, called in order; the contexts of the second are inside those of the first."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._both = (first, second)

    def request(self, record: RequestRecord) -> AbstractContextManager[None]:
        return _within(*(each.request(record) for each in self._both))

    def tier(self, record: TierRecord) -> AbstractContextManager[None]:
        return _within(*(each.tier(record) for each in self._both))

    def judge_call(self, record: JudgeCallRecord) -> AbstractContextManager[None]:
        return _within(*(each.judge_call(record) for each in self._both))

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        for each in self._both:
            each.on_cache_lookup(outcome)

    def on_decision(self, tier: str, rule: str, *, passed: bool | None, score: float) -> None:
        for each in self._both:
            each.on_decision(tier, rule, passed=passed, score=score)

    def chunk_started(self) -> None:
        for each in self._both:
            each.chunk_started()

    def chunk_ended(self) -> None:
        for each in self._both:
            each.chunk_ended()

    def rows_kept(self, statuses: Sequence[str]) -> None:
        for each in self._both:
            each.rows_kept(statuses)

    def row_quarantined(self) -> None:
        for each in self._both:
            each.row_quarantined()


@contextmanager
def _within(first: AbstractContextManager[None], second: AbstractContextManager[None]) -> Iterator[None]:
    with first, second:
        yield
