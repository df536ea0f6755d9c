"""Whether a part of the service can be asked now: the word that backends, judges and api share."""

from dataclasses import dataclass
from enum import StrEnum


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
