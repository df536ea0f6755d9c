"""What a tier is, and what it needs from the world: protocols that backends fulfil without importing this room."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.errors import FailureReason, TierFailure
from app.generation.sample import SegmentedSample
from app.generation.verdicts import Judgement
from app.readiness import Readiness, State


class TierName(StrEnum):
    """The tiers, in the order in which they are asked."""

    LLM = "llm"
    EMBEDDING = "embedding"
    LEXICAL = "lexical"


class Tier(Protocol):
    """One way to judge an answer."""

    @property
    def name(self) -> TierName: ...

    async def judge(self, case: SegmentedSample, *, seconds: float) -> Judgement:
        """The tier's judgement within `seconds`.

        Raises:
            TierFailure: the tier cannot answer this sample now; the cascade goes on. Anything else is a bug.
        """
        ...

    def readiness(self) -> Readiness: ...


class ChatReply(Protocol):
    """What a chat model said. Token counts are the provider's, None where it gave none."""

    @property
    def content(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def prompt_tokens(self) -> int | None: ...
    @property
    def completion_tokens(self) -> int | None: ...


class ChatModel(Protocol):
    """A chat model behind any provider."""

    @property
    def model(self) -> str: ...

    async def complete(self, *, system: str, user: str) -> ChatReply:
        """One complete, non-empty reply in JSON mode where the provider has it.

        Raises:
            TierFailure: with the reason; a cut, empty, filtered or refused reply is a failure, never a reply.
        """
        ...

    def describe(self) -> str:
        """Provider, model and host in one line, without a key."""
        ...


class SentenceEncoder(Protocol):
    """A model that turns short texts into unit vectors."""

    @property
    def model(self) -> str: ...

    async def encode(self, texts: Sequence[str], *, seconds: float) -> NDArray[np.float32]:
        """Shape (len(texts), dimension), rows of length 1.

        Raises:
            TierFailure: the model is not there, cannot be loaded, or did not finish in time.
        """
        ...

    async def unknown_share(self, texts: Sequence[str], *, seconds: float) -> float:
        """Share of the texts' tokens that the model's vocabulary does not hold, in [0, 1]."""
        ...

    async def overlong(self, texts: Sequence[str], *, seconds: float) -> int:
        """How many of the texts are longer than the model reads; it does not see their ends."""
        ...

    def readiness(self) -> Readiness: ...


class AbsentTier:
    """A tier that this process does not have: it fails with the reason for it, so that results can say so."""

    def __init__(self, name: TierName, *, reason: FailureReason, detail: str) -> None:
        self._name = name
        self._reason = reason
        self._detail = detail

    @property
    def name(self) -> TierName:
        return self._name

    async def judge(self, case: SegmentedSample, *, seconds: float) -> Judgement:
        """Never judges.

        Raises:
            TierFailure: always.
        """
        raise TierFailure(self._reason, self._detail)

    def readiness(self) -> Readiness:
        return Readiness(State.UNAVAILABLE, self._detail)
