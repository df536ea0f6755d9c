"""One sample before one chat model: a first pass over its sentences, checks of claims, a second look at doubts."""

import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final, TypeVar

from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.controls import FAILED, Control, count_right
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import (
    NO_CLAIM,
    SUPPORT,
    UNCOVERED,
    accuse_doubtful_no_claim,
    has_nothing_to_quote,
    name_doubts,
    review_flags,
    with_flags,
    with_shown_calculation,
)
from plumbline.judging.judge.probes import AskedProbes, Probe, ProbeProgress, split_by_window
from plumbline.judging.judge.questions import Questions
from plumbline.judging.judge.replies import (
    REPLACED,
    UNANSWERED,
    UNKNOWN_IDS,
    Reading,
    build_checked_claims,
    build_claims,
    read_claims,
    read_sentences,
)
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.models import ChatModel
from plumbline.judging.ports.numbering import Numbering
from plumbline.judging.text import offload
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import INCOMPLETE, Claim, MetricAnswers, Verdict
from plumbline.judging.text.words import content_words

T = TypeVar("T")
IdT = TypeVar("IdT", int, str)

# Answers of five sentences and more took 118 tokens a sentence on average, and up to 162.
_TOKENS_PER_SENTENCE: Final = 160
# Of one sample: the loop handles all replies that have come before it looks at other requests, at 1 to 2 ms each.
_CALLS_AT_ONCE: Final = 16
_SHARE_OF_METRICS: Final = 0.8
_NO_DOUBTS: Final[Mapping[str, str]] = MappingProxyType({})
# Best first when windows disagree: the one with the passage is right.
_RANK: Final = {
    Verdict.SUPPORTED: 4,
    Verdict.PARTIAL: 3,
    Verdict.CONTRADICTED: 2,
    Verdict.NOT_MENTIONED: 1,
    Verdict.NOT_A_CLAIM: 0,
}


def split_into_replies(sample: SegmentedSample, max_output_tokens: int) -> Iterator[dict[int, int]]:
    """Yield the checkable sentences in runs whose verdicts fit into one reply: numbers from 1 by position."""
    numbered = iter({position: number for number, position in enumerate(sample.checkable, start=1)}.items())
    while batch := dict(islice(numbered, verdicts_per_reply(max_output_tokens))):
        yield batch


def verdicts_per_reply(max_output_tokens: int) -> int:
    return max(1, max_output_tokens // _TOKENS_PER_SENTENCE)


@dataclass(frozen=True, slots=True)
class PreparedSample:
    """A sample prepared for judges: windows cut, contexts searchable, `controls` drawn. `is_small`: see `offload`."""

    questions: Questions
    windows: tuple[Window, ...]
    search: EvidenceSearch
    is_small: bool
    controls: Mapping[int, Control] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()

    @property
    def segmented(self) -> SegmentedSample:
        return self.questions.sample


@dataclass(slots=True)
class JudgeSession:
    """Requests to one chat model about one sample until a monotonic second; `flags` and `models` fill as it answers."""

    sample: PreparedSample
    chat: ChatModel
    ledger: Ledger
    until: float
    executor: Executor
    flags: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    controls_right: int = 0
    _progress: ProbeProgress = field(init=False)

    def __post_init__(self) -> None:
        self._progress = ProbeProgress(self.sample.probes, self.sample.segmented, self.sample.search)

    async def first_pass(self) -> tuple[Claim, ...]:
        """Return the claims of every checkable sentence with their verdicts, in the order of the answer.

        One call, as a rule; more where the contexts need several windows or the answer several replies, and one for
        what is missing or doubtful.

        Raises:
            TierFailure: a call failed, or sentences stay without a verdict.
        """
        first, *others = self.sample.windows
        batches = list(split_into_replies(self.sample.segmented, self.sample.questions.max_output_tokens))
        # A judge that sees the whole answer and all contexts can be asked for everything at once.
        probes = self._progress.take_joined() if len(batches) == 1 and not others else []
        drafted = await _all(self._draft(batch, first, probes) for batch in batches)
        claims = [claim for draft in drafted for claim in draft]
        open_claims = [claim for claim in claims if claim.is_checkable and claim.verdict is not Verdict.SUPPORTED]
        if others and open_claims:
            checked = await _all(self._check(open_claims, window) for window in others)
            claims = list(_best([{claim.id: claim for claim in claims}, *checked]).values())
        claims = list(await self._second_look(claims))
        if FAILED not in self.flags:
            return tuple(claims)
        return tuple(with_flags(each, SUPPORT) if each.verdict is Verdict.SUPPORTED else each for each in claims)

    async def verdicts(self, claims: Sequence[Claim], *, temperature: float | None = None) -> Mapping[str, Claim]:
        """Return this model's verdicts on another one's claims, over all windows; those it left out are missing."""
        return _best(await _all(self._check(claims, window, temperature) for window in self.sample.windows))

    async def answer_probes(self, claims: Sequence[Claim]) -> MetricAnswers:
        """Return the verdicts for metrics, after one short call for what the first reply left out or did not prove.

        Those that compare with a reference are asked for here, in the same call. A failure is in the answers; it is
        never raised.
        """
        failures: dict[str, str] = {}
        while asked := [each for each in self._progress.take_open(claims) if each[0].name not in failures]:
            try:
                await _all(self._ask_probes(*each, claims) for each in split_by_window(asked, self.sample.windows))
            except TierFailure as failure:
                failures |= {probe.name: str(failure.reason) for probe, _ in asked}
                self.flags |= {"not_asked": None} if failure.reason is FailureReason.NOT_ASKED else {}
        answers = self._progress.answers(claims, failures)
        if answers.failures:
            self.flags[INCOMPLETE] = None
        return answers

    async def _ask_probes(self, asked: AskedProbes, window: Window, claims: Sequence[Claim]) -> None:
        def read(reply: ChatReply, numbering: Numbering) -> Reading[str]:
            self._progress.read(reply, numbering, asked, claims, is_alone=True)
            return Reading({})

        await self._ask(
            partial(self.sample.questions.on_probes, window, asked, claims),
            read,
            lambda _: None,
            # A metric must not take the time in which the tier would answer with what it has.
            share=_SHARE_OF_METRICS,
        )

    async def _draft(self, batch: Mapping[int, int], window: Window, probes: AskedProbes) -> list[Claim]:
        sample = self.sample
        controls = sample.controls if 1 in batch.values() else {}
        wanted = (*batch.values(), *controls)

        def read(reply: ChatReply, numbering: Numbering) -> Reading[int]:
            reading = read_sentences(reply.content, wanted, numbering, is_truncated=reply.is_truncated)
            # Some lists have no ids: with sentences of another numbering they are not ours either.
            if reading.claims or UNKNOWN_IDS not in reading.flags:
                self._progress.read(reply, numbering, probes, (), is_alone=False)
            return reading

        reading, claims = await self._ask(
            partial(
                sample.questions.on_sentences,
                window,
                batch,
                controls={number: control.text for number, control in controls.items()},
                probes=probes,
            ),
            read,
            lambda reading: (reading, build_claims(reading, batch, sample.segmented, sample.search)),
        )
        is_whole = all(number in reading.claims for number in batch.values())
        right, wrong = count_right(controls, reading.claims, is_whole=is_whole)
        self.controls_right += right
        if wrong:
            self.flags[FAILED] = None
        return claims

    async def _second_look(self, claims: list[Claim]) -> tuple[Claim, ...]:
        """Ask once more about missing or doubtful claims, in the window that has most of their words.

        Raises TierFailure for sentences still without a verdict; a failed look at doubts sets `second_look_failed`.
        """
        asked = [claim for claim in claims if UNANSWERED in claim.flags or review_flags(claim)]
        if not asked:
            return tuple(claims)
        search = self.sample.search
        window, asked = await offload.run(
            lambda: (
                _nearest_window(asked, self.sample.windows),
                [claim for claim in asked if not has_nothing_to_quote(claim, search)],
            ),
            self.executor,
            inline=self.sample.is_small,
        )
        if not asked:
            return tuple(claims)
        try:
            found = await self._check(asked, window, doubts=name_doubts(asked))
        except TierFailure as failure:
            if any(UNANSWERED in claim.flags for claim in asked):
                raise
            # In batch files the question may simply wait for the next round.
            is_open = failure.reason is FailureReason.NOT_ASKED
            self.flags |= {"not_asked" if is_open else "second_look_failed": None, INCOMPLETE: None}
            return tuple(claims)
        claims = await offload.run(
            lambda: [
                accuse_doubtful_no_claim(_apply_second_look(claim, found.get(claim.id)), search) for claim in claims
            ],
            self.executor,
            inline=self.sample.is_small,
        )
        missing = sum(UNANSWERED in claim.flags for claim in claims)
        if missing and "truncated_reply" in self.flags:
            raise TierFailure(FailureReason.TRUNCATED_REPLY, CodedText("replies_cut", count=missing))
        if missing:
            raise TierFailure(FailureReason.INVALID_REPLY, CodedText("replies_without_verdicts", count=missing))
        return tuple(claims)

    async def _check(
        self,
        claims: Sequence[Claim],
        window: Window,
        temperature: float | None = None,
        *,
        doubts: Mapping[str, str] = _NO_DOUBTS,
    ) -> dict[str, Claim]:
        sample = self.sample

        def check(part: Sequence[Claim]) -> Coroutine[None, None, dict[str, Claim]]:
            ids = [claim.id for claim in part]
            return self._ask(
                partial(sample.questions.on_claims, window, part, doubts=doubts, temperature=temperature),
                lambda reply, numbering: read_claims(reply.content, ids, numbering, is_truncated=reply.is_truncated),
                lambda reading: build_checked_claims(reading, part, sample.search),
            )

        size = verdicts_per_reply(sample.questions.max_output_tokens)
        return _best(await _all(check(claims[start : start + size]) for start in range(0, len(claims), size)))

    async def _ask(
        self,
        question: Callable[[], ChatRequest],
        read: Callable[[ChatReply, Numbering], Reading[IdT]],
        build: Callable[[Reading[IdT]], T],
        *,
        share: float = 1.0,
    ) -> T:
        """Ask, and parse the reply into claims; in a thread where texts are long, or quotes must be searched."""
        request = await offload.run(question, self.executor, inline=self.sample.is_small)
        seconds = max(0.0, share * (self.until - time.monotonic()))
        reply = await self.chat.complete(request, seconds=seconds, ledger=self.ledger)
        self.models[reply.model] = None
        is_small = self.sample.is_small and offload.are_small((reply.content,))
        reading = await offload.run(lambda: read(reply, request.numbering), self.executor, inline=is_small)
        self.flags.update(dict.fromkeys(reading.flags))
        # A quote that stands nowhere verbatim takes milliseconds to look for.
        is_quick = is_small and all(map(self.sample.search.stands_verbatim, reading.quotes()))
        return await offload.run(lambda: build(reading), self.executor, inline=is_quick)


async def _all(calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Await the calls together; when one fails, cancel the others and raise its failure.

    One that is only not asked yet cancels none: the others' questions go into the same batch file.
    """
    coroutines = list(calls)
    if len(coroutines) == 1:
        # As a rule: it needs no task.
        return [await coroutines[0]]

    async def answer(place: int) -> tuple[int, T | TierFailure]:
        try:
            return place, await coroutines[place]
        except TierFailure as failure:
            if failure.reason is not FailureReason.NOT_ASKED:
                raise
            return place, failure

    try:
        async with aclosing(map_concurrently(answer, range(len(coroutines)), limit=_CALLS_AT_ONCE)) as answering:
            answer_by_place = dict([each async for each in answering])
    finally:
        for each in coroutines:
            each.close()
    answers: list[T] = []
    for place in range(len(coroutines)):
        if isinstance(found := answer_by_place[place], TierFailure):
            raise found
        answers.append(found)
    return answers


def _best(found: Iterable[Mapping[str, Claim]]) -> dict[str, Claim]:
    """Return the best verdict on each claim by its id, the first of equals."""
    best: dict[str, Claim] = {}
    for verdicts in found:
        for claim_id, other in verdicts.items():
            one = best.setdefault(claim_id, other)
            if UNANSWERED in one.flags:
                best[claim_id] = other
            else:
                best[claim_id] = max(one, other, key=lambda claim: (_RANK[claim.verdict], -len(review_flags(claim))))
    return best


def _apply_second_look(claim: Claim, second: Claim | None) -> Claim:
    """Return the second look's verdict and flags if it answers the doubt."""
    if second is None:
        return claim
    shown = with_shown_calculation(second)
    is_new = not {UNANSWERED, UNCOVERED, NO_CLAIM}.isdisjoint(claim.flags)
    if is_new or shown is not second or len(review_flags(second)) < len(review_flags(claim)):
        kept = (flag for flag in claim.flags if flag in (REPLACED, UNCOVERED, NO_CLAIM))
        return replace(shown, flags=(*shown.flags, *kept, "second_look"))
    return claim


def _nearest_window(claims: Sequence[Claim], windows: Sequence[Window]) -> Window:
    if len(windows) == 1:
        return windows[0]
    wanted = {word for claim in claims for word in content_words(claim.text)}

    def shared(window: Window) -> int:
        return len(wanted & {word for piece in window for word in content_words(piece.text)})

    return max(windows, key=shared)
