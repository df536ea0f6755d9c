"""Token vectors of the packaged model, read once: its last layer's, which tier embedding keeps, and a middle one's."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.torch_model import TorchModel

# Of six: what comes after it is what `UpperLayers` trains.
MIDDLE: Final = 3
_MOST_TOKENS = 200
_TOKENS_AT_ONCE = 4_096
_UNKNOWN = 100

Vectors = NDArray[np.float16]


class VectorStore:
    """Texts as tokens and vectors in float16, kept in a folder: `rows` their numbers, `bounds` where tokens lie.

    `last`: unit vectors of the last layer; `middle`: vectors of layer `MIDDLE` as they are.
    """

    def __init__(self, folder: Path) -> None:
        self.model = TorchModel(find_model(None), "fp32")
        self.network = self.model.network
        self.table = self.network.embeddings.word_embeddings.weight.detach().float()
        self.rows: dict[str, int] = {}
        self.bounds: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.ids: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self.last: Vectors = np.zeros((0, self.table.shape[1]), dtype=np.float16)
        self.middle: Vectors = self.last
        self._folder = folder
        if (folder / "texts.json").exists():
            self._load()

    def add(self, texts: Iterable[str]) -> None:
        """Read those of the texts that the folder does not have yet."""
        new = [text for text in dict.fromkeys(texts) if text not in self.rows]
        if not new:
            return
        special = self.model.reader.special
        tokens: list[list[int]] = []
        for start in range(0, len(new), 10_000):
            read = self.model.reader.read(new[start : start + 10_000]).tokens
            tokens += [list(ids)[: _MOST_TOKENS + 2] for ids in read]
        own = [[token for token in ids if token not in special] or [_UNKNOWN] for ids in tokens]
        bounds = np.cumsum([0, *map(len, own)]).astype(np.int64)
        last, middle = (np.zeros((bounds[-1], self.table.shape[1]), dtype=np.float16) for _ in range(2))
        batch: list[int] = []
        with torch.inference_mode():
            for row in sorted(range(len(tokens)), key=lambda row: len(tokens[row])):
                if batch and (len(batch) + 1) * len(tokens[row]) > _TOKENS_AT_ONCE:
                    self._fill(batch, tokens, bounds, last, middle)
                    batch = []
                batch.append(row)
            self._fill(batch, tokens, bounds, last, middle)
        self._folder.mkdir(parents=True, exist_ok=True)
        np.save(self._folder / "last.npy", np.concatenate([self.last, last]))
        np.save(self._folder / "middle.npy", np.concatenate([self.middle, middle]))
        np.save(self._folder / "bounds.npy", np.concatenate([self.bounds, self.bounds[-1] + bounds[1:]]))
        np.save(
            self._folder / "ids.npy", np.concatenate([self.ids, np.array([*chain.from_iterable(own)], dtype=np.int32)])
        )
        (self._folder / "texts.json").write_text(json.dumps([*self.rows, *new]), encoding="utf-8")
        self._load()

    def place(self, text: str) -> NDArray[np.int64]:
        """Return where the tokens of a text lie."""
        row = self.rows[text]
        return np.arange(self.bounds[row], self.bounds[row + 1])

    def tokens_of(self, text: str) -> NDArray[np.int32]:
        return self.ids[self.place(text)]

    def _load(self) -> None:
        self.rows = {
            text: row for row, text in enumerate(json.loads((self._folder / "texts.json").read_text(encoding="utf-8")))
        }
        self.bounds, self.ids = np.load(self._folder / "bounds.npy"), np.load(self._folder / "ids.npy")
        self.last = np.load(self._folder / "last.npy", mmap_mode="r")
        self.middle = np.load(self._folder / "middle.npy", mmap_mode="r")

    def _fill(
        self,
        batch: Sequence[int],
        tokens: Sequence[Sequence[int]],
        bounds: NDArray[Any],
        last: Vectors,
        middle: Vectors,
    ) -> None:
        width = max(len(tokens[row]) for row in batch)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for at, row in enumerate(batch):
            ids[at, : len(tokens[row])] = torch.tensor(tokens[row])
            mask[at, : len(tokens[row])] = 1
        found = self.network(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        unit = torch.nn.functional.normalize(found.last_hidden_state, dim=-1).numpy()
        half = found.hidden_states[MIDDLE].numpy()
        special = self.model.reader.special
        for at, row in enumerate(batch):
            if keep := [index for index, token in enumerate(tokens[row]) if token not in special]:
                last[bounds[row] : bounds[row + 1]] = unit[at, keep]
                middle[bounds[row] : bounds[row + 1]] = half[at, keep]
