"""Readiness of the service's parts, and records of their work for metrics and traces: never a text or key.

A part opens the observer's context around its work and fills the record in; when the context ends the record is
complete. Observers raise nothing and cost microseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, Protocol

ANSWERED: Final = "answered"
# It ended by an exception: a bug of ours, or a cancellation, as by a deadline or a caller who left.
INTERRUPTED: Final = "interrupted"
CacheOutcome = Literal["hit", "miss", "bypass"]


class State(StrEnum):
    """`idle`: it loads what it needs when first asked."""

    READY = "ready"
    IDLE = "idle"
    LOADING = "loading"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A state, and one line that says why or with what."""

    state: State
    detail: str


@dataclass(slots=True)
class RequestRecord:
    """One request over HTTP. `route`: its template or `unmatched`; `traceparent`: that header as it was sent."""

    method: str
    traceparent: str | None = None
    route: str = "unmatched"
    status: int = 0


@dataclass(slots=True)
class TierRecord:
    """One tier's try at one sample. `outcome`: `ANSWERED`, the `FailureReason`, or `INTERRUPTED`."""

    tier: str
    outcome: str = INTERRUPTED


@dataclass(slots=True)
class JudgeCallRecord:
    """One request to a chat model, as it left; provider, model and host are those of the settings.

    `headers` are sent along: a listener may add to them when the context opens. Tokens are None where the provider
    counted none, `cost` where the price is not known. `has_left`: a provider may have read it.
    """

    provider: str
    model: str
    host: str
    max_output_tokens: int
    headers: dict[str, str] = field(default_factory=dict)
    outcome: str = INTERRUPTED
    has_left: bool = False
    is_truncated: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


class Observer(Protocol):
    """Whoever wants to know what is done."""

    def request(self, record: RequestRecord) -> AbstractContextManager[None]:
        """Around one request."""

    def tier(self, record: TierRecord) -> AbstractContextManager[None]:
        """Around one tier's try."""

    def judge_call(self, record: JudgeCallRecord) -> AbstractContextManager[None]:
        """Around one request to a chat model."""

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        """A verdict was sought among those kept."""

    def chunk_started(self) -> None:
        """A chunk of a job was leased and is being worked on."""

    def chunk_ended(self) -> None:
        """It no longer is."""

    def rows_kept(self, statuses: Sequence[str]) -> None:
        """Rows of a job have a result or an error, kept by the store; each with its `RowStatus`."""

    def row_quarantined(self) -> None:
        """A row of a job ended so many processes that it is not tried again."""


class NullObserver:
    """Hears nothing."""

    def request(self, record: RequestRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def tier(self, record: TierRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def judge_call(self, record: JudgeCallRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        return

    def chunk_started(self) -> None:
        return

    def chunk_ended(self) -> None:
        return

    def rows_kept(self, statuses: Sequence[str]) -> None:
        return

    def row_quarantined(self) -> None:
        return


NULL_OBSERVER: Final = NullObserver()


class Observers:
    """Several, told in order; their contexts lie within one another, the first outermost."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def request(self, record: RequestRecord) -> AbstractContextManager[None]:
        return _nested(each.request(record) for each in self._observers)

    def tier(self, record: TierRecord) -> AbstractContextManager[None]:
        return _nested(each.tier(record) for each in self._observers)

    def judge_call(self, record: JudgeCallRecord) -> AbstractContextManager[None]:
        return _nested(each.judge_call(record) for each in self._observers)

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        for each in self._observers:
            each.on_cache_lookup(outcome)

    def chunk_started(self) -> None:
        for each in self._observers:
            each.chunk_started()

    def chunk_ended(self) -> None:
        for each in self._observers:
            each.chunk_ended()

    def rows_kept(self, statuses: Sequence[str]) -> None:
        for each in self._observers:
            each.rows_kept(statuses)

    def row_quarantined(self) -> None:
        for each in self._observers:
            each.row_quarantined()


@contextmanager
def _nested(contexts: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in contexts:
            stack.enter_context(each)
        yield
