"""Stand-ins for the world beyond the judges: an encoder, tiers and a chat model that do as they are told."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.errors import TierFailure
from app.exchange import ChatReply, ChatRequest, Ledger
from app.generation.sample import Sample, SegmentedSample, segment
from app.generation.verdicts import Claim, JudgeAccount, Judgement, Verdict
from app.judges.tier import Ask, TierName
from app.readiness import Readiness, State

P = ParamSpec("P")
T = TypeVar("T")

# A Han character is a word of its own; the rest are runs of letters and digits.
_WORD = re.compile("[\u3400-\u9fff]|[^\\W_\u3400-\u9fff]+")
_DIMENSION = 8_192


def case_of(answer: str, *contexts: str, question: str = "") -> SegmentedSample:
    """The sample, cut into sentences."""
    return segment(Sample(question, contexts, answer))


def claim_of(verdict: Verdict, support: float | None, *, number: int = 0) -> Claim:
    """A claim that only its verdict and support matter of."""
    return Claim(f"{number}.0", number, "text", 0, 4, verdict, support)


def judgement_of(*claims: Claim, has_verdict_kinds: bool = True) -> Judgement:
    """A judgement of these claims."""
    return Judgement(claims=claims, account=JudgeAccount(model="fake"), has_verdict_kinds=has_verdict_kinds)


class InlineExecutor(Executor):
    """Runs what it is given at once and in the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class BagOfWordsEncoder:
    """A SentenceEncoder whose vectors say which words a text holds, whatever their order and number.

    The cosine of two texts with A and B as their sets of words is |A ∩ B| / sqrt(|A| |B|): 1 for the same words, 0 for
    disjoint ones. Each word has a dimension of its own, so that none collide.
    """

    def __init__(self, *, model: str = "bag-of-words", unknown_words: Collection[str] = ()) -> None:
        self.model = model
        self.encoded: list[list[str]] = []
        self.max_characters = 100_000
        self._unknown_words = frozenset(unknown_words)
        # Texts without any word share the first dimension.
        self._dimension_by_word: dict[str, int] = {"": 0}

    async def encode(self, texts: Sequence[str], *, seconds: float) -> NDArray[np.float32]:
        self.encoded.append(list(texts))
        vectors = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in _words(text) or {""}:
                vectors[row, self._dimension_by_word.setdefault(word, len(self._dimension_by_word))] = 1.0
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    async def overlong(self, texts: Sequence[str], *, seconds: float) -> int:
        return sum(len(text) > self.max_characters for text in texts)

    async def unknown_share(self, texts: Sequence[str], *, seconds: float) -> float:
        words = [word for text in texts for word in _WORD.findall(text.casefold())]
        return sum(word in self._unknown_words for word in words) / len(words) if words else 0.0

    def readiness(self) -> Readiness:
        return Readiness(State.READY, self.model)


class AnsweringTier:
    """A tier that answers at once; `budgets` are the seconds it was given, call by call."""

    def __init__(self, name: TierName) -> None:
        self.name = name
        self.judgement = judgement_of(claim_of(Verdict.SUPPORTED, 1.0))
        self.budgets: list[float] = []

    async def judge(self, case: SegmentedSample, ask: Ask, *, seconds: float) -> Judgement:
        self.budgets.append(seconds)
        return self.judgement

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "answers")


class FailingTier(AnsweringTier):
    """A tier that raises: a `TierFailure` is one that cannot answer, anything else one with a bug."""

    def __init__(self, name: TierName, error: TierFailure | Exception) -> None:
        super().__init__(name)
        self._error = error

    async def judge(self, case: SegmentedSample, ask: Ask, *, seconds: float) -> Judgement:
        self.budgets.append(seconds)
        raise self._error


class SlowTier(AnsweringTier):
    """A tier that takes all the time it is given, and more."""

    async def judge(self, case: SegmentedSample, ask: Ask, *, seconds: float) -> Judgement:
        self.budgets.append(seconds)
        await asyncio.sleep(3_600)
        return self.judgement


class ScriptedChat:
    """A ChatModel that gives its replies in turn, the last one for ever, and keeps the requests.

    Args:
        replies: texts, whole replies, or failures to raise.
    """

    model = "scripted"

    def __init__(
        self, *replies: str | ChatReply | TierFailure, name: str = "default", context_tokens: int = 32_768
    ) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self.requests: list[ChatRequest] = []
        self._replies = deque(replies)

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        self.requests.append(request)
        ledger.add_call(prompt_tokens=11, completion_tokens=7, cached_tokens=None, cost=None)
        reply = self._replies.popleft() if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, TierFailure):
            raise reply
        return reply if isinstance(reply, ChatReply) else ChatReply(reply, "scripted-1")

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "scripted: nowhere")


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
