"""Input of the main job; importing it costs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ContextLabels:
    """Names by which an answer may cite a context; None where the caller gave none.

    `lead`: characters at the start of the context that are its title, put before the caller's text.
    """

    id: str | None = None
    title: str | None = None
    source: str | None = None
    tool: str | None = None
    lead: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.id, self.title, self.source, self.tool) if name)


NO_LABELS = ContextLabels()


def join_labels(labels: Sequence[ContextLabels]) -> tuple[ContextLabels, ...]:
    """Return the labels of a sample's contexts; empty if none has any."""
    return tuple(labels) if any(each != NO_LABELS for each in labels) else ()


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the assistant in a conversation.

    `message`: its position; `start` and `end`: its place in the answers of all turns; `contexts`: indices of those that
    are evidence for it; `question`: the user's message before it; `history`: what was said before it.
    """

    message: int
    start: int
    end: int
    contexts: tuple[int, ...]
    question: str
    history: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A question, the retrieved contexts, and the answer.

    `context_labels` are those of the contexts in order, or empty if no context has any. Of a conversation the contexts
    and the answer are those of all `turns`, and `conversation` holds the fields it was read from. `history` says what
    an answer's pronouns may stand for; it is no evidence.
    """

    question: str
    contexts: tuple[str, ...]
    answer: str
    reference: str | None = None
    context_labels: tuple[ContextLabels, ...] = ()
    turns: tuple[Turn, ...] = ()
    conversation: Mapping[str, object] | None = field(default=None, hash=False)
    history: str = ""

    @property
    def asked(self) -> str:
        """Return the question as a judge reads it, with what was said before it."""
        return self.history or self.question

    @property
    def labelled_contexts(self) -> tuple[tuple[str, ContextLabels], ...]:
        """Return the contexts with their labels."""
        return tuple(zip(self.contexts, self.context_labels or (NO_LABELS,) * len(self.contexts), strict=True))
