"""One sample before one chat model: a first pass over its sentences, checks of claims, a second look at doubts."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.controls import Control, control_claims, count_right
from plumbline.judging.judge.evidence.verdict_rules import (
    NO_CLAIM,
    UNANSWERED,
    UNCOVERED,
    is_open,
    is_unproven,
    name_doubts,
    with_flags,
)
from plumbline.judging.judge.prepared_sample import PreparedSample
from plumbline.judging.judge.probes import AskedProbes, Material, ProbeProgress, split_by_window
from plumbline.judging.judge.replies import (
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
from plumbline.judging.text.verdicts import INCOMPLETE, Claim, MetricAnswers, Verdict
from plumbline.judging.text.words import content_words

T = TypeVar("T")
IdT = TypeVar("IdT", int, str)

# Answers of five sentences and more took 118 tokens a sentence on average, and up to 162.
_TOKENS_PER_SENTENCE: Final = 160
# Of one sample: the loop handles all replies that have come before it looks at other requests, at 1 to 2 ms each.
_CALLS_AT_ONCE: Final = 16
_SHARE_OF_METRICS: Final = 0.8
# Best first when windows disagree, as the verdicts are declared: the one with the passage is right.
_RANK: Final = {verdict: -place for place, verdict in enumerate(Verdict)}


def verdicts_per_reply(max_output_tokens: int) -> int:
    return max(1, max_output_tokens // _TOKENS_PER_SENTENCE)


def expected_requests(prepared: PreparedSample, *, is_first: bool) -> Iterator[ChatRequest]:
    """Yield the requests of one vote on a sample: no second looks, no escalation, no retries.

    The first vote (`is_first`) makes the claims, which later windows and votes ask about: here every sentence is one.
    """
    questions, (first, *others) = prepared.questions, prepared.windows
    batches = prepared.split_into_replies(verdicts_per_reply(questions.max_output_tokens))
    material = Material(prepared.segmented, prepared.search)
    probes = [(each, each.ids(material)) for each in prepared.probes] if is_first else []
    joined = [each for each in probes if len(batches) == 1 and not others and not each[0].needs_reference]
    if apart := [each for each in probes if each not in joined]:
        yield questions.on_probes(first, apart, ())
    for batch in batches:
        claims, controls = prepared.sentence_claims(batch), prepared.controls_beside(batch)
        if is_first:
            yield questions.on_sentences(first, batch, controls=controls, probes=joined)
        else:
            yield questions.on_claims(first, [*claims, *control_claims(prepared.segmented, controls.values())])
        for window in others:
            yield questions.on_claims(window, claims)


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
    _controls_left: Mapping[int, Control] = field(init=False)

    def __post_init__(self) -> None:
        self._progress = ProbeProgress(self.sample.probes, self.sample.segmented, self.sample.search)
        self._controls_left = self.sample.controls

    @property
    def _most_claims(self) -> int:
        """Return the most sentences or claims of one request."""
        return verdicts_per_reply(self.sample.questions.max_output_tokens)

    async def first_pass(self) -> tuple[Claim, ...]:
        """Return the claims of every checkable sentence with their verdicts, in the order of the answer.

        One call, as a rule; more where the contexts need several windows or the answer several replies, and one for
        what is missing or not proven.

        Raises TierFailure: a call failed, sentences stay without a verdict, or a control is wrong twice.
        """
        first, *others = self.sample.windows
        batches = self.sample.split_into_replies(self._most_claims)
        # A judge that sees the whole answer and all contexts can be asked for everything at once.
        probes = self._progress.take(None) if len(batches) == 1 and not others else []
        drafted = await _all(self._draft(batch, first, probes) for batch in batches)
        claims = [claim for draft in drafted for claim in draft]
        open_claims = [claim for claim in claims if claim.is_checkable and claim.verdict is not Verdict.SUPPORTED]
        if others and open_claims:
            checked = await _all(self._check(open_claims, window) for window in others)
            claims = list(_best([{claim.id: claim for claim in claims}, *checked]).values())
        return await self._second_look(claims)

    async def verdicts(self, claims: Sequence[Claim], *, temperature: float | None = None) -> Mapping[str, Claim]:
        """Return this model's verdicts on another one's claims, over all windows; those it left out are missing.

        Raises TierFailure: a call failed, or the model gets a control wrong twice.
        """
        first, *others = self.sample.windows
        asked = [self._check(claims, first, temperature, controls=self.sample.controls)]
        return _best(await _all([*asked, *(self._check(claims, window, temperature) for window in others)]))

    async def answer_probes(self, claims: Sequence[Claim]) -> MetricAnswers:
        """Return the verdicts for metrics, after one short call for what the first reply left out or did not prove.

        Those that compare with a reference are asked for here, in the same call. A failure is in the answers; it is
        never raised.
        """
        failures: dict[str, str] = {}
        while asked := [each for each in self._progress.take(claims) if each[0].name not in failures]:
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

        async def ask(controls: Mapping[int, Control]) -> tuple[list[Claim], tuple[int, int]]:
            wanted = (*batch.values(), *controls)

            def read(reply: ChatReply, numbering: Numbering) -> Reading[int]:
                reading = read_sentences(reply.content, wanted, numbering, is_truncated=reply.is_truncated)
                # Some lists have no ids: with sentences of another numbering they are not ours either.
                if reading.claims or UNKNOWN_IDS not in reading.flags:
                    self._progress.read(reply, numbering, probes, (), is_alone=False)
                return reading

            claims, reading = await self._ask(
                partial(sample.questions.on_sentences, window, batch, controls=controls, probes=probes),
                read,
                lambda reading: build_claims(reading, batch, sample.segmented, sample.search),
            )
            return claims, count_right(controls, reading, batch.values())

        return await self._ask_with_controls(ask, sample.controls_beside(batch))

    async def _ask_with_controls(
        self,
        ask: Callable[[Mapping[int, Control]], Awaitable[tuple[T, tuple[int, int]]]],
        controls: Mapping[int, Control],
    ) -> T:
        """Return the answer of a judge that gets these controls right; where it gets one wrong, ask it once more.

        `ask` returns an answer, and how many controls are right and wrong in the reply.

        Raises TierFailure: `controls_failed`.
        """
        # In the other order it is another question, for batch files too.
        for tried in (controls, dict(zip(controls, reversed(list(controls.values())), strict=True))):
            answer, (right, wrong) = await ask(tried)
            if not wrong:
                self.controls_right = max(self.controls_right, right)
                self._controls_left = {} if right else self._controls_left
                return answer
        raise TierFailure(FailureReason.CONTROLS_FAILED, CodedText("controls_wrong"))

    async def _second_look(self, claims: list[Claim]) -> tuple[Claim, ...]:
        """Ask once more about missing or unproven claims, in the window that has most of their words.

        Raises TierFailure for sentences still without a verdict, and for controls, of which an unread reply had none;
        a failed look at anything else sets `second_look_failed`.
        """
        asked = [claim for claim in claims if is_open(claim)]
        controls = self._controls_left
        if not asked and not controls:
            return tuple(claims)
        window = await offload.run(
            lambda: self.sample.windows[0] if controls else _nearest_window(asked, self.sample.windows),
            self.executor,
            inline=self.sample.is_small,
        )
        try:
            found = await self._check(asked, window, doubts=name_doubts(asked), controls=controls)
        except TierFailure as failure:
            if controls or any(UNANSWERED in claim.flags for claim in asked):
                raise
            # In batch files the question may simply wait for the next round.
            is_waiting = failure.reason is FailureReason.NOT_ASKED
            self.flags |= {"not_asked" if is_waiting else "second_look_failed": None, INCOMPLETE: None}
            return tuple(claims)
        claims = [_apply_second_look(claim, found.get(claim.id)) for claim in claims]
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
        doubts: Mapping[str, str] = MappingProxyType({}),
        controls: Mapping[int, Control] = MappingProxyType({}),
    ) -> dict[str, Claim]:
        size = self._most_claims

        async def check(part: Sequence[Claim], controls: Mapping[int, Control]) -> dict[str, Claim]:
            async def ask(controls: Mapping[int, Control]) -> tuple[dict[str, Claim], tuple[int, int]]:
                shown = control_claims(self.sample.segmented, controls.values())
                checked, reading = await self._judge_claims(part, shown, window, doubts, temperature)
                known = dict(zip((each.id for each in shown), controls.values(), strict=True))
                return checked, count_right(known, reading, (each.id for each in part))

            return await self._ask_with_controls(ask, controls)

        parts = [claims[start : start + size] for start in range(0, max(1, len(claims)), size)]
        return _best(await _all(check(part, {} if number else controls) for number, part in enumerate(parts)))

    async def _judge_claims(
        self,
        claims: Sequence[Claim],
        controls: Sequence[Claim],
        window: Window,
        doubts: Mapping[str, str],
        temperature: float | None,
    ) -> tuple[dict[str, Claim], Reading[str]]:
        """Return the claims with the verdicts of one request, by id, and its reading, which has the controls too."""
        asked = {each.id: each for each in (*claims, *controls)}
        return await self._ask(
            partial(
                self.sample.questions.on_claims, window, list(asked.values()), doubts=doubts, temperature=temperature
            ),
            lambda reply, numbering: read_claims(
                reply.content, list(asked), numbering, is_truncated=reply.is_truncated
            ),
            lambda reading: build_checked_claims(reading, claims, self.sample.search),
        )

    async def _ask(
        self,
        question: Callable[[], ChatRequest],
        read: Callable[[ChatReply, Numbering], Reading[IdT]],
        build: Callable[[Reading[IdT]], T],
        *,
        share: float = 1.0,
    ) -> tuple[T, Reading[IdT]]:
        """Ask, and return what is built from the reply, with its reading.

        It is parsed in a thread where texts are long, or quotes must be searched.
        """
        request = await offload.run(question, self.executor, inline=self.sample.is_small)
        seconds = max(0.0, share * (self.until - time.monotonic()))
        reply = await self.chat.complete(request, seconds=seconds, ledger=self.ledger)
        self.models[reply.model] = None
        is_small = self.sample.is_small and offload.are_small((reply.content,))
        reading = await offload.run(lambda: read(reply, request.numbering), self.executor, inline=is_small)
        self.flags.update(dict.fromkeys(reading.flags))
        # A quote that stands nowhere verbatim takes milliseconds to look for.
        is_quick = is_small and all(map(self.sample.search.stands_verbatim, reading.quotes()))
        return await offload.run(lambda: build(reading), self.executor, inline=is_quick), reading


async def _all(calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Await the calls together; when one fails, cancel the others and raise its failure.

    One that is only not asked yet cancels none: the others' questions go into the same batch file.
    """
    coroutines = list(calls)
    if len(coroutines) == 1:
        # As a rule: it needs no task.
        return [await coroutines[0]]

    answers: dict[int, T] = {}
    waiting: list[TierFailure] = []

    async def answer(place: int) -> None:
        try:
            answers[place] = await coroutines[place]
        except TierFailure as failure:
            if failure.reason is not FailureReason.NOT_ASKED:
                raise
            waiting.append(failure)

    try:
        async with aclosing(map_concurrently(answer, range(len(coroutines)), limit=_CALLS_AT_ONCE)) as answering:
            async for _ in answering:
                pass
    finally:
        for each in coroutines:
            each.close()
    if waiting:
        raise waiting[0]
    return [answers[place] for place in range(len(coroutines))]


def _best(found: Iterable[Mapping[str, Claim]]) -> dict[str, Claim]:
    """Return the best verdict on each claim by its id, the first of equals."""
    best: dict[str, Claim] = {}
    for verdicts in found:
        for claim_id, other in verdicts.items():
            one = best.setdefault(claim_id, other)
            if UNANSWERED in one.flags:
                best[claim_id] = other
            else:
                best[claim_id] = max(
                    one, other, key=lambda each: (_RANK[each.verdict], not is_open(each), each.support or 0.0)
                )
    return best


def _apply_second_look(claim: Claim, second: Claim | None) -> Claim:
    """Return the second look's verdict; without a quote that is found it changes none."""
    if second is None or (is_unproven(second) and UNANSWERED not in claim.flags):
        return claim
    return with_flags(second, *({NO_CLAIM, UNCOVERED} & set(claim.flags)), "second_look")


def _nearest_window(claims: Sequence[Claim], windows: Sequence[Window]) -> Window:
    if len(windows) == 1:
        return windows[0]
    wanted = {word for claim in claims for word in content_words(claim.text)}
    return max(windows, key=lambda window: len(wanted & {word for each in window for word in content_words(each.text)}))
