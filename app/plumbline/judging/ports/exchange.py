"""Exchanges with models: requests to a chat model, replies, usage and cost; findings of a detector."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from plumbline.judging.ports.numbering import OURS, Numbering

_ASCII_CHARACTERS_PER_TOKEN = 3
# English text has some 4.2 characters a token. A strong model's replies to 96 questions in version 2 of the prompts had
# 107 tokens a sentence; version 3 leaves out a quarter to two fifths of them, version 4 a seventh of the rest.
_USED_SHARE = 0.72
_OUTPUT_TOKENS_PER_VERDICT = 70
_OUTPUT_FRAME_TOKENS = 30


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a chat model.

    Args:
        user: the data, between its markers, and the task.
        schema: JSON schema of the reply, sent where the provider takes one; `system` says it in words too.
        ids: the values that members of the reply may have, by their names, for servers that hold replies to them.
        max_output_tokens: bound on the reply, thinking included where the provider counts it so.
        verdicts: number of sentences or claims that the reply is about.
        temperature: None for the provider's own default of this service, which is 0 where it takes one.
        numbering: of what `user` shows, by which a reply is known to be this request's.
    """

    system: str
    user: str
    schema_name: str
    schema: Mapping[str, object]
    max_output_tokens: int
    verdicts: int = 1
    temperature: float | None = None
    ids: Mapping[str, Sequence[object]] = field(default_factory=dict)
    numbering: Numbering = OURS

    @property
    def expected_output_tokens(self) -> int:
        """Return the tokens that a usual reply has."""
        return min(self.max_output_tokens, _OUTPUT_FRAME_TOKENS + _OUTPUT_TOKENS_PER_VERDICT * self.verdicts)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text from above: three ASCII characters each, one of any other script."""
    ascii_count = len(text) if text.isascii() else len(text.encode("ascii", errors="ignore"))
    return ascii_count // _ASCII_CHARACTERS_PER_TOKEN + (len(text) - ascii_count) + 1


def expected_tokens(most: int) -> int:
    """Return the tokens that a provider usually counts where `estimate_tokens` says `most`."""
    return round(most * _USED_SHARE)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """Reply of a chat model: never empty, thinking removed.

    `is_truncated`: it was cut before its end. `has_thoughts`: the model thought before it.
    """

    content: str
    model: str
    is_truncated: bool = False
    has_thoughts: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of chat models, summed over calls.

    calls: requests that reached a provider, retries included. unmetered_calls: of these, those for which it gave no
    count of tokens. Tokens are the provider's counts, summed. cost: in the currency of the price table; None while a
    call was made whose price is not known.
    """

    calls: int = 0
    unmetered_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            unmetered_calls=self.unmetered_calls + other.unmetered_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
        )


@dataclass(slots=True)
class Ledger:
    """Account of one sample's calls, written call by call, so that it is known also when the sample fails.

    Args:
        max_cost: bound on the cost; None for none. A call is made if what was spent, the worst cases of the calls under
            way and its own expected cost stay within it: so no more than one call's reply can exceed it.
        can_wait: the sample is one of many, and waits for a provider that asks for patience.
    """

    max_cost: float | None = None
    can_wait: bool = False
    usage: Usage = field(default=Usage(), init=False)
    _reserved: float = field(default=0.0, init=False)
    _released: asyncio.Event = field(default_factory=asyncio.Event, init=False, compare=False)

    @asynccontextmanager
    async def reserve(self, expected: float | None, worst_case: float | None) -> AsyncIterator[bool]:
        """Reserve the worst case of a call while it is in flight; yield False when `max_cost` has no room for it.

        Calls under way mostly cost less than they reserve: wait for them where the room depends on it. Where there is a
        bound, a call whose price is not known (None) has no room in it.
        """
        known = worst_case or 0.0
        while not (is_affordable := self._has_room(expected, self._reserved)) and self._has_room(expected, 0.0):
            self._released.clear()
            await self._released.wait()
        self._reserved += known if is_affordable else 0.0
        try:
            yield is_affordable
        finally:
            self._reserved -= known if is_affordable else 0.0
            self._released.set()

    def _has_room(self, expected: float | None, reserved: float) -> bool:
        if self.max_cost is None:
            return True
        spent = self.usage.cost
        return expected is not None and spent is not None and spent + reserved + expected <= self.max_cost

    def add_call(
        self, *, prompt_tokens: int | None, completion_tokens: int | None, cached_tokens: int | None, cost: float | None
    ) -> None:
        """Record one call; `cost` None: the price is unknown, tokens None: the provider gave no count."""
        is_metered = prompt_tokens is not None or completion_tokens is not None
        self.usage += Usage(
            calls=1,
            unmetered_calls=int(not is_metered),
            prompt_tokens=prompt_tokens or 0,
            completion_tokens=completion_tokens or 0,
            cached_tokens=cached_tokens or 0,
            cost=cost,
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A context, its number, and the characters [start, end) of its sentences, in order."""

    number: int
    text: str
    sentences: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DetectorFinding:
    """Finding of a detector for one claim.

    `support` in [0, 1]; `is_denied`: the passages say the opposite. `words`: characters [start, end) of each word of
    the claim's text with its own support, of detectors that mark words.
    """

    support: float
    is_denied: bool = False
    words: Sequence[tuple[int, int, float]] = ()


@dataclass(frozen=True, slots=True)
class DetectorReading:
    """The findings, one for each claim. `cut`: share of the claims' characters that the model could not read."""

    findings: Sequence[DetectorFinding]
    cut: float = 0.0
