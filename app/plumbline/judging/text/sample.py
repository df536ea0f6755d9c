"""The input of the main job, apart from all that reads it: importing it costs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A question, what was retrieved for it, and what was answered."""

    question: str
    contexts: tuple[str, ...]
    answer: str
    reference: str | None = None
