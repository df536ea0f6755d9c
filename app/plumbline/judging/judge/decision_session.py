"""One sample before one decision model: questions for each sentence, whose answers are probabilities and no text."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.evidence.verdict_rules import UNANSWERED, UNANSWERED_QUESTION
from plumbline.judging.judge.probes import AskedProbes
from plumbline.judging.judge.questions import NO_PASSAGE
from plumbline.judging.judge.replies import ClaimReply, Reading
from plumbline.judging.judge.session import JudgeSession
from plumbline.judging.ports.decisions import DecisionReply, DecisionRequest
from plumbline.judging.ports.models import ChatModel, DecisionModel
from plumbline.judging.text import offload
from plumbline.judging.text.verdicts import (
    INCOMPLETE,
    Claim,
    Evidence,
    MetricAnswers,
    Verdict,
    whole_sentence_claim,
)

# Verdict and passage of a sentence.
_QUESTIONS_A_CLAIM: Final = 2
# Each claim of a request may name each context: with more of both, that is most of it.
_MOST_CLAIMS: Final = 48


def claims_per_request(chat: ChatModel, *, controls: int = 2) -> int:
    """Return the most claims of a request to a decision model, which has so many controls; 0 for a chat model."""
    if chat.kind == "chat":
        return 0
    # A model of any other kind is one of decisions.
    questions = cast(DecisionModel, chat).questions - controls
    return min(_MOST_CLAIMS, max(1, questions // _QUESTIONS_A_CLAIM))


@dataclass(slots=True)
class DecisionSession(JudgeSession):
    """Questions to a decision model about one sample, in place of requests for text.

    A claim is a whole sentence. `check` finds the place of each in the context that the model named, and compares it.
    One without a valid answer is flagged `unanswered`.
    """

    check: Callable[[Sequence[Claim]], Sequence[Claim]] = list

    @property
    def _most_claims(self) -> int:
        return claims_per_request(self.chat, controls=len(self.sample.controls))

    async def verdicts(self, claims: Sequence[Claim], *, temperature: float | None = None) -> Mapping[str, Claim]:
        found = await JudgeSession.verdicts(self, claims)
        return {claim.id: claim for claim in await self._checked(list(found.values()))}

    async def answer_probes(self, claims: Sequence[Claim]) -> MetricAnswers:
        """Return that no metric was asked for."""
        return MetricAnswers(failures={probe.name: "not_by_decision_model" for probe in self.sample.probes})

    async def _draft(self, batch: Mapping[int, int], window: Window, probes: AskedProbes) -> list[Claim]:
        sentences = self.sample.segmented.sentences
        claims = [whole_sentence_claim(at, sentences[at], verdict=Verdict.NOT_MENTIONED) for at in batch]
        found = await self._check(claims, window, controls=self.sample.controls if 1 in batch.values() else {})
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
        build = partial(self.sample.questions.on_decisions, window, claims, controls)
        request, places = await offload.run(build, self.executor, inline=self.sample.is_small)
        reply = await self._decide(request)
        chances = {places[name]: each for name, each in reply.answers.items()}
        verdicts = {
            claim_id: (ClaimReply(verdict=Verdict(_likeliest(each))),)
            for (claim_id, kind), each in chances.items()
            if kind == "verdict"
        }
        flags = (UNANSWERED_QUESTION,) if reply.refused else ()
        return {claim.id: _decided_claim(claim, chances) for claim in claims}, Reading(verdicts, flags)

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
