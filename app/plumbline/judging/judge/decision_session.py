"""One sample before one decision model: questions for each sentence, whose answers are probabilities and no text."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.controls import control_claims
from plumbline.judging.judge.decision_metrics import (
    NOT_ASKED,
    MetricKey,
    MetricQuestion,
    metric_answers,
    metric_questions,
    questions_shown,
)
from plumbline.judging.judge.evidence.verdict_rules import UNANSWERED, UNANSWERED_QUESTION
from plumbline.judging.judge.prepared_sample import PreparedSample, split_into_runs
from plumbline.judging.judge.probes import AskedProbes
from plumbline.judging.judge.questions import NO_PASSAGE, asks_for_passages
from plumbline.judging.judge.replies import ClaimReply, Reading
from plumbline.judging.judge.session import JudgeSession
from plumbline.judging.ports.decisions import DecisionReply, DecisionRequest
from plumbline.judging.ports.models import ChatModel, DecisionModel
from plumbline.judging.text import offload
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import INCOMPLETE, Claim, Evidence, MetricAnswers, Verdict

# Each claim of a request may name each context: with more of both, that is most of it.
_MOST_CLAIMS: Final = 48


def most_questions(chat: ChatModel) -> int:
    """Return the most questions of a request to a decision model; 0 for a chat model."""
    # A model of any other kind is one of decisions.
    return 0 if chat.kind == "chat" else cast(DecisionModel, chat).questions


def claims_per_request(questions: int, sample: SegmentedSample, *, controls: int = 2) -> int:
    """Return the most claims of a request with so many questions, some of them about controls; 0 for no questions."""
    return min(_MOST_CLAIMS, max(1, (questions - controls) // _questions_a_claim(sample))) if questions else 0


def _questions_a_claim(sample: SegmentedSample) -> int:
    """Return the number of questions about a sentence: its verdict, and its passage where that is asked."""
    return 2 if asks_for_passages(sample) else 1


def expected_decisions(prepared: PreparedSample, *, questions: int) -> Iterator[DecisionRequest]:
    """Yield the requests on a sample to a model that is asked so many questions at a time."""
    sample, build = prepared.segmented, prepared.questions.on_decisions
    others = metric_questions(prepared.probes, sample, prepared.questions.prompts.decide.parts)
    for batch in prepared.split_into_replies(claims_per_request(questions, sample)):
        claims = prepared.sentence_claims(batch)
        controls = control_claims(sample, prepared.controls_beside(batch).values())
        joined = _select_joined(prepared, others, claims, controls, questions)
        others = {} if joined else others
        for window in prepared.windows:
            yield build(window, claims, controls if window is prepared.windows[0] else (), joined)[0]
    for window in prepared.windows:
        asked = questions_shown(others, window)
        others = {key: question for key, question in others.items() if key not in asked}
        for part in split_into_runs(asked, questions):
            yield build(window, (), (), part)[0]


def _select_joined(
    prepared: PreparedSample,
    others: Mapping[MetricKey, MetricQuestion],
    claims: Sequence[Claim],
    controls: Sequence[Claim],
    questions: int,
) -> Mapping[MetricKey, MetricQuestion]:
    """Return the questions for metrics where they go with all claims: a model sees answer and contexts whole."""
    is_whole = len(prepared.windows) == 1 and len(claims) == len(prepared.segmented.checkable)
    room = questions - _questions_a_claim(prepared.segmented) * len(claims) - len(controls)
    return others if is_whole and len(others) <= room else {}


@dataclass(slots=True)
class DecisionSession(JudgeSession):
    """Questions to a decision model about one sample, in place of requests for text.

    A claim is a whole sentence. `check` finds the place of each in the context that the model named, and compares it.
    One without a valid answer is flagged `unanswered`.
    """

    check: Callable[[Sequence[Claim]], Sequence[Claim]] = list
    _metrics: Mapping[MetricKey, MetricQuestion] = field(init=False)
    _metric_chances: dict[MetricKey, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        JudgeSession.__post_init__(self)
        parts = self.sample.questions.prompts.decide.parts
        self._metrics = metric_questions(self.sample.probes, self.sample.segmented, parts)

    @property
    def _most_claims(self) -> int:
        return claims_per_request(most_questions(self.chat), self.sample.segmented, controls=len(self.sample.controls))

    async def verdicts(self, claims: Sequence[Claim], *, temperature: float | None = None) -> Mapping[str, Claim]:
        found = await JudgeSession.verdicts(self, claims)
        return {claim.id: claim for claim in await self._checked(list(found.values()))}

    async def answer_probes(self, claims: Sequence[Claim]) -> MetricAnswers:
        """Return the verdicts for metrics; what had no room beside the claims is asked for here, once.

        A failure is in the answers; it is never raised.
        """
        for window in self.sample.windows:
            for part in split_into_runs(self._open_metrics(window), most_questions(self.chat)):
                with contextlib.suppress(TierFailure):
                    await self._ask_about((), (), window, part)
        found = metric_answers(self.sample.probes, self.sample.segmented, self._metrics, self._metric_chances)
        if any(reason != NOT_ASKED for reason in found.failures.values()):
            self.flags[INCOMPLETE] = None
        return found

    def _open_metrics(self, window: Window) -> dict[MetricKey, MetricQuestion]:
        """Return the questions without an answer that this window can answer."""
        asked = questions_shown(self._metrics, window)
        return {key: question for key, question in asked.items() if key not in self._metric_chances}

    async def _draft(self, batch: Mapping[int, int], window: Window, probes: AskedProbes) -> list[Claim]:
        claims = self.sample.sentence_claims(batch)
        found = await self._check(claims, window, controls=self.sample.controls_beside(batch))
        return [found[claim.id] for claim in claims]

    async def _second_look(self, claims: list[Claim]) -> tuple[Claim, ...]:
        """Return the claims, checked: each question without an answer was asked twice.

        Raises TierFailure if no claim has an answer.
        """
        if all(UNANSWERED in claim.flags for claim in claims):
            raise TierFailure(FailureReason.INVALID_REPLY, CodedText("replies_without_verdicts", count=len(claims)))
        return tuple(await self._checked(claims))

    async def _checked(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        return await offload.run(lambda: self.check(claims), self.executor, inline=self.sample.is_small)

    async def _judge_claims(
        self,
        claims: Sequence[Claim],
        controls: Sequence[Claim],
        window: Window,
        doubts: Mapping[str, str],
        temperature: float | None,
    ) -> tuple[dict[str, Claim], Reading[str]]:
        others = _select_joined(self.sample, self._open_metrics(window), claims, controls, most_questions(self.chat))
        chances, refused = await self._ask_about(claims, controls, window, others)
        verdicts = {
            claim_id: (ClaimReply(verdict=Verdict(_likeliest(each))),)
            for (claim_id, kind), each in chances.items()
            if kind == "verdict"
        }
        flags = (UNANSWERED_QUESTION,) if refused else ()
        return {claim.id: _decided_claim(claim, chances) for claim in claims}, Reading(verdicts, flags)

    async def _ask_about(
        self,
        claims: Sequence[Claim],
        controls: Sequence[Claim],
        window: Window,
        others: Mapping[MetricKey, MetricQuestion],
    ) -> tuple[dict[tuple[str, str], Mapping[str, float]], bool]:
        """Return the probabilities by what each question is about, and True if one was declined."""
        build = partial(self.sample.questions.on_decisions, window, claims, controls, others)
        request, places = await offload.run(build, self.executor, inline=self.sample.is_small)
        reply = await self._decide(request)
        chances = {places[name]: each for name, each in reply.answers.items()}
        self._metric_chances |= {key: each for key, each in chances.items() if key in others}
        return chances, bool(reply.refused)

    async def _decide(self, request: DecisionRequest) -> DecisionReply:
        """Return the answers; questions without a valid one are asked once more, alone."""
        reply = await self._ask_model(request)
        open_ = [each for each in request.questions if each.name not in (*reply.answers, *reply.refused)]
        if not open_:
            return reply
        try:
            again = await self._ask_model(replace(request, questions=tuple(open_)))
        except TierFailure:
            if not reply.answers:
                raise
            self.flags |= {"second_look_failed": None, INCOMPLETE: None}
            return reply
        return replace(reply, answers={**reply.answers, **again.answers}, refused=reply.refused | again.refused)

    async def _ask_model(self, request: DecisionRequest) -> DecisionReply:
        seconds = max(0.0, self.until - time.monotonic())
        reply = await cast(DecisionModel, self.chat).decide(request, seconds=seconds, ledger=self.ledger)
        self.models[reply.model] = None
        return reply


def _likeliest(chances: Mapping[str, float]) -> str:
    return max(chances, key=chances.__getitem__)


def _decided_claim(claim: Claim, chances: Mapping[tuple[str, str], Mapping[str, float]]) -> Claim:
    """Return the claim with the likeliest verdict, the probability of support, and the context that was named."""
    decided, passages = (chances.get((claim.id, kind)) for kind in ("verdict", "passage"))
    named = _likeliest(passages) if passages else NO_PASSAGE
    context = None if named == NO_PASSAGE else int(named.removeprefix("c")) - 1
    return replace(
        claim,
        verdict=Verdict(_likeliest(decided)) if decided else Verdict.NOT_MENTIONED,
        support=decided[Verdict.SUPPORTED] if decided else None,
        reason=None,
        evidence=() if context is None else (Evidence(context, "", None, None, verified=False, kind="located"),),
        flags=() if decided else (UNANSWERED,),
    )
