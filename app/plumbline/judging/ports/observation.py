"""What the parts of the service tell of their work, and who may listen: names and numbers of ours, never a text or key.

A part writes what it does into a note, and opens the observer's context around the work. When the context ends the note
is complete, and whoever listens reads it. Listeners raise nothing, and what they do costs microseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

ANSWERED: Final = "answered"
# It ended by an exception: a bug of ours, or a cancellation, as by a deadline or a caller who left.
INTERRUPTED: Final = "interrupted"
CacheOutcome = Literal["hit", "miss", "bypass"]


@dataclass(slots=True)
class RequestNote:
    """One request over HTTP. `route`: its template or `unmatched`; `traceparent`: that header as it was sent."""

    method: str
    traceparent: str | None = None
    route: str = "unmatched"
    status: int = 0


@dataclass(slots=True)
class TierNote:
    """One tier's try at one sample. `outcome`: `ANSWERED`, the `FailureReason`, or `INTERRUPTED`."""

    tier: str
    outcome: str = INTERRUPTED


@dataclass(slots=True)
class JudgeCallNote:
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

    def request(self, note: RequestNote) -> AbstractContextManager[None]:
        """Around one request."""

    def tier(self, note: TierNote) -> AbstractContextManager[None]:
        """Around one tier's try."""

    def judge_call(self, note: JudgeCallNote) -> AbstractContextManager[None]:
        """Around one request to a chat model."""

    def verdict_looked_up(self, outcome: CacheOutcome) -> None:
        """A verdict was sought among those kept."""

    def chunk_begun(self) -> None:
        """A chunk of a job was leased and is being worked on."""

    def chunk_ended(self) -> None:
        """It no longer is."""

    def rows_kept(self, statuses: Sequence[str]) -> None:
        """Rows of a job have a result or an error, kept by the store; each with its `RowStatus`."""

    def row_quarantined(self) -> None:
        """A row of a job ended so many processes that it is not tried again."""


class Silent:
    """Hears nothing."""

    def request(self, note: RequestNote) -> AbstractContextManager[None]:
        return nullcontext()

    def tier(self, note: TierNote) -> AbstractContextManager[None]:
        return nullcontext()

    def judge_call(self, note: JudgeCallNote) -> AbstractContextManager[None]:
        return nullcontext()

    def verdict_looked_up(self, outcome: CacheOutcome) -> None:
        return

    def chunk_begun(self) -> None:
        return

    def chunk_ended(self) -> None:
        return

    def rows_kept(self, statuses: Sequence[str]) -> None:
        return

    def row_quarantined(self) -> None:
        return


SILENT: Final = Silent()


class Observers:
    """Several, told in order; their contexts lie within one another, the first outermost."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def request(self, note: RequestNote) -> AbstractContextManager[None]:
        return _nested(each.request(note) for each in self._observers)

    def tier(self, note: TierNote) -> AbstractContextManager[None]:
        return _nested(each.tier(note) for each in self._observers)

    def judge_call(self, note: JudgeCallNote) -> AbstractContextManager[None]:
        return _nested(each.judge_call(note) for each in self._observers)

    def verdict_looked_up(self, outcome: CacheOutcome) -> None:
        for each in self._observers:
            each.verdict_looked_up(outcome)

    def chunk_begun(self) -> None:
        for each in self._observers:
            each.chunk_begun()

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
