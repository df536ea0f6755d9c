"""A detector's network and head, run by OpenVINO or PyTorch: logits of each text, or of each of its tokens."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.models.detectors.description import Description, Labels, resolve_labels
from plumbline.models.detectors.pair_reader import PairReader
from plumbline.models.encoder.encoder import Backend, choose_runtime
from plumbline.models.encoder.model_files import ModelFiles, NotLoaded, export_folders, find_model
from plumbline.models.encoder.packing import MOST_DRIFT, PROBE, PackedBatch, RowSlot, pack_batch
from plumbline.models.encoder.text_reader import load_tokenizer

_ADVICE = "see the how-to on detectors"
_UNREADABLE = (OSError, ValueError, RuntimeError, KeyError, AttributeError)
# Of a text of some 20 tokens: longer than the windows within which some networks attend.
_LONGER = 8
_Run = Callable[[Mapping[str, NDArray[np.int64]]], NDArray[np.float32]]


def detector_failure(description: Description, why: str) -> NotLoaded:
    """Build the failure of a detector that cannot be loaded."""
    return NotLoaded(f"detector {description.name!r} cannot be loaded ({why})", _ADVICE)


def _unreadable(description: Description, error: Exception) -> NotLoaded:
    return detector_failure(description, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")


class DetectorNetwork:
    """A `TokenModel` whose vectors are logits of labels, each as two halves in half precision that add up.

    The encoder's queue and cache keep numbers in half precision; the second half brings the rest. OpenVINO runs fp32
    alone: where `backend` asks for it, or `auto` finds it installed, no GPU, and the numbers of PyTorch.
    """

    supports_packing = False

    def __init__(self, description: Description, *, backend: Backend = "torch", threads: int = 1) -> None:
        try:
            files = find_model(description.model)
            base = files if description.base is None else _base_of(files, description)
        except NotLoaded as failure:
            raise detector_failure(description, failure.seen) from failure
        try:
            import transformers  # noqa: PLC0415 - seconds of import, paid on first use
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
        self._run, self.backend = choose_runtime(
            backend,
            lambda: self._on_openvino(files, config, threads),
            lambda: self._on_torch(files, config),
            where=files.folder,
        )

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Return the halves of the logits, shape (rows, length or 1, 2 * labels)."""
        logits = self._run(self._inputs(batch))
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

    def _on_torch(self, files: ModelFiles, config: Any) -> tuple[_Run, str]:
        import torch  # noqa: PLC0415 - seconds of import

        device = "cuda" if torch.cuda.is_available() else "cpu"
        network = _load(self._description, files, config).to(device, torch.float32)
        return _by_torch(network, device), f"torch {torch.__version__.split('+')[0]} {device} fp32"

    def _on_openvino(self, files: ModelFiles, config: Any, threads: int) -> tuple[_Run, str]:
        from plumbline.models.encoder.openvino_model import CompiledNetwork, load_or_export, runtime_name  # noqa: PLC0415

        shape = hashlib.sha256(config.to_json_string().encode()).hexdigest()[:8]
        folders = export_folders(files, f"{runtime_name()}-{self._description.head}-{shape}")
        graph, _ = load_or_export(folders, lambda: (self._convert(files, config), {}))
        compiled = CompiledNetwork(graph, "fp32", threads=threads)
        compiled.run([*self._inputs(self._sample(1)).values()])
        return lambda inputs: compiled.run([*inputs.values()]), f"{runtime_name().replace('-', ' ')} cpu fp32"

    def _convert(self, files: ModelFiles, config: Any) -> Any:
        """Convert the network.

        Raises:
            NotLoaded: OpenVINO gives other numbers than PyTorch.
        """
        from plumbline.models.encoder.openvino_model import CompiledNetwork, convert  # noqa: PLC0415

        network = _load(self._description, files, config)
        traced, inputs = self._inputs(self._sample(1)), self._inputs(self._sample(_LONGER))
        names = tuple(traced)
        graph = convert(
            network,
            lambda network, *tensors: network(**dict(zip(names, tensors, strict=True))).logits,
            [*traced.values()],
            shapes=[[-1, -1]] * len(names),
        )
        expected = _by_torch(network, "cpu")(inputs)
        found = CompiledNetwork(graph, "fp32", threads=1).run([*inputs.values()])
        if self._description.head in ("tokens", "first_token"):
            is_text = inputs["attention_mask"] > 0
            expected, found = expected[is_text], found[is_text]
        if not np.abs(found - expected).max() <= MOST_DRIFT:
            raise detector_failure(self._description, "OpenVINO gives other numbers than PyTorch")
        return graph

    def _sample(self, times: int) -> PackedBatch:
        """Return a short text, and one that is so many times a longer one: rows with and without padding."""
        short, _, longer = map(list, self.reader.read(PROBE).tokens)
        texts = [(longer * times)[: self.reader.most], short]
        return pack_batch(texts, [RowSlot(row, 0, len(text)) for row, text in enumerate(texts)])


def _by_torch(network: Any, device: str) -> _Run:
    """Return what runs a PyTorch network, in the calling thread."""
    import torch  # noqa: PLC0415

    from plumbline.models.encoder.torch_model import compute_in_callers_threads  # noqa: PLC0415

    if device == "cpu":
        compute_in_callers_threads()

    def run(inputs: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(values).to(device) for name, values in inputs.items()}
            logits: NDArray[np.float32] = network(**tensors).logits.float().cpu().numpy()
        return logits

    return run


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
