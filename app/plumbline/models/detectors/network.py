"""A detector's network and head, run by PyTorch: logits of each text, or of each of its tokens."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.models.detectors.description import Description, Labels, resolve_labels
from plumbline.models.detectors.pair_reader import PairReader
from plumbline.models.encoder.model_files import ModelFiles, NotLoaded, find_model
from plumbline.models.encoder.packing import PackedBatch
from plumbline.models.encoder.text_reader import load_tokenizer
from plumbline.models.encoder.torch_model import compute_in_callers_threads

_ADVICE = "see the how-to on detectors"
_UNREADABLE = (OSError, ValueError, RuntimeError, KeyError, AttributeError)


def detector_failure(description: Description, why: str) -> NotLoaded:
    return NotLoaded(f"detector {description.name!r} cannot be loaded ({why})", _ADVICE)


def _unreadable(description: Description, error: Exception) -> NotLoaded:
    return detector_failure(description, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")


class DetectorNetwork:
    """A `TokenModel` whose vectors are logits of labels, each as two halves in half precision that add up.

    The encoder's queue and cache keep numbers in half precision; the second half brings the rest.
    """

    supports_packing = False

    def __init__(self, description: Description) -> None:
        try:
            files = find_model(description.model)
            base = files if description.base is None else _base_of(files, description)
        except NotLoaded as failure:
            raise detector_failure(description, failure.seen) from failure
        try:
            # Seconds of import, paid on first use.
            import torch  # noqa: PLC0415
            import transformers  # noqa: PLC0415
        except ImportError as error:
            raise detector_failure(description, f"transformers cannot be imported: {error}") from error
        transformers.utils.logging.disable_progress_bar()
        self._description = description
        try:
            config = transformers.AutoConfig.from_pretrained(str(base.folder), trust_remote_code=False)
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(base.folder), trust_remote_code=False)
        except _UNREADABLE as error:
            raise _unreadable(description, error) from error
        tokens = getattr(tokenizer, "backend_tokenizer", None)
        if tokens is None:
            raise detector_failure(description, "its tokenizer has no fast form")
        definition: str = json.dumps(json.loads(tokens.to_str()), ensure_ascii=False)
        self.reader = PairReader(load_tokenizer(definition), description, specials=tokenizer.all_special_tokens)
        self.labels: Labels = resolve_labels(description, dict(config.id2label))
        self._pad = tokenizer.pad_token_id or 0
        # Models that number the two texts of a pair do so after the first separator.
        has_types = getattr(config, "type_vocab_size", 0) > 1 and "token_type_ids" in tokenizer.model_input_names
        self._separator = tokenizer.sep_token_id if has_types and description.template is None else None
        self.digest = files.digest
        self._torch = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        if self._device == "cpu":
            compute_in_callers_threads()
        self._network = _load(description, files, config).to(self._device, torch.float32)
        self.backend = f"torch {torch.__version__.split('+')[0]} {self._device} fp32"

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Return the halves of the logits, shape (rows, length or 1, 2 * labels)."""
        inputs = {name: self._torch.from_numpy(values).to(self._device) for name, values in self._inputs(batch).items()}
        with self._torch.inference_mode():
            logits: NDArray[np.float32] = self._network(**inputs).logits.float().cpu().numpy()
        if self._description.head == "sequence":
            logits = logits[:, None]
        elif self._description.head != "tokens":
            logits = logits[:, :1]
        if logits.shape[-1] > 1:
            logits = logits[..., list(self.labels.over)]
        half = logits.astype(np.float16).astype(np.float32)
        return np.concatenate([half, logits - half], axis=-1)

    def _inputs(self, batch: PackedBatch) -> dict[str, NDArray[np.int64]]:
        longest = int((batch.owners >= 0).sum(axis=1).max())
        is_text = batch.owners[:, :longest] >= 0
        tokens = np.where(is_text, batch.tokens[:, :longest], self._pad)
        inputs = {"input_ids": tokens, "attention_mask": is_text.astype(np.int64)}
        if self._separator is not None:
            after = np.cumsum(tokens == self._separator, axis=1) - (tokens == self._separator) > 0
            inputs["token_type_ids"] = (after & is_text).astype(np.int64)
        return inputs


def _base_of(files: ModelFiles, description: Description) -> ModelFiles:
    """Return where configuration and tokenizer are: a folder of that name in or beside the model's, or the hub."""
    name = Path(description.base or "").name
    for folder in (files.folder / name, files.folder.parent / name):
        if (folder / "config.json").is_file():
            return ModelFiles(folder, files.digest)
    return find_model(description.base)


def _load(description: Description, files: ModelFiles, config: Any) -> Any:
    """Load the network; weights that the file does not have are refused: they would be random numbers."""
    import transformers  # noqa: PLC0415

    kinds: Mapping[str, str] = {
        "sequence": "AutoModelForSequenceClassification",
        "first_token": "AutoModelForTokenClassification",
        "tokens": "AutoModelForTokenClassification",
    }
    options = {"key_mapping": {f"^{re.escape(description.strip)}": ""}} if description.strip else {}
    try:
        network, loading = getattr(transformers, kinds[description.head]).from_pretrained(
            str(files.folder),
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
    except _UNREADABLE as error:
        raise _unreadable(description, error) from error
    if missing := set(loading["missing_keys"]) | {each[0] for each in loading.get("mismatched_keys", ())}:
        listed = ", ".join(sorted(missing)[:3])
        raise detector_failure(description, f"its weights lack {len(missing)} of the network's, {listed} among them")
    return network.eval()
