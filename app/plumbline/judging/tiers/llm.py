"""Tier 1: chat models that judge claim by claim; evidence is checked and counts are made here."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.judge_settings import DecisionBounds
from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.judge.decision_session import DecisionSession, claims_per_request, most_questions
from plumbline.judging.judge.evidence.verdict_rules import (
    claims_that_decide,
    majority_vote,
    merge_opinions,
    scores_by_vote,
    with_reason,
)
from plumbline.judging.judge.metrics import Metric, probes_for
from plumbline.judging.judge.prepared_sample import PreparedSample, prepare_sample
from plumbline.judging.judge.questions import Mark, Prompts, Questions, random_mark
from plumbline.judging.judge.session import JudgeSession
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.ports.models import ChatModel
from plumbline.judging.ports.observation import Readiness
from plumbline.judging.text import offload
from plumbline.judging.text.injection import Inspection, inspect
from plumbline.judging.text.scores import PassCriterion
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import (
    INCOMPLETE,
    NO_ANSWERS,
    Claim,
    JudgeAccount,
    Judgement,
    Verdict,
    mark_duplicates,
    whole_sentence_claim,
)
from plumbline.judging.tiers.calibration import Calibration, CalibrationTable
from plumbline.judging.tiers.decision_bounds import DEFAULT_BOUNDS, decide, settle, undecided_claims
from plumbline.judging.tiers.decision_check import DecisionCheck
from plumbline.judging.tiers.tier import JudgeOptions, TierName

# Votes of one model at temperature 0 would be copies.
_SAMPLING_TEMPERATURE: Final = 0.7
# Share of the remaining time for a judge or endpoint with others behind it: one that hangs leaves them time.
SHARE_OF_FIRST: Final = 0.6


class LlmTier:
    """LLM judges: sentences and contexts go in as numbered data, claims with verdicts and quotes come out.

    `chats` by name: the first is asked when a sample names none. `has_controls`: ask about sentences with a known
    verdict too; a judge that gets one wrong twice fails.
    """

    name = TierName.LLM

    def __init__(
        self,
        chats: Mapping[str, ChatModel],
        prompts: Prompts,
        executor: Executor,
        *,
        max_output_tokens: int = 4096,
        mark: Mark = random_mark,
        has_controls: bool = False,
        calibrations: CalibrationTable = CalibrationTable(()),  # noqa: B008 - immutable
        bounds: Mapping[str, DecisionBounds] = MappingProxyType({}),
    ) -> None:
        self._calibrations = calibrations
        self._bounds = bounds
        self._chats = chats
        self._prompts = prompts
        self._executor = executor
        self._max_output_tokens = max_output_tokens
        self._mark = mark
        self._has_controls = has_controls

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        """Return the judgement, from one call as a rule.

        Raises TierFailure: no judge answered with a verdict on every sentence.
        """
        until = time.monotonic() + seconds
        chats = self._chats_by_name(tuple(dict.fromkeys(options.judges)))
        second = self._chats_by_name((options.escalation,))[0] if options.escalation else None
        known = [_abilities(chat) for chat in chats]
        try:
            return await self._judge(sample, options, until, chats, second)
        except TierFailure:
            # Another window, fewer questions or another kind of model than was known: it is asked accordingly.
            if [_abilities(chat) for chat in chats] == known:
                raise
        return await self.judge(sample, options, seconds=until - time.monotonic())

    async def _judge(
        self,
        sample: SegmentedSample,
        options: JudgeOptions,
        until: float,
        chats: Sequence[ChatModel],
        second: ChatModel | None,
    ) -> Judgement:
        before, asked = options.ledger.usage, (*chats, *((second,) if second else ()))
        run = partial(offload.run, executor=self._executor, inline=offload.is_small(sample.source))
        inspection, prepared = await run(lambda: self._prepare(sample, asked, options.metrics))
        check = DecisionCheck(sample, prepared.search)

        def session(chat: ChatModel) -> JudgeSession:
            if chat.kind == "chat":
                return JudgeSession(prepared, chat, options.ledger, until, self._executor)
            return DecisionSession(prepared, chat, options.ledger, until, self._executor, check=check)

        # Where a decision model fails, of its controls for example, the second judge answers in its place.
        stand_in = [second] if second and all(chat.kind != "chat" for chat in chats) else []
        lead, claims, failed = await _first_answering_session([session(chat) for chat in (*chats, *stand_in)])
        second = None if lead.chat is second else second
        answers = await lead.answer_probes(claims) if prepared.probes else NO_ANSWERS
        sessions = [lead]
        votes: list[Mapping[str, Claim]] = []
        missing = list(failed)
        if claims:
            sessions += map(session, chats[len(failed) + 1 :])
            voting: list[tuple[JudgeSession, float | None]] = [(each, None) for each in sessions[1:]]
            chatting = [each for each in sessions if each.chat.kind == "chat"]
            voting += [(each, _SAMPLING_TEMPERATURE) for each in chatting for _ in range(options.samples - 1)]
            votes, silent = await _votes(claims, voting)
            missing += silent
        vote_scores, claims = await run(lambda: (scores_by_vote(claims, votes), majority_vote(claims, votes)))
        flags = [*inspection.flags, *([INCOMPLETE] if missing else [])]
        flags += ["escalated"] if lead.chat in stand_in else []
        criterion = PassCriterion(options.threshold)
        # Several votes count as a chat model's do, without bounds.
        calibration = None if len(sessions) > 1 or options.samples > 1 else self._calibration(lead.chat, sample)
        if calibration is not None:
            bounds = self._bounds.get(lead.chat.model)
            claims = decide(claims, calibration, bounds or DEFAULT_BOUNDS)
            flags += [] if bounds else ["uncalibrated"]
        decisive = undecided_claims(claims, criterion) if calibration else claims_that_decide(claims, criterion)
        if second is not None and decisive:
            sessions.append(session(second))
            looks, failed = await _votes(decisive, [(sessions[-1], None)])
            if looks and calibration:
                claims = settle(claims, looks[0], judges=(lead.chat.model, second.model))
            elif looks:
                both = scores_by_vote(claims, looks)
                claims, vote_scores = merge_opinions(claims, looks[0]), (*(vote_scores or both[:1]), *both[1:])
            flags += ["escalated", *([INCOMPLETE] if failed else [])]
            missing += failed
        is_disputed = second is not None and len({criterion.passes(each) for each in vote_scores}) > 1
        is_undecided = calibration is not None and bool(undecided_claims(claims, criterion))
        if any("disputed" in claim.flags for claim in claims):
            flags.append("tiers_disagree")
        repeated = [name for name, count in Counter(options.judges).items() if count > 1]
        return Judgement(
            claims=await run(lambda: _claims_of_all_sentences(sample, claims)),
            account=self._account(prepared, sessions, before, options.ledger.usage),
            has_verdict_kinds=True,
            flags=tuple(dict.fromkeys((*flags, *(flag for each in sessions for flag in each.flags)))),
            warnings=(*missing, *(CodedText("judge_named_twice", name=name) for name in repeated)),
            votes=vote_scores,
            windows=len(prepared.windows),
            reliability=calibration.reliability if calibration and len(sessions) == 1 else (),
            is_unsure=is_undecided or (is_disputed and options.disputed == "unsure"),
            metrics=answers,
        )

    def identity(self, sample: SegmentedSample, options: JudgeOptions) -> str:
        """Return all that a judgement depends on besides the texts, for a cache key."""
        chats = [
            *self._chats_by_name(options.judges),
            *(self._chats_by_name((options.escalation,)) if options.escalation else ()),
        ]
        prompts = self._prompts[sample.language]
        judges = [f"{chat.name}={chat.model}{chat.variant} {chat.kind}" for chat in chats]
        limits = [str(self._max_output_tokens), str(options.samples)]
        escalation = f"{options.escalation} {options.threshold} {options.disputed}" if options.escalation else ""
        controls = ["controls"] if self._has_controls else []
        fits = [fit for chat in chats if (fit := self._calibration(chat, sample))]
        bounds = [f"{self._bounds.get(fit.model)} {fit.weights} {fit.intercept}" for fit in fits]
        probes = probes_for(options.metrics, sample.source)
        asked = [prompts.metrics.digest, *(probe.name + probe.stated for probe in probes)] if probes else []
        if any(probe.needs_reference for probe in probes):
            asked.append(hashlib.sha256((sample.source.reference or "").encode("utf-8", "surrogatepass")).hexdigest())
        digests = [each.digest for each in (prompts.verify, prompts.check, prompts.decide)]
        return "\n".join([*judges, *digests, *limits, escalation, *controls, *bounds, *asked])

    def readiness(self) -> Readiness:
        first, *others = [chat.readiness() for chat in self._chats.values()]
        return replace(first, detail="; ".join(each.detail for each in (first, *others)))

    def _calibration(self, chat: ChatModel, sample: SegmentedSample) -> Calibration | None:
        """Return the calibration of a decision model; None for a chat model."""
        if chat.kind == "chat":
            return None
        return self._calibrations.find(tier=self.name, model=chat.model, language=sample.language)

    def _chats_by_name(self, names: Sequence[str | None]) -> list[ChatModel]:
        """Return the chat models of these names, the first of all for none; raise TierFailure for an unknown one."""
        if not names:
            return [next(iter(self._chats.values()))]
        unknown = [name for name in names if name is not None and name not in self._chats]
        if unknown:
            raise TierFailure(
                FailureReason.NOT_CONFIGURED, CodedText("judge_unknown", name=unknown[0], names=tuple(self._chats))
            )
        return [self._chats[name] for name in names if name is not None]

    def _prepare(
        self, sample: SegmentedSample, asked: Sequence[ChatModel], metrics: Sequence[Metric]
    ) -> tuple[Inspection, PreparedSample]:
        inspection = inspect(sample.source)
        questions = Questions(sample, self._prompts[sample.language], self._max_output_tokens, self._mark)
        prepared = prepare_sample(
            questions,
            context_tokens=min(chat.context_tokens for chat in asked),
            metrics=metrics,
            decided=max(claims_per_request(most_questions(chat), sample) for chat in asked),
            is_chat=any(chat.kind == "chat" for chat in asked),
            has_controls=self._has_controls,
            denies=asked[0].kind != "chat",
            suspects=inspection.suspects,
        )
        return inspection, prepared

    def _account(
        self, sample: PreparedSample, sessions: Sequence[JudgeSession], before: Usage, after: Usage
    ) -> JudgeAccount:
        prompts, kind = sample.questions.prompts, sessions[0].chat.kind
        used = (prompts.verify, *((prompts.metrics,) if sample.probes else ()))
        used = used if kind == "chat" else (prompts.decide,)
        metered = (after.calls - before.calls) > (after.unmetered_calls - before.unmetered_calls)
        return JudgeAccount(
            model=", ".join(dict.fromkeys(model for each in sessions for model in each.models)),
            kind=None if kind == "chat" else kind,
            prompt=" + ".join(prompt.label for prompt in used),
            prompt_digest=" + ".join(prompt.digest for prompt in used),
            calls=after.calls - before.calls,
            prompt_tokens=after.prompt_tokens - before.prompt_tokens if metered else None,
            completion_tokens=after.completion_tokens - before.completion_tokens if metered else None,
            controls=len(sample.controls) if self._has_controls else None,
            controls_right=sessions[0].controls_right if self._has_controls else None,
        )


def _abilities(chat: ChatModel) -> tuple[str, int, int]:
    """Return what refusals of a model may teach: its kind, its window, and its most questions of a request."""
    return chat.kind, chat.context_tokens, most_questions(chat)


async def _first_answering_session(
    sessions: Sequence[JudgeSession],
) -> tuple[JudgeSession, tuple[Claim, ...], list[CodedText]]:
    """Return the first session that makes claims, its claims, and a line for each before it, which failed.

    Each but the last has a share of the time. Raises TierFailure with all details if all failed.
    """
    failures: list[tuple[JudgeSession, TierFailure]] = []
    for session in sessions:
        is_last, until, now = session is sessions[-1], session.until, time.monotonic()
        session.until = until if is_last else now + (until - now) * SHARE_OF_FIRST
        try:
            claims = await session.first_pass()
        except TierFailure as failure:
            failures.append((session, failure))
        else:
            session.until = until
            return session, claims, [_failure_line(other, failure) for other, failure in failures]
    if len(failures) == 1:
        raise failures[0][1]
    details = [CodedText("judge_says", name=session.chat.name, detail=failure.detail) for session, failure in failures]
    raise TierFailure(failures[-1][1].reason, join_texts(details)) from failures[-1][1]


def _failure_line(session: JudgeSession, failure: TierFailure) -> CodedText:
    return CodedText("judge_did_not_vote", name=session.chat.name, reason=failure.reason)


def _claims_of_all_sentences(sample: SegmentedSample, claims: Sequence[Claim]) -> tuple[Claim, ...]:
    claims_by_position: dict[int, list[Claim]] = {}
    for claim in mark_duplicates([with_reason(each) for each in claims]):
        claims_by_position.setdefault(claim.sentence, []).append(claim)
    return tuple(
        claim
        for position, sentence in enumerate(sample.sentences)
        for claim in claims_by_position.get(position)
        or [whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)]
    )


async def _votes(
    claims: Sequence[Claim], asked: Sequence[tuple[JudgeSession, float | None]]
) -> tuple[list[Mapping[str, Claim]], list[CodedText]]:
    """Return the verdicts of each session at its temperature, and a line for each judge that failed."""
    answers = await asyncio.gather(
        *(session.verdicts(claims, temperature=temperature) for session, temperature in asked), return_exceptions=True
    )
    votes: list[Mapping[str, Claim]] = []
    failed: list[CodedText] = []
    for (session, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, TierFailure):
            failed.append(_failure_line(session, answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            votes.append(answer)
    return votes, failed
