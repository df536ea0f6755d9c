"""A detector's network and head, run by PyTorch: as the label numbers of each text, or of each of its tokens."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plumbline.models.detectors.description import Description, Labels, resolve_labels
from plumbline.models.detectors.pair_reader import PairReader
from plumbline.models.encoder.model_files import ModelFiles, NotLoaded, find_model
from plumbline.models.encoder.packing import PackedBatch, Precision
from plumbline.models.encoder.text_reader import load_tokenizer
from plumbline.models.encoder.torch_model import compute_in_callers_threads

if TYPE_CHECKING:
    import torch

_ADVICE = "see the how-to on detectors"


def broken(description: Description, why: str) -> NotLoaded:
    """Build the failure of a detector that cannot be loaded."""
    return NotLoaded(f"detector {description.name!r} cannot be loaded ({why})", _ADVICE)


class TorchHead:
    """A `TokenModel` whose vectors are logits of labels, each as two halves in half precision that add up.

    The encoder's queue and cache keep numbers in half precision; the second half brings the rest.
    """

    supports_packing = False

    def __init__(self, description: Description, precision: Precision = "fp32") -> None:
        try:
            files = find_model(description.model)
            base = files if description.base is None else _base_of(files, description)
        except NotLoaded as failure:
            raise broken(description, failure.seen) from failure
        try:
            import torch  # noqa: PLC0415 - seconds of import, paid on first use
            import transformers  # noqa: PLC0415
        except ImportError as error:
            raise broken(description, f"transformers cannot be imported: {error}") from error
        transformers.utils.logging.disable_progress_bar()
        self._torch = torch
        self._head = description.head
        try:
            config = transformers.AutoConfig.from_pretrained(str(base.folder), trust_remote_code=False)
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(base.folder), trust_remote_code=False)
            self.network = _load(transformers, description, files, config)
        except (OSError, ValueError, RuntimeError, KeyError, AttributeError) as error:
            raise broken(description, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}") from error
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise broken(description, "its tokenizer has no fast form")
        definition: str = json.dumps(json.loads(backend.to_str()), ensure_ascii=False)
        self.reader = PairReader(load_tokenizer(definition), description, specials=tokenizer.all_special_tokens)
        self.labels: Labels = resolve_labels(description, dict(config.id2label))
        self._pad = tokenizer.pad_token_id or 0
        self._start = getattr(config, "decoder_start_token_id", None) or 0
        # Models that number the two texts of a pair do so after the first separator.
        has_types = getattr(config, "type_vocab_size", 0) > 1 and "token_type_ids" in tokenizer.model_input_names
        self._separator = tokenizer.sep_token_id if has_types and description.template is None else None
        self.digest = files.digest
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.device == "cpu":
            compute_in_callers_threads()
        self._type = torch.bfloat16 if precision == "bf16" else torch.float32
        self.network.to(self.device, self._type).eval()
        self.backend = f"torch {torch.__version__.split('+')[0]} {self.device} {precision}"

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Return the halves of the logits, shape (rows, length or 1, 2 * labels)."""
        longest = int((batch.owners >= 0).sum(axis=1).max())
        is_text = batch.owners[:, :longest] >= 0
        tokens = np.where(is_text, batch.tokens[:, :longest], self._pad)
        inputs = {"input_ids": self._tensor(tokens), "attention_mask": self._tensor(is_text.astype(np.int64))}
        if self._separator is not None:
            after = np.cumsum(tokens == self._separator, axis=1) - (tokens == self._separator) > 0
            inputs["token_type_ids"] = self._tensor((after & is_text).astype(np.int64))
        if self._head == "seq2seq":
            inputs["decoder_input_ids"] = self._tensor(np.full((len(tokens), 1), self._start, dtype=np.int64))
        with self._torch.inference_mode():
            logits = self.network(**inputs).logits.float()
        if self._head == "sequence":
            logits = logits[:, None]
        elif self._head != "tokens":
            logits = logits[:, :1]
        if logits.shape[-1] > 1:
            logits = logits[..., list(self.labels.over)]
        whole: NDArray[np.float32] = logits.cpu().numpy()
        half = whole.astype(np.float16).astype(np.float32)
        return np.concatenate([half, whole - half], axis=-1)

    def _tensor(self, values: NDArray[Any]) -> "torch.Tensor":
        return self._torch.from_numpy(values).to(self.device)


def _base_of(files: ModelFiles, description: Description) -> ModelFiles:
    """Return where configuration and tokenizer are: a folder of that name in or beside the model's, or the hub."""
    name = Path(description.base or "").name
    for folder in (files.folder / name, files.folder.parent / name):
        if (folder / "config.json").is_file():
            return ModelFiles(folder, files.digest)
    return find_model(description.base)


def _load(transformers: Any, description: Description, files: ModelFiles, config: Any) -> Any:
    """Load the network; weights that the file does not have are refused: they would be random numbers."""
    kinds: Mapping[str, str] = {
        "sequence": "AutoModelForSequenceClassification",
        "first_token": "AutoModelForTokenClassification",
        "tokens": "AutoModelForTokenClassification",
        "seq2seq": "AutoModelForSeq2SeqLM",
    }
    kind = getattr(transformers, kinds[description.head])
    if description.strip:
        from safetensors.torch import load_file  # noqa: PLC0415 - comes with transformers

        network = kind.from_config(config)
        state: dict[str, Any] = {}
        for path in sorted(files.folder.glob("*.safetensors")):
            state |= {name.removeprefix(description.strip): value for name, value in load_file(path).items()}
        found = network.load_state_dict(state, strict=False)
        network.tie_weights()
        missing = set(found.missing_keys) - _tied(network, set(state))
    else:
        network, told = kind.from_pretrained(
            str(files.folder), config=config, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        missing = set(told["missing_keys"]) | {each[0] for each in told.get("mismatched_keys", ())}
    if missing:
        listed = ", ".join(sorted(missing)[:3])
        raise broken(description, f"its weights lack {len(missing)} of the network's, {listed} among them")
    return network


def _tied(network: Any, loaded: set[str]) -> set[str]:
    """Return the names of weights that are other names of loaded ones."""
    places: dict[int, list[str]] = {}
    for name, value in network.named_parameters(remove_duplicate=False):
        places.setdefault(value.data_ptr(), []).append(name)
    return {name for names in places.values() if loaded & set(names) for name in names}
