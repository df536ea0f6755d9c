"""A detector's network and head, run by PyTorch: logits of each text, or of each of its tokens."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.judging.ports.exchange import Passage
from plumbline.judging.ports.token_vectors import TokenizedTexts
from plumbline.models.detectors.description import Description, Labels, resolve_labels
from plumbline.models.encoder.model_files import ModelFiles, NotLoaded, find_model
from plumbline.models.encoder.packing import PackedBatch
from plumbline.models.encoder.text_reader import load_tokenizer
from plumbline.models.encoder.torch_model import compute_in_callers_threads

# Two texts joined may have a token more than apart, at each seam.
_SEAM_TOKENS = 4
# A claim has no more of what the model reads, so that its premise has room.
_CLAIM_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """Tokens of one premise and claim; where the model marks words, `places` of the claim's with their characters."""

    tokens: list[int]
    places: tuple[tuple[int, int, int], ...]


def _read_part(passage: Passage) -> str:
    if not passage.sentences:
        return passage.text
    return passage.text[passage.sentences[0][0] : passage.sentences[-1][1]]


class PairReader:
    """A `tokenizers.Tokenizer`, and the description's templates; in a caller's text `specials` are plain words."""

    def __init__(self, tokenizer: Any, description: Description, *, specials: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._description = description
        self.most: int | None = description.max_tokens
        self._limit = description.max_tokens
        self._special = re.compile("|".join(map(re.escape, specials))) if specials else None

    def read(self, texts: Sequence[str]) -> TokenizedTexts:
        """Tokenize texts that are no pairs, for a model that is warmed up."""
        tokens = [self._tokenizer.encode(text).ids[: self._limit] for text in texts]
        counts = [len(each) for each in tokens]
        return TokenizedTexts(tokens, counts, [0] * len(tokens), [False] * len(tokens))

    def wanted_places(self, tokens: Sequence[int]) -> list[int]:
        """Return the places whose numbers are kept: all, or the first alone."""
        return list(range(len(tokens))) if self._description.head == "tokens" else [0]

    def fit_claim(self, claim: str) -> str:
        """Return the claim, or so much of its beginning as leaves room for a premise."""
        offsets = self._tokenizer.encode(claim, add_special_tokens=False).offsets
        room = int(self._limit * _CLAIM_SHARE)
        return claim if len(offsets) <= room else claim[: offsets[room - 1][1]]

    def windows(self, passages: Sequence[Passage], question: str, claim: str) -> list[list[str]]:
        """Return the passages, in as many parts as the model needs to read all of them, each cut between sentences."""
        frame = len(self.ask([""], question, claim).tokens) + _SEAM_TOKENS
        room = max(16, self._limit - frame)
        if self._description.chunk_tokens is not None:
            room = min(room, self._description.chunk_tokens)
        # One reading of the whole costs a tenth of one reading for each sentence.
        whole = [_read_part(passage) for passage in passages]
        if len(self.ask(whole, question, claim).tokens) <= frame + room:
            return [whole]
        extra = self.count(self._description.numbered.replace("{text}", "")) + self.count("\n")
        pieces = [piece for passage in passages for piece in self._pieces(passage, room - extra - _SEAM_TOKENS)]
        windows: list[list[tuple[int, int, int]]] = []
        left = 0
        for context, start, end, tokens in pieces:
            is_next = bool(windows) and windows[-1][-1][0] == context
            needed = tokens + (0 if is_next else extra + _SEAM_TOKENS)
            if not windows or needed > left:
                windows.append([])
                left, is_next, needed = room, False, tokens + extra + _SEAM_TOKENS
            left -= needed
            if is_next:
                windows[-1][-1] = (context, windows[-1][-1][1], end)
            else:
                windows[-1].append((context, start, end))
        text_of = {passage.number: passage.text for passage in passages}
        return [[text_of[context][start:end] for context, start, end in window] for window in windows]

    def ask(self, window: Sequence[str], question: str, claim: str) -> Question:
        plain = [self._plain(text) for text in window]
        first, second = self._description.premise(plain, self._plain(question), self._plain(claim))
        encoding = self._tokenizer.encode(first, second)
        if not self._description.marks_words:
            return Question(encoding.ids, ())
        places = tuple(
            (place, start, end)
            for place, (sequence, (start, end)) in enumerate(zip(encoding.sequence_ids, encoding.offsets, strict=True))
            if sequence == 1 and end > start
        )
        return Question(encoding.ids, places)

    def _pieces(self, passage: Passage, room: int) -> list[tuple[int, int, int, int]]:
        """Return a passage's sentences with their tokens, those that are too long cut: none is left out."""
        room, pieces = max(8, room), []
        for start, end in passage.sentences or ((0, len(passage.text)),):
            offsets = self._tokenizer.encode(passage.text[start:end], add_special_tokens=False).offsets
            if len(offsets) <= room:
                pieces.append((passage.number, start, end, len(offsets)))
                continue
            for at in range(0, len(offsets), room):
                part = offsets[at : at + room]
                pieces.append((passage.number, start + part[0][0], start + part[-1][1], len(part)))
        return pieces

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _plain(self, text: str) -> str:
        """Break the special tokens in a caller's text, length kept: it cannot end the premise."""
        if self._special is None:
            return text
        return self._special.sub(lambda found: " " + found[0][1:], text)


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
