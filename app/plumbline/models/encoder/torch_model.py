"""A model loaded by sentence-transformers and run by PyTorch, on a GPU where there is one.

The only file that knows torch, and it imports it late: a process that never asks this tier never pays for it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plumbline.models.encoder.model_files import ModelFiles, ModelKind, load_failure
from plumbline.models.encoder.packing import PROBE, PackedBatch, Precision, is_same_side_by_side
from plumbline.models.encoder.text_reader import TextReader

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer


class TorchModel:
    """A `TokenModel`. `position_offset`: what its positions begin with, None where texts must not share a row."""

    def __init__(self, files: ModelFiles, precision: Precision) -> None:
        loaded = load_sentence_transformer(files)
        import torch  # noqa: PLC0415

        self._torch = torch
        self._type = torch.float32
        self.digest = files.digest
        self.device = str(loaded.device)
        self.reader = _reader_of(loaded, files)
        # The network itself: what the library puts behind it (pooling) is not asked for.
        self.network: Any = getattr(loaded[0], "model", None) or loaded[0].auto_model
        if self.device == "cpu":
            compute_in_callers_threads()
        self.position_offset: int | None = None
        self._find_position_offset()
        if precision == "bf16":
            self._type = torch.bfloat16
            self.network.to(torch.bfloat16)
        self.backend = f"torch {torch.__version__.split('+')[0]} {self.device} {precision}"

    @property
    def supports_packing(self) -> bool:
        return self.position_offset is not None

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        with self._torch.inference_mode():
            tokens = self._tensor(batch.tokens)
            if self.position_offset is None:
                found = self.network(
                    input_ids=tokens, attention_mask=self._tensor((batch.owners >= 0).astype(np.int64))
                )
            else:
                mask = self._tensor(batch.may_see()).to(self._type)
                positions = self._tensor(batch.positions + self.position_offset)
                found = self.network(input_ids=tokens, position_ids=positions, attention_mask=mask)
            unit = self._torch.nn.functional.normalize(found.last_hidden_state.float(), dim=-1)
        vectors: NDArray[np.float32] = unit.cpu().numpy()
        return vectors

    def _find_position_offset(self) -> None:
        """Find the first position: 0 in most models, after the padding's in RoBERTa's kin."""
        texts = [list(tokens) for tokens in self.reader.read(PROBE).tokens]
        for offset in (0, (getattr(self.network.config, "pad_token_id", None) or 0) + 1):
            self.position_offset = offset
            if is_same_side_by_side(texts, self._alone, self.forward):
                return
        self.position_offset = None

    def _alone(self, text: list[int]) -> NDArray[np.float32]:
        with self._torch.inference_mode():
            found = self.network(input_ids=self._tensor(np.array([text], dtype=np.int64))).last_hidden_state[0]
            vectors: NDArray[np.float32] = self._torch.nn.functional.normalize(found, dim=-1).cpu().numpy()
        return vectors

    def _tensor(self, values: NDArray[Any]) -> "torch.Tensor":
        return self._torch.from_numpy(values).to(self.device)


def load_sentence_transformer(files: ModelFiles, kind: ModelKind = "SentenceTransformer") -> "SentenceTransformer":
    """Load a model by its library; a `SparseEncoder` has the same methods. Raises TierFailure `not_installed`."""
    try:
        # Seconds of import, paid on first use.
        import sentence_transformers  # noqa: PLC0415
        from transformers.utils import logging as transformers_logging  # noqa: PLC0415
    except ImportError as error:
        raise load_failure(files.folder, f"sentence-transformers cannot be imported: {error}") from error
    transformers_logging.disable_progress_bar()
    weights = {"use_safetensors": True}
    try:
        build = getattr(sentence_transformers, kind)
        loaded: SentenceTransformer = build(str(files.folder), trust_remote_code=False, model_kwargs=weights).eval()
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise load_failure(files.folder, error) from error
    return loaded


def compute_in_callers_threads() -> None:
    """Make PyTorch on the CPU compute in the calling thread, everywhere in this process.

    Threads that work on texts of their own need half the processor time of as many within a pass: those wait for each
    other at every layer.
    """
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute in this thread alone: within one short text, threads mostly wait for each other."""
    import torch  # noqa: PLC0415

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _reader_of(loaded: "SentenceTransformer", files: ModelFiles) -> TextReader:
    tokenizer = loaded.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise load_failure(files.folder, "its tokenizer has no fast form")
    definition: str = json.dumps(json.loads(backend.to_str()), ensure_ascii=False)
    unknown = tokenizer.unk_token_id
    special = frozenset(tokenizer.all_special_ids) - {unknown}
    return TextReader(definition, special=special, unknown=unknown, most=loaded.max_seq_length, prefix=files.prefix)
