"""The sentence encoder: one model for all callers, in threads of its own; each text is encoded once and cached."""

import asyncio
import contextlib
import hashlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, TypeVar

import numpy as np
import structlog

from plumbline.ground.concurrency import Threads
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.processor import has_nvidia_driver
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.ports.token_vectors import EncoderCounts, TokenizedTexts, TokenVectors
from plumbline.models.encoder.fair_queue import (
    FairQueue,
    Text,
    Waiter,
    available_cores,
    make_in_background,
    single_threaded_algebra,
    start_workers,
)
from plumbline.models.encoder.model_files import ModelFiles, find_model, find_preset, load_failure, model_name
from plumbline.models.encoder.packing import (
    CACHE_BYTES,
    HalfVectors,
    Precision,
    RowSlot,
    TokenModel,
    build_vector_cache,
    make_key,
    pack_batch,
)

Backend = Literal["auto", "torch", "openvino"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model by path or hub id, None for the built-in one, its backend and precision.

    `auto`: PyTorch where there is a GPU, else OpenVINO where it is installed and runs the model, else PyTorch.
    """

    model: str | None = None
    backend: Backend = "auto"
    precision: Precision = "fp32"


def load(choice: ModelChoice, *, threads: int) -> TokenModel:
    started = time.monotonic()
    files = find_model(choice.model)
    try:
        model = _load(files, choice, threads)
    except MemoryError as error:
        raise load_failure(files.folder, error) from error
    seconds = round(time.monotonic() - started, 2)
    structlog.get_logger().info(
        "encoder_loaded", model=model_name(choice.model), backend=model.backend, seconds=seconds
    )
    return model


def _load(files: ModelFiles, choice: ModelChoice, threads: int) -> TokenModel:
    # Both import what they need when they are made.
    from plumbline.models.encoder.openvino_model import OpenVinoModel  # noqa: PLC0415
    from plumbline.models.encoder.torch_model import TorchModel  # noqa: PLC0415

    has_openvino = find_spec("openvino") is not None
    if choice.backend == "openvino":
        if not has_openvino:
            raise load_failure(files.folder, "openvino is not installed; install plumbline-rag[openvino]")
        return OpenVinoModel(files, choice.precision, threads=threads)
    if choice.backend == "auto" and has_openvino and not has_nvidia_driver():
        try:
            return OpenVinoModel(files, choice.precision, threads=threads)
        except (TierFailure, RuntimeError) as error:
            structlog.get_logger().info("encoder_not_on_openvino", model=files.folder.name, error=type(error).__name__)
    return TorchModel(files, choice.precision)


# Tokens of one batch: what a small sample may have to wait for. Smaller ones cost 5 to 10 % more, larger ones no less;
# bf16 takes a quarter of the time for each.
_BATCH_TOKENS = {"fp32": 384, "bf16": 512}


class SharedEncoder:
    """Token vectors of a sentence-transformers model, for many callers at once.

    Vectors are kept and given in half precision: two bytes a number, 2e-4 of a cosine at the most.

    Args:
        threads: that run the model; None for one on each core.
        cache_bytes: of vectors kept in memory; 0 keeps none.
        languages: that the model reads; empty for those known by its name.
        load_model: loads another model than one of sentences, in a thread of its own.
    """

    def __init__(
        self,
        choice: ModelChoice | None = None,
        *,
        threads: int | None = None,
        cache_bytes: int = CACHE_BYTES,
        languages: Collection[str] = (),
        load_model: Callable[[ModelChoice, int], TokenModel] | None = None,
    ) -> None:
        self._choice = choice or ModelChoice()
        self._load_model = load_model or (lambda choice, threads: load(choice, threads=threads))
        name, precision = model_name(self._choice.model), self._choice.precision
        # Reduced precision has another name, as it has calibrations of its own.
        self.model = name if precision == "fp32" else f"{name}@{precision}"
        self.languages = frozenset(languages) or find_preset(name).languages
        self._threads = threads or available_cores()
        self._cache = build_vector_cache(cache_bytes)
        self._in_flight: dict[bytes, Text] = {}
        self._lock = threading.Lock()
        self._reading = Threads(max_workers=1, thread_name_prefix="reader")
        self._workers: list[threading.Thread] = []
        self._loading: Future[TokenModel] = Future()
        self._is_closed = False
        self._model: TokenModel | None = None
        self._queue: FairQueue | None = None
        self._failure: TierFailure | None = None
        self._identity = ""
        self._state = State.IDLE
        self._counts: Counter[str] = Counter()

    async def warm_up(self) -> None:
        """Load the model now; a failure is kept for `readiness` and the next request."""
        if self._state is State.IDLE:
            self._state = State.LOADING
        try:
            await self.encode(await self.read(["warm"], seconds=math.inf), seconds=math.inf)
        except TierFailure as failure:
            structlog.get_logger().warning("model_unavailable", model=self.model, detail=failure.detail)

    async def read(self, texts: Sequence[str], *, seconds: float) -> TokenizedTexts:
        until = time.monotonic() + seconds

        def read() -> TokenizedTexts:
            if time.monotonic() >= until:
                raise _late_failure()
            return self._ready_model().reader.read(texts)

        return await asyncio.get_running_loop().run_in_executor(self._reading, read)

    async def with_model(self, work: Callable[[TokenModel], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, lambda: work(self._ready_model()))

    async def encode(
        self,
        reading: TokenizedTexts,
        *,
        seconds: float,
        scope: str = "",
        ledger: Ledger | None = None,
    ) -> TokenVectors:
        """Return vectors of the last layer's tokens, special ones left out; they do not depend on the batch.

        As `SentenceEncoder.encode`: neither cached nor in-flight texts are shared between scopes, nothing is paid for.
        """
        until = time.monotonic() + seconds
        if self._queue is None:
            await asyncio.get_running_loop().run_in_executor(self._reading, self._ready_model)
        found = await self._vectors(reading.tokens, scope, until)
        bounds = np.cumsum([0, *map(len, found)])
        if not found:
            return TokenVectors(np.empty((0, 0), dtype=np.float32), bounds)
        return TokenVectors(np.concatenate(found, dtype=np.float32), bounds)

    def counts(self) -> EncoderCounts:
        with self._lock:
            queued = self._queue.tokens if self._queue else 0
            return EncoderCounts(**self._counts, queued_tokens=queued, cache_bytes=self._cache.bytes)

    def readiness(self) -> Readiness:
        if self._failure:
            return Readiness(self._state, self._failure.detail)
        backend = f", {self._model.backend}" if self._model else ""
        return Readiness(self._state, f"{self.model}{backend}")

    async def aclose(self) -> None:
        """Do as `close`: an encoder behind an API has connections to close."""
        self.close()

    def close(self) -> None:
        """End the threads after their current work; queued work is dropped, and a model under way is not waited for."""
        self._is_closed = True
        with contextlib.suppress(InvalidStateError):
            self._loading.set_exception(_closed_failure())
        self._reading.shutdown(wait=True, cancel_futures=True)
        if self._queue is not None:
            self._give_up(self._queue.close(), _closed_failure())
        for worker in self._workers:
            worker.join()

    def _ready_model(self) -> TokenModel:
        """Return the model, loaded on first use; in the reader's thread alone."""
        if self._failure is not None:
            raise self._failure
        if self._model is None:
            if self._is_closed:
                raise _closed_failure()
            self._state = State.LOADING
            try:
                # OpenVINO computes in threads of its own: they begin where the model is made.
                make_in_background(lambda: self._load_model(self._choice, self._threads), self._loading)
                model = self._loading.result()
            except TierFailure as failure:
                self._failure, self._state = failure, State.UNAVAILABLE
                raise
            self._queue = FairQueue(_BATCH_TOKENS[self._choice.precision], supports_packing=model.supports_packing)
            self._identity = f"{model.reader.most} {model.digest} {self._choice.precision}"
            self._model, self._state = model, State.READY
            single_threaded_algebra()
            self._workers = start_workers(self._threads, self._work_on_batches)
        return self._model

    async def _vectors(self, tokens: Sequence[Sequence[int]], scope: str, until: float) -> list[HalfVectors]:
        # Another model, and another precision, gives other vectors.
        secret = hashlib.sha256(f"{scope}\n{self._identity}".encode()).digest()
        keys = [make_key(each, secret) for each in tokens]
        waiting = Waiter()
        wanted, known = self._begin(dict(zip(keys, tokens, strict=True)), waiting)
        try:
            if wanted:
                await waiting.wait(until - time.monotonic())
        except TimeoutError:
            raise _late_failure() from None
        finally:
            self._leave(wanted.values(), waiting)
        found = known | {key: text.vectors for key, text in wanted.items() if text.vectors is not None}
        if len(found) < len(known) + len(wanted):
            raise _late_failure()
        return [found[key] for key in keys]

    def _begin(
        self, tokens_by_key: dict[bytes, Sequence[int]], waiting: Waiter
    ) -> tuple[dict[bytes, Text], dict[bytes, HalfVectors]]:
        queue = self._queue
        if queue is None:
            raise _late_failure()
        with self._lock:
            if self._is_closed:
                raise _closed_failure()
            known = {key: found for key in tokens_by_key if (found := self._cache.get(key)) is not None}
            joined = {key: self._in_flight[key] for key in tokens_by_key if key in self._in_flight}
            new = {
                key: Text(key, tokens)
                for key, tokens in tokens_by_key.items()
                if key not in known and key not in joined
            }
            self._counts.update(cache_hits=len(known), cache_misses=len(joined) + len(new), joined=len(joined))
            self._in_flight.update(new)
            wanted = joined | new
            for text in wanted.values():
                text.waiting.append(waiting)
            waiting.texts_left = len(wanted)
            queue.put(list(new.values()))
        return wanted, known

    def _leave(self, texts: Iterable[Text], waiting: Waiter) -> None:
        with self._lock:
            left = [text for text in texts if text.vectors is None and waiting in text.waiting]
            for text in left:
                text.waiting.remove(waiting)
            if self._queue is not None and any(not text.waiting for text in left):
                for text in self._queue.drop_unwanted():
                    self._in_flight.pop(text.key, None)

    def _work_on_batches(self) -> None:
        queue, model = self._queue, self._model
        while queue is not None and model is not None and (taken := queue.take()) is not None:
            texts, places = taken
            try:
                found = _forward(model, texts, places)
            except Exception as error:  # raised in the waiting calls; the thread continues
                self._give_up(texts, error)
                continue
            self._deliver(texts, found)

    def _deliver(self, texts: Sequence[Text], found: Sequence[HalfVectors]) -> None:
        with self._lock:
            self._counts.update(texts=len(texts), tokens=sum(len(text.tokens) for text in texts))
            for text, vectors in zip(texts, found, strict=True):
                text.vectors = vectors
                self._cache.put(text.key, vectors)
                self._in_flight.pop(text.key, None)
            served = [waiting for text in texts for waiting in text.waiting]
            for waiting in served:
                waiting.texts_left -= 1
            done = {id(waiting): waiting for waiting in served if not waiting.texts_left}
        for waiting in done.values():
            waiting.wake()

    def _give_up(self, texts: Sequence[Text], error: BaseException) -> None:
        with self._lock:
            for text in texts:
                self._in_flight.pop(text.key, None)
            waiters = {id(waiting): waiting for text in texts for waiting in text.waiting}
        for waiting in waiters.values():
            waiting.wake(error)


def _forward(model: TokenModel, texts: Sequence[Text], places: Sequence[RowSlot]) -> list[HalfVectors]:
    vectors = model.forward(pack_batch([text.tokens for text in texts], places))
    found = []
    for text, place in zip(texts, places, strict=True):
        spoken = model.reader.wanted_places(text.tokens)
        found.append(vectors[place.row, [place.start + at for at in spoken]].astype(np.float16))
    return found


def _closed_failure() -> TierFailure:
    return TierFailure(FailureReason.TIMEOUT, CodedText("encoder_closed"))


def _late_failure() -> TierFailure:
    return TierFailure(FailureReason.TIMEOUT, CodedText("encoding_timed_out"))
