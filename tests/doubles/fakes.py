"""Stand-ins for the world beyond the judges: an encoder, tiers and a chat model that do as they are told."""

import asyncio
import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from plumbline.ground.errors import TierFailure
from plumbline.ground.judge_settings import JudgeKind
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.verdicts import Claim, JudgeAccount, Judgement, Verdict
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.models.encoder.model_files import find_preset
from tests.doubles.request_ids import with_request_ids

# A Han character is a word of its own; the rest are runs of letters and digits.
_WORD = re.compile("[\u3400-\u9fff]|[^\\W_\u3400-\u9fff]+")
_DIMENSION = 1_024


def case_of(answer: str, *contexts: str, question: str = "") -> SegmentedSample:
    """The sample, cut into sentences."""
    return segment(Sample(question, contexts, answer))


def claim_of(verdict: Verdict, support: float | None, *, number: int = 0) -> Claim:
    """A claim that only its verdict and support matter of."""
    return Claim(f"{number}.0", number, "text", 0, 4, verdict, support)


def judgement_of(*claims: Claim, has_verdict_kinds: bool = True) -> Judgement:
    """A judgement of these claims."""
    return Judgement(claims=claims, account=JudgeAccount(model="fake"), has_verdict_kinds=has_verdict_kinds)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class WordEncoder:
    """A SentenceEncoder with a token for each word, and for each word a direction of its own.

    The cosine of two tokens is 1 for one word and 0 for two, so that a sentence's alignment is the share of its words
    that stand in any context. A text without words has one token of its own. Words share directions after 1,023.

    Args:
        model: its name.
        state: what `readiness` says.
        unknown_words: casefolded words that it counts as unknown.
        max_words: of a text, those that it reads.
        languages: None for those known by its name.
    """

    def __init__(
        self,
        model: str = "words",
        *,
        state: State = State.READY,
        unknown_words: Collection[str] = (),
        max_words: int = 100_000,
        languages: Collection[str] | None = None,
    ) -> None:
        self.model = model
        self.languages = find_preset(model.partition("@")[0]).languages if languages is None else frozenset(languages)
        self.encoded: list[list[str]] = []
        self._state = state
        self._unknown_words = frozenset(unknown_words)
        self._max_words = max_words
        self._words = [""]
        self._id_by_word = {"": 0}

    async def read(self, texts: Sequence[str], *, seconds: float) -> TokenizedTexts:
        words = [_WORD.findall(text.casefold()) for text in texts]
        return TokenizedTexts(
            tokens=[[self._id(word) for word in of_text[: self._max_words] or [""]] for of_text in words],
            counts=[len(of_text) for of_text in words],
            unknown=[sum(word in self._unknown_words for word in of_text) for of_text in words],
            is_overlong=[len(of_text) > self._max_words for of_text in words],
        )

    async def encode(
        self,
        reading: TokenizedTexts,
        *,
        seconds: float,
        scope: str = "",
        ledger: Ledger | None = None,
    ) -> TokenVectors:
        """As a model does; `encoded` keeps the words of each text, call by call, joined by blanks."""
        self.encoded.append([" ".join(self._words[token] for token in row) for row in reading.tokens])
        lengths = [len(row) for row in reading.tokens]
        vectors = np.zeros((sum(lengths), _DIMENSION), dtype=np.float32)
        directions = [token and (token - 1) % (_DIMENSION - 1) + 1 for row in reading.tokens for token in row]
        vectors[np.arange(len(directions)), directions] = 1.0
        return TokenVectors(vectors, np.cumsum([0, *lengths]))

    def readiness(self) -> Readiness:
        return Readiness(self._state, self.model)

    def _id(self, word: str) -> int:
        if word not in self._id_by_word:
            self._id_by_word[word] = len(self._words)
            self._words.append(word)
        return self._id_by_word[word]


class AnsweringTier:
    """A tier that answers at once; `budgets` are the seconds it was given, call by call."""

    def __init__(self, name: TierName) -> None:
        self.name = name
        self.judgement = judgement_of(claim_of(Verdict.SUPPORTED, 1.0))
        self.budgets: list[float] = []

    async def judge(self, case: SegmentedSample, ask: JudgeOptions, *, seconds: float) -> Judgement:
        self.budgets.append(seconds)
        return self.judgement

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "answers")


class FailingTier(AnsweringTier):
    """A tier that raises: a `TierFailure` is one that cannot answer, anything else one with a bug."""

    def __init__(self, name: TierName, error: TierFailure | Exception) -> None:
        super().__init__(name)
        self._error = error

    async def judge(self, case: SegmentedSample, ask: JudgeOptions, *, seconds: float) -> Judgement:
        self.budgets.append(seconds)
        raise self._error


class SlowTier(AnsweringTier):
    """A tier that takes all the time it is given, and more."""

    async def judge(self, case: SegmentedSample, ask: JudgeOptions, *, seconds: float) -> Judgement:
        self.budgets.append(seconds)
        await asyncio.sleep(3_600)
        return self.judgement


class ScriptedChat:
    """A ChatModel that gives its replies in turn, the last one for ever, and keeps the requests.

    Args:
        replies: texts, in which ids count from 1, whole replies, or failures to raise.
    """

    model = "scripted"
    kind: JudgeKind = "chat"
    variant = ""

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
        if isinstance(reply, str):
            reply = ChatReply(reply, "scripted-1")
        return replace(reply, content=with_request_ids(reply.content, request.user))

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "scripted: nowhere")
