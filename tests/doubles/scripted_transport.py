"""The transport of tier `llm` in front of a scripted judge: ways to build it, to ask it, and to see what it spent."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from plumbline.ground.errors import TierFailure
from plumbline.ground.judge_settings import LlmEndpoint
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.models.chat.chat_models import FailoverChatModel, build_chat_models
from plumbline.models.chat.resilient_endpoint import RetryPolicy
from tests.doubles.scripted_judge import ScriptedJudge

KEY = "sk-transport-key-0001"
MODEL = "judge-1"
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
REQUEST = ChatRequest(
    system="Answer in JSON.", user="Is it so?", schema_name="verdict", schema=SCHEMA, max_output_tokens=256
)
# Retries without a wait; the waits themselves have tests of their own.
PROMPT_RETRIES = RetryPolicy(backoff_seconds=0.001, jitter=lambda longest: 0.0)


def entry(judge: ScriptedJudge, **fields: Any) -> LlmEndpoint:
    """One more endpoint, for the settings that hold lists of them."""
    return LlmEndpoint(**{"provider": "generic", "base_url": judge.base_url, "model": MODEL, "api_key": KEY, **fields})


def transport_settings(judge: ScriptedJudge | None = None, **knobs: Any) -> Settings:
    """Settings with the scripted judge as the first endpoint of the judge `default`."""
    judged = {"llm_provider": "generic", "llm_model": MODEL, "llm_api_key": KEY}
    address = {"llm_base_url": judge.base_url} if judge else {}
    return Settings(**{**judged, **address, **knobs})


@contextlib.asynccontextmanager
async def transport(
    judge: ScriptedJudge | None = None, policy: RetryPolicy | None = PROMPT_RETRIES, **knobs: Any
) -> AsyncIterator[FailoverChatModel]:
    """The judge `default`, closed at the end."""
    chats = build_chat_models(transport_settings(judge, **knobs), policy)
    try:
        yield chats["default"]
    finally:
        for chat in chats.values():
            await chat.close()


async def ask(
    chat: FailoverChatModel, *, seconds: float = 3.0, ledger: Ledger | None = None, request: ChatRequest = REQUEST
) -> ChatReply:
    return await chat.complete(request, seconds=seconds, ledger=ledger or Ledger())


async def failure_of(
    chat: FailoverChatModel, *, seconds: float = 3.0, ledger: Ledger | None = None, request: ChatRequest = REQUEST
) -> TierFailure:
    """The failure, once it is proven to be one and to hold no key."""
    with pytest.raises(TierFailure) as failed:
        await ask(chat, seconds=seconds, ledger=ledger, request=request)
    assert KEY not in str(failed.value)
    return failed.value
