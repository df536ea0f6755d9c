"""Tier embedding over an embeddings API: what is sent, what is read, and what every fault becomes."""

import contextlib
import math
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx2
import numpy as np
import pytest

from plumbline.cli.score.local import LocalEngine
from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.ground.judge_settings import ModelPrice
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Ledger
from plumbline.judging.ports.observation import State
from plumbline.judging.ports.token_vectors import TokenVectors
from plumbline.main import create_app
from plumbline.models.chat.resilient_endpoint import RetryPolicy
from plumbline.models.embeddings.remote_encoder import RemoteEncoder, resolve_embedding_service
from plumbline.schemas.evaluation import EvaluationOptions
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_embeddings import (
    DIMENSIONS,
    KEY,
    MODEL,
    embeddings,
    remote_encoder,
    remote_settings,
)
from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import Reply, openai_error, status
from tests.making.cases import load_cases
from tests.running.edge_app import client_of
from tests.running.service import evaluate, plain_settings, running

SECONDS = 5.0


async def encode(
    encoder: RemoteEncoder,
    *texts: str,
    seconds: float = SECONDS,
    scope: str = "",
    ledger: Ledger | None = None,
) -> TokenVectors:
    reading = await encoder.read(texts, seconds=seconds)
    return await encoder.encode(reading, seconds=seconds, scope=scope, ledger=ledger)


async def failure(encoder: RemoteEncoder, *texts: str, **options: Any) -> TierFailure:
    with pytest.raises(TierFailure) as failed:
        await encode(encoder, *texts, **options)
    assert KEY not in failed.value.detail
    return failed.value


# --- what is sent


async def test_a_call_carries_the_texts_the_model_and_the_key(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with aclosing(remote_encoder(judge)) as encoder:
        await encode(encoder, "lamp", "桥")

    (request,) = judge.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {"model": MODEL, "input": ["lamp", "桥"]}


async def test_dashscope_gets_at_most_ten_texts_a_call(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())
    texts = [f"lamp {number}" for number in range(23)]

    async with aclosing(remote_encoder(judge, embedding_provider="dashscope", embedding_model=None)) as encoder:
        await encode(encoder, *texts)

    assert sorted(len(request.json["input"]) for request in judge.requests) == [3, 10, 10]
    sent = {name: value for name, value in judge.requests[0].json.items() if name != "input"}
    assert sent == {"model": "text-embedding-v4", "encoding_format": "float"}


async def test_a_text_beyond_the_models_tokens_is_cut_and_said_to_be(judge: ScriptedJudge) -> None:
    async with aclosing(remote_encoder(judge, embedding_max_tokens=16)) as encoder:
        reading = await encoder.read(["lamp", "灯" * 40], seconds=SECONDS)

    assert reading.is_overlong == [False, True]
    # One token for each character that is not ASCII, by the estimate from above.
    assert 1 <= len(bytes(reading.tokens[1]).decode()) < 16


async def test_an_e5_model_gets_its_prefix(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with aclosing(remote_encoder(judge, embedding_model="intfloat/multilingual-e5-small")) as encoder:
        await encode(encoder, "lamp")

    assert judge.requests[0].json["input"] == ["query: lamp"]


# --- what is read


@pytest.mark.parametrize(
    ("provider", "order"),
    [
        ("vllm", lambda items: items[::-1]),
        ("generic", lambda items: [{"embedding": each["embedding"]} for each in items]),
    ],
)
async def test_vectors_have_length_one_in_the_order_of_their_index_or_of_the_texts(
    judge: ScriptedJudge, provider: str, order: Any
) -> None:
    judge.reply_with(embeddings(order))

    async with aclosing(remote_encoder(judge, embedding_provider=provider)) as encoder:
        found = await encode(encoder, "lamp burns", "lamp", "bridge")

    lamp_burns, lamp, bridge = found.vectors
    assert found.bounds.tolist() == [0, 1, 2, 3]
    # One of two words: 1 / sqrt(2). Half precision, and the tenth number of each vector, move it by less than .001.
    assert lamp_burns @ lamp == pytest.approx(1 / math.sqrt(2), abs=1e-3)
    assert lamp @ bridge == pytest.approx(0.0, abs=1e-3)
    assert np.linalg.norm(found.vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-3)


def _with_first(**fields: Any) -> Any:
    return lambda items: [{**items[0], **fields}, *items[1:]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda items: items[:-1], "1 vectors for 2 texts"),
        (lambda items: [*items, items[0]], "3 vectors for 2 texts"),
        (_with_first(index=1), "otherwise than the texts"),
        (_with_first(index=7), "otherwise than the texts"),
        (_with_first(embedding=[1.0, 0.0]), "several dimensions"),
        (lambda items: [{**item, "embedding": []} for item in items], "0 dimensions"),
        (_with_first(embedding=[math.nan] * DIMENSIONS), "no numbers"),
        (_with_first(embedding=[math.inf] * DIMENSIONS), "no numbers"),
        (_with_first(embedding=[0.0] * DIMENSIONS), "all zeros"),
        (_with_first(embedding=[None] * DIMENSIONS), "not a list"),
        (_with_first(embedding="%%%"), "no base64"),
        (_with_first(embedding="AAAA"), "is cut"),
        (lambda items: None, "not a list"),
    ],
)
async def test_a_reply_that_is_not_a_vector_for_each_text_is_refused(
    judge: ScriptedJudge, change: Any, says: str
) -> None:
    judge.reply_with(embeddings(change))

    async with aclosing(remote_encoder(judge)) as encoder:
        failed = await failure(encoder, "lamp", "bridge")

    assert failed.reason is FailureReason.INVALID_REPLY
    assert says in failed.detail
    # A wrong reply is not asked for again: the model would give the same.
    assert judge.calls == 1


async def test_vectors_of_other_dimensions_than_before_are_refused(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings(), embeddings(vector=lambda text: [1.0, 0.0]))

    async with aclosing(remote_encoder(judge)) as encoder:
        await encode(encoder, "lamp")
        failed = await failure(encoder, "bridge")

    assert failed.detail.endswith(f": the embeddings API's reply has vectors of 2 dimensions, expected {DIMENSIONS}")


# --- faults


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (openai_error(500, "server_error", "no"), FailureReason.UPSTREAM_ERROR),
        (openai_error(401, "invalid_api_key", f"wrong key {KEY}"), FailureReason.AUTHENTICATION),
        (openai_error(404, "model_not_found", "no such model"), FailureReason.REJECTED),
        (
            openai_error(400, "invalid_parameter_error", "Range of input length should be [1, 8192]"),
            FailureReason.TOO_LONG,
        ),
        (openai_error(413, None, "inputs must have less than 512 tokens"), FailureReason.TOO_LONG),
        (openai_error(400, "data_inspection_failed", "no"), FailureReason.CONTENT_FILTERED),
        (status(200, {"error": {"code": "server_error"}}), FailureReason.UPSTREAM_ERROR),
        (Reply(200, b"<html>"), FailureReason.INVALID_REPLY),
    ],
)
async def test_what_does_not_pass_is_a_reason_of_the_tier(
    judge: ScriptedJudge, reply: Reply, reason: FailureReason
) -> None:
    judge.reply_with(reply)

    async with aclosing(remote_encoder(judge)) as encoder:
        failed = await failure(encoder, "lamp")

    assert failed.reason is reason


async def test_a_batch_has_a_timeout_of_its_own(judge: ScriptedJudge) -> None:
    judge.reply_with(hang())

    async with aclosing(remote_encoder(judge, timeout_seconds=0.05)) as encoder:
        failed = await failure(encoder, "lamp", seconds=60.0)

    assert failed.reason is FailureReason.TIMEOUT


async def test_readiness_names_the_dimensions_and_recovers(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(400, "bad", "no"), embeddings())

    async with aclosing(remote_encoder(judge)) as encoder:
        await encoder.warm_up()
        before = encoder.readiness()
        await encoder.warm_up()
        after = encoder.readiness()

    assert (before.state, after.state) == (State.UNAVAILABLE, State.READY)
    assert "HTTP 400 (bad)" in before.detail
    assert after.detail.endswith(f", {DIMENSIONS} dimensions")


# --- once for all, and what it costs


async def test_a_text_is_asked_for_once(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with aclosing(remote_encoder(judge)) as encoder:
        await encode(encoder, "lamp", "bridge")
        await encode(encoder, "bridge", "lamp")
        await encode(encoder, "lamp", "red")
        counts = encoder.counts()

    assert [request.json["input"] for request in judge.requests] == [["lamp", "bridge"], ["red"]]
    assert (counts.texts, counts.cache_hits, counts.cache_misses) == (3, 3, 3)


async def test_nothing_is_shared_between_scopes(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with aclosing(remote_encoder(judge)) as encoder:
        await encode(encoder, "lamp", scope="one")
        await encode(encoder, "lamp", scope="other")

    assert judge.calls == 2


async def test_calls_tokens_and_cost_are_in_the_ledger(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings(tokens=5))
    prices = {MODEL: ModelPrice(input=2.0, output=0.0)}
    ledger = Ledger()

    async with aclosing(remote_encoder(judge, llm_prices=prices)) as encoder:
        await encode(encoder, *(f"lamp {number}" for number in range(33)), ledger=ledger)

    # 33 texts of 5 tokens at 2 a million, at most 32 in a call.
    assert (ledger.usage.calls, ledger.usage.prompt_tokens) == (2, 165)
    assert ledger.usage.cost == pytest.approx(330e-6)


async def test_a_rate_limit_without_room_is_a_reason(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with aclosing(remote_encoder(judge, RetryPolicy(rpm=1, backoff_seconds=0.001))) as encoder:
        await encode(encoder, "lamp")
        failed = await failure(encoder, "bridge", seconds=0.5)

    assert failed.reason is FailureReason.RATE_LIMITED
    assert judge.calls == 1


# --- settings


@pytest.mark.parametrize(("knobs", "says"), load_cases("embeddings_api", "refused"))
def test_an_api_that_cannot_be_asked_is_refused_at_the_start(knobs: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        resolve_embedding_service(Settings(**knobs))


def test_dashscope_needs_nothing_but_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-1")

    service = resolve_embedding_service(Settings(embedding_provider="dashscope-intl"))

    assert service is not None
    assert (service.endpoint.model, service.api.batch_size, service.languages) == ("text-embedding-v4", 10, None)
    assert service.endpoint.base_url == "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"


def test_a_key_of_dashscope_goes_to_nobody_else_and_asks_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-1")

    assert resolve_embedding_service(Settings()) is None

    with pytest.raises(ConfigurationError, match="PLUMBLINE_EMBEDDING_API_KEY: needed"):
        resolve_embedding_service(Settings(embedding_provider="openai"))


# --- the service


@contextlib.asynccontextmanager
async def service(server: ScriptedJudge, **knobs: Any) -> AsyncIterator[httpx2.AsyncClient]:
    settings = remote_settings(server, **plain_settings(**knobs).model_dump(exclude_unset=True))
    app = create_app(settings)
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


CHINESE = {"answer": "灯亮着。", "contexts": ["这座桥很长。", "灯在塔上亮着。"]}


async def test_chinese_is_judged_by_the_second_tier_and_said_to_be_uncalibrated(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with service(judge) as client:
        result = await evaluate(client, **CHINESE)
        later = await evaluate(client, **{**CHINESE, "answer": "桥很长。"})

    assert (result["tier"], result["trace"]["judge"]["model"]) == ("embedding", MODEL)
    assert "uncalibrated" in result["flags"]
    assert [evidence["context"] for evidence in result["claims"][0]["evidence"]] == [1]
    # A sentence and two windows, five tokens each; then, once, the eight unrelated sentences.
    assert (result["trace"]["usage"]["calls"], result["trace"]["usage"]["prompt_tokens"]) == (2, 55)
    # The windows are known.
    assert (later["trace"]["usage"]["calls"], later["trace"]["usage"]["prompt_tokens"]) == (1, 5)


async def test_a_server_that_fails_leaves_the_sample_to_the_next_tier_with_the_reason(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings(lambda items: items[1:]))

    async with service(judge) as client:
        result = await evaluate(client, **CHINESE)

    assert result["tier"] == "lexical"
    (attempt,) = (each for each in result["trace"]["attempts"] if each["tier"] == "embedding")
    assert (attempt["reason"], attempt["calls"]) == ("invalid_reply", 1)
    assert attempt["detail"].endswith("：句向量接口的回复有 2 个向量，而文本有 3 个")


async def test_readiness_tells_the_server_and_not_the_key(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with service(judge) as client:
        await evaluate(client, **CHINESE)
        tier = (await client.get("/readyz")).json()["tiers"]["embedding"]

    assert tier["state"] == "ready"
    host = judge.base_url.removeprefix("http://").removesuffix("/v1")
    assert tier["detail"] == f"generic: {MODEL} at {host}, {DIMENSIONS} dimensions"


async def test_languages_that_the_setting_leaves_out_are_not_sent(judge: ScriptedJudge) -> None:
    async with service(judge, embedding_languages=("en",)) as client:
        result = await evaluate(client, **CHINESE)

    assert result["tier"] == "lexical"
    assert judge.calls == 0


def fallback_settings(server: ScriptedJudge) -> Settings:
    """Settings of a local model, and of text-embedding-v4 for what it does not read."""
    knobs = {"embedding_provider": "local+dashscope", "embedding_model": None}
    return remote_settings(server, **plain_settings(**knobs).model_dump(exclude_unset=True))


async def test_what_the_local_model_does_not_read_is_sent_and_nothing_else(judge: ScriptedJudge) -> None:
    judge.reply_with(embeddings())

    async with running(fallback_settings(judge), encoder=WordEncoder(languages=["en"])) as client:
        english = await evaluate(client, answer="The lamp burns.", contexts=["The red lamp burns."])
        sent_of_english = judge.calls
        chinese = await evaluate(client, **CHINESE)
        tier = (await client.get("/readyz")).json()["tiers"]["embedding"]

    assert (english["tier"], english["trace"]["judge"]["model"], sent_of_english) == ("embedding", "words", 0)
    assert (chinese["tier"], chinese["trace"]["judge"]["model"]) == ("embedding", "text-embedding-v4")
    assert "uncalibrated" in chinese["flags"]
    assert judge.requests[0].json["model"] == "text-embedding-v4"
    assert set(judge.requests[0].json["input"]) == {CHINESE["answer"], *CHINESE["contexts"]}
    assert "; other languages: dashscope: text-embedding-v4" in tier["detail"]


async def test_where_that_server_fails_too_the_next_tier_answers(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(401, "invalid_api_key", "no"))

    async with running(fallback_settings(judge), encoder=WordEncoder(languages=["en"])) as client:
        result = await evaluate(client, **CHINESE)

    assert result["tier"] == "lexical"
    assert [each["reason"] for each in result["trace"]["attempts"]][1] == "authentication"


def test_a_bounded_run_needs_the_price_of_the_vectors() -> None:
    settings = plain_settings(embedding_base_url="http://127.0.0.1:9/v1", embedding_model=MODEL)
    priced = settings.model_copy(update={"llm_prices": {MODEL: ModelPrice(input=1.0, output=0.0)}})

    LocalEngine(priced, EvaluationOptions()).check(1.0)
    LocalEngine(settings, EvaluationOptions(tiers=["lexical"])).check(1.0)
    with pytest.raises(ConfigurationError, match=f"has no price of '{MODEL}'"):
        LocalEngine(settings, EvaluationOptions()).check(1.0)
