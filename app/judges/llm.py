"""Tier 1: one call to a chat model, a claim-by-claim reply that is validated, evidence that is checked."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import from_json

from app.errors import FailureReason, TierFailure
from app.generation.sample import SegmentedSample
from app.generation.verdicts import (
    SUPPORT_BY_VERDICT,
    Claim,
    JudgeAccount,
    Judgement,
    Verdict,
    whole_sentence_claim,
)
from app.judges.evidence import EvidenceCheck, settle
from app.judges.prompts import Prompt, PromptLibrary
from app.judges.tier import ChatModel, ChatReply, TierName
from app.readiness import Readiness, State

_MARKER_BYTES = 8
# Far above any honest reply to an answer within the limits; beyond it parsing would only cost time.
_MAX_REPLY_CHARACTERS = 1_000_000


class LlmTier:
    """An LLM judge: sentences and contexts go in as numbered data, claims with verdicts and quotes come out."""

    name = TierName.LLM

    def __init__(self, chat: ChatModel, prompts: PromptLibrary, executor: Executor) -> None:
        self._chat = chat
        self._prompts = prompts
        self._executor = executor

    async def judge(self, case: SegmentedSample, *, seconds: float) -> Judgement:
        """The judgement from one call.

        Raises:
            TierFailure: the call failed, or the reply is not a verdict on every sentence.
        """
        prompt = self._prompts.for_language(case.language)
        reply = await self._chat.complete(
            system=prompt.system,
            user=prompt.render_user(marker=secrets.token_hex(_MARKER_BYTES), data=_data(case)),
        )
        run = asyncio.get_running_loop().run_in_executor
        return await run(self._executor, _read_judgement, case, reply, prompt)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, self._chat.describe())


class _ClaimReply(BaseModel):
    claim: str
    context_ids: Annotated[list[int], BeforeValidator(lambda value: [] if value is None else value)] = Field(
        default_factory=list
    )
    quote: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""
    reason: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)] = ""
    verdict: Annotated[
        Verdict, BeforeValidator(lambda value: value.strip().lower() if isinstance(value, str) else value)
    ]


class _SentenceReply(BaseModel):
    id: int
    claims: list[_ClaimReply] = Field(min_length=1)


class _Reply(BaseModel):
    sentences: list[_SentenceReply]


def _data(case: SegmentedSample) -> str:
    """The sample as one JSON object: numbered contexts, the question, and the sentences with the checkable numbered."""
    id_by_position = {position: number for number, position in enumerate(case.checkable, start=1)}
    answer: list[Mapping[str, object]] = []
    for position, sentence in enumerate(case.sentences):
        if position in id_by_position:
            answer.append({"id": id_by_position[position], "text": sentence.text})
        elif sentence.kind != "markup":
            answer.append({"text": sentence.text})
    contexts = [{"id": number, "text": text} for number, text in enumerate(case.sample.contexts, start=1)]
    return json.dumps(
        {"contexts": contexts, "question": case.sample.question, "answer": answer}, ensure_ascii=False, allow_nan=False
    )


def _read_judgement(case: SegmentedSample, reply: ChatReply, prompt: Prompt) -> Judgement:
    sentences, flags = _match_ids(_parse(reply.content).sentences, expected=len(case.checkable))
    check = EvidenceCheck(case.sample.contexts)
    number_by_position = {position: number for number, position in enumerate(case.checkable, start=1)}
    claims: list[Claim] = []
    for position, sentence in enumerate(case.sentences):
        if position not in number_by_position:
            claims.append(whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM))
            continue
        replies = sentences[number_by_position[position]].claims
        claims.extend(_claim(case, position, order, claim, check) for order, claim in enumerate(replies))
    account = JudgeAccount(
        model=reply.model,
        prompt=prompt.label,
        prompt_digest=prompt.digest,
        calls=1,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
    )
    return Judgement(claims=tuple(claims), account=account, has_verdict_kinds=True, flags=flags)


def _claim(case: SegmentedSample, position: int, order: int, reply: _ClaimReply, check: EvidenceCheck) -> Claim:
    sentence = case.sentences[position]
    cited = [number - 1 for number in reply.context_ids]
    evidence = check.locate(reply.quote, cited)
    moved = evidence is not None and evidence.verified and bool(cited) and evidence.context not in cited
    return settle(
        Claim(
            id=f"{position}.{order}",
            sentence=position,
            text=reply.claim,
            start=sentence.start,
            end=sentence.end,
            verdict=reply.verdict,
            support=SUPPORT_BY_VERDICT.get(reply.verdict),
            reason=reply.reason or None,
            evidence=(evidence,) if evidence else (),
            flags=("context_id_repaired",) if moved else (),
        )
    )


def _parse(content: str) -> _Reply:
    """The reply as validated values: the JSON object in the text, alone, in a fence or after prose.

    Raises:
        TierFailure: `invalid_reply`; the message says what was wrong and quotes nothing.
    """
    start, end = content.find("{"), content.rfind("}")
    if start < 0 or end < start:
        raise TierFailure(FailureReason.INVALID_REPLY, "the model's reply holds no JSON object")
    if len(content) > _MAX_REPLY_CHARACTERS:
        raise TierFailure(FailureReason.INVALID_REPLY, f"the model's reply has over {_MAX_REPLY_CHARACTERS} characters")
    try:
        # pydantic's parser bounds the nesting and evaluates nothing.
        value = from_json(content[start : end + 1], allow_inf_nan=False)
    except ValueError as error:
        raise TierFailure(FailureReason.INVALID_REPLY, "the model's reply is not valid JSON") from error
    try:
        return _Reply.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(part if isinstance(part, str) else str(part) for part in first["loc"])
        raise TierFailure(
            FailureReason.INVALID_REPLY,
            f"the model's reply does not have the form asked for ({where}: {first['type']})",
        ) from error


def _match_ids(
    replies: Sequence[_SentenceReply], *, expected: int
) -> tuple[Mapping[int, _SentenceReply], tuple[str, ...]]:
    """The replies by sentence id, every id of 1..expected exactly once, and a flag when others were dropped."""
    wanted = frozenset(range(1, expected + 1))
    found: dict[int, _SentenceReply] = {}
    for reply in replies:
        if reply.id in found:
            raise TierFailure(FailureReason.INVALID_REPLY, f"the model's reply judges sentence {reply.id} twice")
        if reply.id in wanted:
            found[reply.id] = reply
    missing = sorted(wanted - found.keys())
    if missing:
        raise TierFailure(
            FailureReason.INVALID_REPLY, f"the model's reply leaves out {len(missing)} of {expected} sentences"
        )
    return found, ("unknown_ids_dropped",) if len(replies) > expected else ()
