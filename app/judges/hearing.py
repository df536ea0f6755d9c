"""One sample before one chat model: a first pass over its sentences, looks at claims, and a second look at doubts."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeVar

from app.errors import FailureReason, TierFailure
from app.exchange import ChatReply, ChatRequest, Ledger
from app.generation.sample import SegmentedSample
from app.generation.verdicts import INCOMPLETE, SUPPORT_BY_VERDICT, Claim, Verdict, whole_sentence_claim
from app.generation.words import content_words
from app.judges.context_windows import Window
from app.judges.evidence.search import EvidenceSearch
from app.judges.evidence.settlement import doubts, settle
from app.judges.prompts import Prompt
from app.judges.questions import claims_question, sentences_question
from app.judges.reply_reading import ClaimReply, read_claims, read_sentences
from app.judges.tier import ChatModel

T = TypeVar("T")

# A sentence takes about 90 tokens of a reply: this many are far from filling one of 4,096.
_TOKENS_PER_SENTENCE: Final = 100
_UNANSWERED: Final = "unanswered"
# Best first when windows disagree: whoever saw the passage is right.
_RANK: Final = {
    Verdict.SUPPORTED: 4,
    Verdict.PARTIAL: 3,
    Verdict.CONTRADICTED: 2,
    Verdict.NOT_MENTIONED: 1,
    Verdict.NOT_A_CLAIM: 0,
}


@dataclass(frozen=True, slots=True)
class Prompts:
    """The instructions in the language of the sample."""

    verify: Prompt
    check: Prompt


@dataclass(frozen=True, slots=True)
class Case:
    """A sample made ready for judges: cut into windows, its contexts searchable."""

    segmented: SegmentedSample
    windows: tuple[Window, ...]
    search: EvidenceSearch
    prompts: Prompts
    max_output_tokens: int

    @property
    def verdicts_a_reply(self) -> int:
        """How many sentences or claims one reply has room for."""
        return max(1, self.max_output_tokens // _TOKENS_PER_SENTENCE)


@dataclass(slots=True)
class Hearing:
    """What is asked of one chat model about one sample; `flags` and `models` fill up as it answers.

    Args:
        until: the monotonic second at which an answer is of no use any more.
        executor: where replies are read and quotes searched.
    """

    case: Case
    chat: ChatModel
    ledger: Ledger
    until: float
    executor: Executor
    flags: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)

    async def claims(self) -> tuple[Claim, ...]:
        """The claims of every checkable sentence with their verdicts, in the order of the answer.

        One call, as a rule; more where the contexts need several windows or the answer several replies, and one for
        what is missing or doubtful.

        Raises:
            TierFailure: a call failed, or sentences stay without a verdict.
        """
        first, *others = self.case.windows
        batches = list(_batches(self.case))
        drafted = await _all(self._draft(batch, first) for batch in batches)
        claims = [claim for draft in drafted for claim in draft]
        if others:
            claims = await self._read_on(claims, others)
        return await self._second_look(claims)

    async def verdicts(self, claims: Sequence[Claim], *, temperature: float | None = None) -> Mapping[str, Claim]:
        """This model's verdicts on claims that another one made, over all windows; those it left out are missing."""
        found = await _all(self._check(claims, window, temperature) for window in self.case.windows)
        best: dict[str, Claim] = {}
        for verdicts in found:
            for claim_id, claim in verdicts.items():
                best[claim_id] = _better(best[claim_id], claim) if claim_id in best else claim
        return best

    async def _draft(self, batch: Mapping[int, int], window: Window) -> list[Claim]:
        """The claims of a batch of sentences; a sentence without a readable answer is one unanswered claim."""
        case = self.case
        reply = await self._ask(
            sentences_question(
                case.prompts.verify,
                case.segmented,
                window=window,
                batch=batch,
                max_output_tokens=case.max_output_tokens,
            )
        )

        def read() -> list[Claim]:
            reading = read_sentences(reply.content, batch.values(), is_truncated=reply.is_truncated)
            self.flags.update(dict.fromkeys(reading.flags))
            claims: list[Claim] = []
            for position, number in batch.items():
                replies = reading.claims.get(number)
                if replies is None:
                    claims.append(_unanswered(position, case.segmented))
                    continue
                for order, said in enumerate(replies):
                    blank = whole_sentence_claim(position, case.segmented.sentences[position], verdict=said.verdict)
                    text, flags = _own_words(said.claim, blank.text)
                    made = replace(blank, id=f"{position}.{order}", text=text)
                    settled = self._settled(made, said)
                    claims.append(replace(settled, flags=(*settled.flags, *flags)))
            return claims

        return await self._in_worker(read)

    async def _read_on(self, claims: list[Claim], windows: Sequence[Window]) -> list[Claim]:
        """The claims after the other windows, each of which is asked for what the first did not support."""
        open_claims = [claim for claim in claims if claim.is_checkable and claim.verdict is not Verdict.SUPPORTED]
        if not open_claims:
            return claims
        best = {claim.id: claim for claim in claims}
        for found in await _all(self._check(open_claims, window) for window in windows):
            for claim_id, claim in found.items():
                best[claim_id] = _better(best[claim_id], claim)
        return list(best.values())

    async def _second_look(self, claims: list[Claim]) -> tuple[Claim, ...]:
        """One more question about what is missing or doubtful, in the window that speaks most of it.

        Raises:
            TierFailure: sentences are still without a verdict. A look that was only for doubts fails in silence but
                for the flag `second_look_failed`.
        """
        asked = [claim for claim in claims if _UNANSWERED in claim.flags or doubts(claim)]
        if not asked:
            return tuple(claims)
        window = await self._in_worker(lambda: _nearest_window(asked, self.case.windows))
        try:
            looked = await self._check(asked, window)
        except TierFailure:
            if any(_UNANSWERED in claim.flags for claim in asked):
                raise
            self.flags |= {"second_look_failed": None, INCOMPLETE: None}
            return tuple(claims)
        settled = [_after_second_look(claim, looked.get(claim.id)) for claim in claims]
        missing = sum(_UNANSWERED in claim.flags for claim in settled)
        if missing:
            raise self._incomplete(missing)
        return tuple(settled)

    async def _check(
        self, claims: Sequence[Claim], window: Window, temperature: float | None = None
    ) -> dict[str, Claim]:
        """The claims that this model gave a verdict on, by id, with that verdict."""
        size = self.case.verdicts_a_reply
        parts = [claims[start : start + size] for start in range(0, len(claims), size)]
        found = await _all(self._check_some(part, window, temperature) for part in parts)
        return {claim_id: claim for some in found for claim_id, claim in some.items()}

    async def _check_some(self, claims: Sequence[Claim], window: Window, temperature: float | None) -> dict[str, Claim]:
        case = self.case
        reply = await self._ask(
            claims_question(
                case.prompts.check,
                case.segmented,
                window=window,
                claims=claims,
                max_output_tokens=case.max_output_tokens,
                temperature=temperature,
            )
        )

        def read() -> dict[str, Claim]:
            reading = read_claims(reply.content, {claim.id for claim in claims}, is_truncated=reply.is_truncated)
            self.flags.update(dict.fromkeys(reading.flags))
            return {
                claim.id: self._settled(replace(claim, flags=(), evidence=()), reading.claims[claim.id])
                for claim in claims
                if claim.id in reading.claims
            }

        return await self._in_worker(read)

    def _settled(self, claim: Claim, said: ClaimReply) -> Claim:
        cited = [number - 1 for number in said.context_ids]
        located = [self.case.search.locate(quote, cited) for quote in said.quotes]
        evidence = tuple(dict.fromkeys(each for each in located if each is not None))
        moved = bool(cited) and any(each.verified and each.context not in cited for each in evidence)
        return settle(
            replace(
                claim,
                verdict=said.verdict,
                support=SUPPORT_BY_VERDICT.get(said.verdict),
                reason=said.reason or None,
                evidence=evidence,
                flags=("context_id_repaired",) if moved else (),
            ),
            self.case.search,
            is_derived=said.derived,
        )

    async def _ask(self, request: ChatRequest) -> ChatReply:
        reply = await self.chat.complete(request, seconds=max(0.0, self.until - time.monotonic()), ledger=self.ledger)
        self.models[reply.model] = None
        return reply

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)

    def _incomplete(self, missing: int) -> TierFailure:
        if "truncated_reply" in self.flags:
            return TierFailure(
                FailureReason.TRUNCATED_REPLY, f"the model's replies were cut and leave out {missing} sentences"
            )
        return TierFailure(
            FailureReason.INVALID_REPLY, f"the model's replies hold no valid verdict on {missing} sentences"
        )


async def _all(calls: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """What the calls return; when one fails the others are stopped, and its failure rises."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _batches(case: Case) -> Iterator[dict[int, int]]:
    """The checkable sentences in runs whose verdicts fit into one reply: numbers from 1 by position."""
    numbered = iter({position: number for number, position in enumerate(case.segmented.checkable, start=1)}.items())
    while batch := dict(islice(numbered, case.verdicts_a_reply)):
        yield batch


def _own_words(claim: str, sentence: str) -> tuple[str, tuple[str, ...]]:
    """The claim, or its sentence when the two have no content word in common: what was not said is not judged."""
    wanted = frozenset(content_words(sentence))
    if claim and (not wanted or wanted & frozenset(content_words(claim))):
        return claim, ()
    return sentence, ("claim_replaced",) if claim else ()


def _unanswered(position: int, case: SegmentedSample) -> Claim:
    return whole_sentence_claim(
        position, case.sentences[position], verdict=Verdict.NOT_MENTIONED, support=0.0, flags=(_UNANSWERED,)
    )


def _better(one: Claim, other: Claim) -> Claim:
    """The claim of the window that saw more."""
    if _UNANSWERED in one.flags:
        return other
    return max(one, other, key=lambda claim: (_RANK[claim.verdict], -len(doubts(claim))))


def _after_second_look(claim: Claim, looked: Claim | None) -> Claim:
    """The claim as the second look leaves it: a verdict without doubts replaces one with them."""
    if looked is None:
        return claim
    if _UNANSWERED in claim.flags or len(doubts(looked)) < len(doubts(claim)):
        return replace(looked, flags=(*looked.flags, "second_look"))
    return claim


def _nearest_window(claims: Sequence[Claim], windows: Sequence[Window]) -> Window:
    """The window with most of the claims' words in it."""
    if len(windows) == 1:
        return windows[0]
    wanted = {word for claim in claims for word in content_words(claim.text)}

    def shared(window: Window) -> int:
        return len(wanted & {word for piece in window for word in content_words(piece.text)})

    return max(windows, key=shared)
