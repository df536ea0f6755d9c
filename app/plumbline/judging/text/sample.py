"""Input of the main job, and conversations as samples, an answer each; importing it costs nothing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args


@dataclass(frozen=True, slots=True)
class ContextLabels:
    """Names by which an answer may cite a context; `lead`: characters of the title before the caller's text."""

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
        return self.history or self.question

    @property
    def labelled_contexts(self) -> tuple[tuple[str, ContextLabels], ...]:
        return tuple(zip(self.contexts, self.context_labels or (NO_LABELS,) * len(self.contexts), strict=True))


TurnContexts = Literal["so_far", "this_turn"]
Passage = tuple[str, ContextLabels]

TURN_CONTEXTS: Final[tuple[TurnContexts, ...]] = get_args(TurnContexts)
EVIDENCE_ROLES: Final = ("user", "system")
_BETWEEN_ANSWERS = "\n\n"
# History kept for an answer: enough for its pronouns, and little next to the contexts.
_MOST_HISTORY = 8
_MOST_OF_MESSAGE = 1_000


@dataclass(frozen=True, slots=True)
class Message:
    """A message in any provider's format. `role`: user, assistant, system or tool; `passages`: what came with it."""

    role: str
    text: str = ""
    passages: tuple[Passage, ...] = ()


def build_conversation(
    messages: Sequence[Message],
    contexts: Sequence[Passage] = (),
    *,
    reference: str | None = None,
    evidence_roles: Collection[str] = (),
    turn_contexts: TurnContexts = "so_far",
    given: Mapping[str, object],
) -> Sample:
    """Return the sample of a conversation, with a turn for each message of the assistant that has a text.

    Args:
        contexts: known before the first message; evidence for every turn.
        reference: a correct last answer.
        evidence_roles: `user` and `system` messages are evidence for what follows them only where named here.
        turn_contexts: `so_far`: all that came before an answer is evidence; `this_turn`: what came after the last
            message of a user.
        given: the fields it was read from.
    """
    passages, turns = list(contexts), list[Turn]()
    texts, said = list[str](), list[str]()
    turn_start, length, question, last_role = len(passages), 0, "", ""
    for number, message in enumerate(messages):
        if message.role == "user" and last_role != "user":
            turn_start = len(passages)
        last_role = message.role
        passages += message.passages
        text = message.text
        if not text.strip():
            continue
        if message.role in evidence_roles:
            passages.append((text, ContextLabels(source=f"{message.role}, message {number}")))
        if message.role == "assistant":
            first = turn_start if turn_contexts == "this_turn" else len(contexts)
            known = (*range(len(contexts)), *range(first, len(passages)))
            history = "\n".join(said[-_MOST_HISTORY:]) if len(said) > 1 else ""
            turns.append(Turn(number, length, length + len(text), known, question, history))
            texts.append(text)
            length += len(text) + len(_BETWEEN_ANSWERS)
        elif message.role == "user":
            question = text
        if message.role in ("user", "assistant"):
            said.append(f"{message.role}: {text[:_MOST_OF_MESSAGE]}")
    return Sample(
        question,
        tuple(text for text, _ in passages),
        _BETWEEN_ANSWERS.join(texts),
        reference,
        join_labels([labels for _, labels in passages]),
        tuple(turns),
        given,
    )


def turn_sample(sample: Sample, turn: Turn) -> Sample:
    """Return the sample of one turn; the reference is for the last one alone."""
    known = [sample.labelled_contexts[index] for index in turn.contexts]
    return Sample(
        turn.question,
        tuple(text for text, _ in known),
        sample.answer[turn.start : turn.end],
        sample.reference if turn is sample.turns[-1] else None,
        join_labels([labels for _, labels in known]),
        history=turn.history,
    )


def turn_samples(sample: Sample) -> tuple[Sample, ...]:
    """Return the samples to judge: those of its turns, or itself if it has none."""
    return tuple(turn_sample(sample, turn) for turn in sample.turns) or (sample,)
