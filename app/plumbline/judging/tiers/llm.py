"""Tier 1: chat models that judge claim by claim, with evidence that is checked here and counts that are made here."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Final

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.exchange import Usage, estimated_tokens
from plumbline.judging.ports.readiness import Readiness
from plumbline.judging.text.duplicates import mark_duplicates
from plumbline.judging.text.injection import Inspection, inspect
from plumbline.judging.text.sample import SegmentedSample
from plumbline.judging.text.verdicts import INCOMPLETE, Claim, JudgeAccount, Judgement, Verdict, whole_sentence_claim
from plumbline.judging.tiers.context_windows import Window, context_windows
from plumbline.judging.tiers.evidence.search import EvidenceSearch
from plumbline.judging.tiers.hearing import Case, Hearing, Prompts
from plumbline.judging.tiers.panel import escalated, faithfulness_by_vote, majority, worth_escalating
from plumbline.judging.tiers.placement import is_small, placed
from plumbline.judging.tiers.prompts import PromptLibrary
from plumbline.judging.tiers.questions import Mark, random_mark
from plumbline.judging.tiers.tier import Ask, ChatModel, TierName

# Votes of one model differ only where it is unsure; at 0 they would be copies.
_SAMPLING_TEMPERATURE: Final = 0.7


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of the tier: one that makes claims and judges them, one that judges claims made already."""

    verify: PromptLibrary
    check: PromptLibrary

    def for_case(self, case: SegmentedSample) -> Prompts:
        """Those in the language of the answer."""
        return Prompts(self.verify.for_language(case.language), self.check.for_language(case.language))


def windows_of(
    case: SegmentedSample, prompts: Prompts, *, context_tokens: int, max_output_tokens: int
) -> tuple[Window, ...]:
    """The contexts as a model of so many tokens reads them.

    Raises:
        TierFailure: `too_long`.
    """
    instructions = max(estimated_tokens(prompt.system + prompt.user) for prompt in (prompts.verify, prompts.check))
    # The longest batch of sentences is not known yet: room for the whole answer, up to half of what there is.
    room = context_tokens - instructions - max_output_tokens - estimated_tokens(case.sample.question)
    tokens = room - min(estimated_tokens(case.sample.answer) * 2, room // 2)
    if tokens <= 0:
        raise TierFailure(FailureReason.TOO_LONG, f"question and instructions leave no room in {context_tokens} tokens")
    return context_windows(case.sample.contexts, case.context_sentences, tokens=tokens)


class LlmTier:
    """LLM judges: sentences and contexts go in as numbered data, claims with verdicts and quotes come out."""

    name = TierName.LLM

    def __init__(
        self,
        chats: Mapping[str, ChatModel],
        prompts: PromptSet,
        executor: Executor,
        *,
        max_output_tokens: int = 4096,
        mark: Mark = random_mark,
    ) -> None:
        """Args:
        chats: by name; the first is asked when a sample names none.
        mark: makes the marks around the data of a question.
        """
        self._chats = chats
        self._prompts = prompts
        self._executor = executor
        self._max_output_tokens = max_output_tokens
        self._mark = mark

    async def judge(self, case: SegmentedSample, ask: Ask, *, seconds: float) -> Judgement:
        """The judgement, from one call as a rule.

        Raises:
            TierFailure: the first judge did not answer, or not with a verdict on every sentence.
        """
        until, before = time.monotonic() + seconds, ask.ledger.usage
        chats = self._asked(ask.judges)
        second = self._asked((ask.escalation,))[0] if ask.escalation else None
        smallest = min(chat.context_tokens for chat in (*chats, *((second,) if second else ())))
        inspection, prepared = await placed(
            lambda: self._prepare(case, smallest), self._executor, is_small=is_small(case.sample)
        )

        def hearing(chat: ChatModel) -> Hearing:
            return Hearing(prepared, chat, ask.ledger, until, self._executor)

        lead = hearing(chats[0])
        claims = await lead.claims()
        hearings = [lead]
        votes, missing = await self._votes(claims, [hearing(chat) for chat in chats[1:]], lead, ask.samples, hearings)
        ballots = faithfulness_by_vote(claims, votes)
        claims = majority(claims, votes)
        flags = [*inspection.flags, *([INCOMPLETE] if missing else [])]
        if second is not None:
            doubtful = worth_escalating(claims, threshold=ask.threshold, is_suspect=bool(inspection.flags))
            if doubtful:
                hearings.append(hearing(second))
                claims, ballots, failed = await self._escalate(claims, ballots, doubtful, hearings[-1])
                flags += ["escalated", *([INCOMPLETE] if failed else [])]
                missing += failed
        return Judgement(
            claims=_with_headings(case, mark_duplicates(claims)),
            account=self._account(prepared, hearings, before, ask.ledger.usage),
            has_verdict_kinds=True,
            flags=tuple(dict.fromkeys((*flags, *(flag for each in hearings for flag in each.flags)))),
            warnings=tuple(missing),
            votes=ballots,
            windows=len(prepared.windows),
        )

    def identity(self, case: SegmentedSample, ask: Ask) -> str:
        """What a judgement depends on besides the texts, for a cache."""
        chats = [*self._asked(ask.judges), *(self._asked((ask.escalation,)) if ask.escalation else ())]
        prompts = self._prompts.for_case(case)
        parts = [
            *(f"{chat.name}={chat.model}" for chat in chats),
            prompts.verify.digest,
            prompts.check.digest,
            str(self._max_output_tokens),
            str(ask.samples),
            f"{ask.escalation} {ask.threshold}" if ask.escalation else "",
        ]
        return "\n".join(parts)

    def readiness(self) -> Readiness:
        """The state of the first judge, and a line on each of the others."""
        first, *others = [chat.readiness() for chat in self._chats.values()]
        return replace(first, detail="; ".join(each.detail for each in (first, *others)))

    def _asked(self, names: Sequence[str | None]) -> list[ChatModel]:
        """The chat models of these names; the first of all when there are none.

        Raises:
            TierFailure: `not_configured`, for a name that nobody has.
        """
        if not names:
            return [next(iter(self._chats.values()))]
        unknown = [name for name in names if name not in self._chats]
        if unknown:
            raise TierFailure(
                FailureReason.NOT_CONFIGURED, f"no judge is named {unknown[0]!r}; there are {', '.join(self._chats)}"
            )
        return [self._chats[name] for name in names if name is not None]

    def _prepare(self, case: SegmentedSample, context_tokens: int) -> tuple[Inspection, Case]:
        inspection = inspect(case.sample)
        prompts = self._prompts.for_case(case)
        windows = windows_of(case, prompts, context_tokens=context_tokens, max_output_tokens=self._max_output_tokens)
        search = EvidenceSearch(
            case.sample.contexts,
            excluded=inspection.excluded,
            sentences=case.context_sentences,
            index=case.index,
        )
        return inspection, Case(
            case, windows, search, prompts, self._max_output_tokens, is_small(case.sample), self._mark
        )

    async def _votes(
        self, claims: Sequence[Claim], others: Sequence[Hearing], lead: Hearing, samples: int, hearings: list[Hearing]
    ) -> tuple[list[Mapping[str, Claim]], list[str]]:
        """The verdicts of every other vote that came, and a warning for each that did not."""
        checkable = [claim for claim in claims if claim.is_checkable]
        if not checkable:
            return [], []
        asked: list[tuple[Hearing, float | None]] = [(each, None) for each in others]
        asked += [(each, _SAMPLING_TEMPERATURE) for each in (lead, *others) for _ in range(samples - 1)]
        hearings.extend(others)
        answers = await asyncio.gather(
            *(each.verdicts(checkable, temperature=temperature) for each, temperature in asked), return_exceptions=True
        )
        return _sorted_out([each for each, _ in asked], answers)

    async def _escalate(
        self, claims: tuple[Claim, ...], ballots: tuple[float, ...], doubtful: Sequence[Claim], hearing: Hearing
    ) -> tuple[tuple[Claim, ...], tuple[float, ...], list[str]]:
        answers = await asyncio.gather(hearing.verdicts(doubtful), return_exceptions=True)
        votes, failed = _sorted_out([hearing], answers)
        if not votes:
            return claims, ballots, failed
        both = faithfulness_by_vote(claims, votes)
        return escalated(claims, votes[0]), (*(ballots or both[:1]), *both[1:]), failed

    def _account(self, case: Case, hearings: Sequence[Hearing], before: Usage, after: Usage) -> JudgeAccount:
        metered = (after.calls - before.calls) > (after.unmetered_calls - before.unmetered_calls)
        return JudgeAccount(
            model=", ".join(dict.fromkeys(model for each in hearings for model in each.models)),
            prompt=case.prompts.verify.label,
            prompt_digest=case.prompts.verify.digest,
            calls=after.calls - before.calls,
            prompt_tokens=after.prompt_tokens - before.prompt_tokens if metered else None,
            completion_tokens=after.completion_tokens - before.completion_tokens if metered else None,
        )


def _sorted_out(
    hearings: Sequence[Hearing], answers: Sequence[Mapping[str, Claim] | BaseException]
) -> tuple[list[Mapping[str, Claim]], list[str]]:
    """The votes, and a line for each judge that failed; any other exception is a bug and rises."""
    votes: list[Mapping[str, Claim]] = []
    failed: list[str] = []
    for hearing, answer in zip(hearings, answers, strict=True):
        if isinstance(answer, TierFailure):
            failed.append(f"judge {hearing.chat.name} did not vote ({answer.reason})")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            votes.append(answer)
    return votes, failed


def _with_headings(case: SegmentedSample, claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """The claims in the order of the answer, and between them the sentences that nobody judges."""
    by_position: dict[int, list[Claim]] = {}
    for claim in claims:
        by_position.setdefault(claim.sentence, []).append(claim)
    found: list[Claim] = []
    for position, sentence in enumerate(case.sentences):
        made = by_position.get(position)
        found.extend(made or [whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)])
    return tuple(found)
