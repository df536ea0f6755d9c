"""Input of the main job; importing it costs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A question, the retrieved contexts, and the answer."""

    question: str
    contexts: tuple[str, ...]
    answer: str
    reference: str | None = None
