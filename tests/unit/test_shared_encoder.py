"""The encoder with a model that does as it is told: what runs once, who waits for whom."""

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import structlog
from numpy.typing import NDArray

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.observation import State
from plumbline.judging.ports.token_vectors import TokenVectors
from plumbline.models.encoder import encoder as encoder_module
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from plumbline.models.encoder.model_files import load_failure
from plumbline.models.encoder.packing import PackedBatch
from plumbline.models.encoder.text_reader import TextReader
from tests.making.small_models import word_tokenizer

SECONDS = 20.0


class ToldModel:
    """A TokenModel: a token's vector is its own number and one. `gate` lets batches through."""

    backend = "told"
    digest = "told-weights"
    supports_packing = True

    def __init__(self) -> None:
        self.reader = TextReader(word_tokenizer().to_str(), special={0, 2, 3, 4}, unknown=1, most=32)
        self.gate = threading.Event()
        self.gate.set()
        self.begun = 0
        self.texts: list[list[int]] = []
        self.error: Exception | None = None

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        self.begun += 1
        assert self.gate.wait(SECONDS)
        if self.error:
            raise self.error
        for place in batch.places:
            self.texts.append(batch.tokens[place.row, place.start : place.start + place.length].tolist())
        return np.stack([batch.tokens, np.ones_like(batch.tokens)], axis=-1).astype(np.float32)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ToldModel:
    model = ToldModel()
    monkeypatch.setattr(encoder_module, "load", lambda choice, threads: model)
    return model


@pytest.fixture
def encoder(model: ToldModel) -> Iterator[SharedEncoder]:
    encoder = SharedEncoder(threads=1)
    yield encoder
    model.gate.set()
    encoder.close()


async def encode(encoder: SharedEncoder, *texts: str, scope: str = "", seconds: float = SECONDS) -> TokenVectors:
    reading = await encoder.read(texts, seconds=seconds)
    return await encoder.encode(reading, seconds=seconds, scope=scope)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what a thread will bring about."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(0.001)


async def blocked_by(encoder: SharedEncoder, model: ToldModel, text: str) -> "asyncio.Task[TokenVectors]":
    """A call that the model has begun to work on and will not finish before its gate opens."""
    await encode(encoder, "warm")
    model.gate.clear()
    begun = model.begun
    call = asyncio.create_task(encode(encoder, text))
    await until(lambda: model.begun > begun)
    return call


async def queued(encoder: SharedEncoder, text: str) -> "asyncio.Task[TokenVectors]":
    """A call that waits behind another."""
    before = encoder.counts().queued_tokens
    call = asyncio.create_task(encode(encoder, text))
    await until(lambda: encoder.counts().queued_tokens > before)
    return call


async def test_each_text_has_the_vectors_of_its_own_words(encoder: SharedEncoder) -> None:
    found = await encode(encoder, "the bridge", "river", "the bridge was opened")

    assert found.bounds.tolist() == [0, 2, 3, 7]
    assert found.vectors[:, 0].tolist() == [5, 6, 14, 5, 6, 7, 8]
    assert found.vectors.dtype == np.float32


async def test_a_text_is_encoded_once_and_kept(encoder: SharedEncoder, model: ToldModel) -> None:
    first = await encode(encoder, "the bridge", "river", "the bridge")
    second = await encode(encoder, "river", "the bridge")

    assert len(model.texts) == 2
    assert np.array_equal(first.vectors[:2], second.vectors[1:])
    counts = encoder.counts()
    assert (counts.texts, counts.tokens, counts.cache_hits, counts.cache_misses) == (2, 7, 2, 2)
    assert counts.cache_bytes > 0


async def test_who_asks_for_a_text_under_way_waits_for_it(encoder: SharedEncoder, model: ToldModel) -> None:
    blocker = await blocked_by(encoder, model, "warm in")
    calls = [asyncio.create_task(encode(encoder, "the bridge", name)) for name in ("river", "people", "tracks")]
    await until(lambda: encoder.counts().joined == 2)
    model.gate.set()
    found = await asyncio.gather(*calls)
    await blocker

    assert sorted(map(len, model.texts)) == [3, 3, 3, 3, 4, 4]
    assert [vectors.vectors[:, 0].tolist() for vectors in found] == [[5, 6, 14], [5, 6, 16], [5, 6, 12]]


async def test_nothing_is_shared_between_two_callers(encoder: SharedEncoder, model: ToldModel) -> None:
    await encode(encoder, "river", scope="one")
    await encode(encoder, "river", scope="two")
    await encode(encoder, "river", scope="one")

    assert len(model.texts) == 2


async def test_a_deadline_that_passes_takes_the_texts_out_of_the_queue(
    encoder: SharedEncoder, model: ToldModel
) -> None:
    first = await blocked_by(encoder, model, "river")

    with pytest.raises(TierFailure) as failed:
        await encode(encoder, "people", seconds=0.05)
    model.gate.set()
    await first

    assert failed.value.reason is FailureReason.TIMEOUT
    assert encoder.counts().queued_tokens == 0
    assert len(model.texts) == 2, "the warm one and the first"
    # It is encoded when somebody asks again.
    assert (await encode(encoder, "people")).vectors[:, 0].tolist() == [16]


async def test_a_text_goes_on_for_whoever_still_waits(encoder: SharedEncoder, model: ToldModel) -> None:
    blocker = await blocked_by(encoder, model, "tracks")
    leaving = await queued(encoder, "river")
    staying = asyncio.create_task(encode(encoder, "river"))
    await until(lambda: encoder.counts().joined == 1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    model.gate.set()

    assert (await staying).vectors[:, 0].tolist() == [14]
    await blocker


async def test_an_error_of_the_model_is_told_to_all_who_wait_and_to_nobody_later(
    encoder: SharedEncoder, model: ToldModel
) -> None:
    await encode(encoder, "warm")
    model.error = MemoryError("no room")
    failures = await asyncio.gather(*(encode(encoder, "river") for _ in range(3)), return_exceptions=True)
    model.error = None

    assert [type(failure) for failure in failures] == [MemoryError] * 3
    assert (await encode(encoder, "river")).vectors[:, 0].tolist() == [14]


async def test_many_sentences_do_not_hold_up_one(encoder: SharedEncoder, model: ToldModel) -> None:
    blocker = await blocked_by(encoder, model, "river")
    words = ["the", "bridge", "was", "opened", "in", "two", "railway", "tracks", "cross", "river", "and", "people"]
    many = [" ".join([words[number % 12], words[number // 12 % 12], words[number // 144]]) for number in range(400)]
    long = asyncio.create_task(encode(encoder, *many))
    await until(lambda: encoder.counts().queued_tokens == 2_000)
    short = await queued(encoder, "warm river")
    model.gate.set()
    await asyncio.gather(short, long, blocker)

    # The first batch after the one under way, of some 256 tokens, has both; "warm" and "river" are 17 and 14.
    assert model.texts.index([2, 17, 14, 3]) < 2 + 60
    assert len(model.texts) == 2 + 401


async def test_closing_drops_what_waits(model: ToldModel) -> None:
    encoder = SharedEncoder(threads=1)
    under_way = await blocked_by(encoder, model, "river")
    waiting = await queued(encoder, "people")
    closing = asyncio.create_task(asyncio.to_thread(encoder.close))
    await asyncio.sleep(0.05)
    model.gate.set()
    await closing

    with pytest.raises(TierFailure):
        await waiting
    assert len((await under_way).vectors) == 1


async def test_a_model_that_does_not_load_says_so_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(choice: ModelChoice, threads: int) -> ToldModel:
        raise TierFailure(FailureReason.NOT_INSTALLED, "no such file")

    monkeypatch.setattr(encoder_module, "load", fail)
    encoder = SharedEncoder()
    await encoder.warm_up()

    for _ in range(2):
        with pytest.raises(TierFailure, match="no such file"):
            await encoder.read(["a"], seconds=SECONDS)
    assert encoder.readiness().state is State.UNAVAILABLE
    assert encoder.readiness().detail == "no such file"
    encoder.close()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        "libgomp.so.1: failed to map segment from shared object",
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_model_that_gets_no_memory_says_that_it_needs_some(error: Exception | str) -> None:
    failure = load_failure("models/minilm", error)

    assert failure.reason is FailureReason.NO_MEMORY
    assert "give the process more memory" in failure.detail


def test_reduced_precision_has_a_name_of_its_own() -> None:
    full, reduced = SharedEncoder(), SharedEncoder(ModelChoice(precision="bf16"))

    assert (full.model, reduced.model) == ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2@bf16")
    assert SharedEncoder(ModelChoice("org/some-model")).model == "some-model"


async def test_a_path_without_a_folder_is_told_with_its_remedy(tmp_path: Path) -> None:
    encoder = SharedEncoder(ModelChoice(str(tmp_path / "mistyped")), threads=1)

    with structlog.testing.capture_logs() as events:
        await encoder.warm_up()

    readiness = encoder.readiness()
    encoder.close()
    assert readiness.state is State.UNAVAILABLE
    assert "mistyped' cannot be loaded (there is no such folder); set PLUMBLINE_EMBEDDING_MODEL to" in readiness.detail
    assert "install" not in readiness.detail
    assert [(event["event"], event["detail"]) for event in events] == [("model_unavailable", readiness.detail)]


async def test_what_is_asked_after_closing_is_refused_and_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "load", lambda choice, threads: ToldModel())
    loaded, idle = SharedEncoder(threads=1), SharedEncoder(threads=1)
    reading = await loaded.read(["one"], seconds=SECONDS)
    loaded.close()
    idle.close()

    with pytest.raises(TierFailure, match="the encoder was closed"):
        await loaded.encode(reading, seconds=math.inf)
    with pytest.raises((TierFailure, RuntimeError)):
        await idle.read(["one"], seconds=SECONDS)


async def test_closing_does_not_wait_for_a_model_that_is_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = threading.Event(), threading.Event()

    def load(choice: ModelChoice, threads: int) -> ToldModel:
        begun.set()
        gate.wait(SECONDS)
        return ToldModel()

    monkeypatch.setattr(encoder_module, "load", load)
    encoder = SharedEncoder(threads=1)
    warming = asyncio.create_task(encoder.warm_up())
    await asyncio.to_thread(begun.wait, SECONDS)

    encoder.close()

    assert not gate.is_set()
    await warming
    gate.set()
