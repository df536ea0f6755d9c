"""Token vectors of the packaged model, read once: what tier embedding computes and keeps."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.torch_model import TorchModel

_TOKENS_AT_ONCE = 4_096


class VectorStore:
    """Texts as tokens and unit vectors, in float16; `rows` their numbers, `bounds` where tokens lie."""

    def __init__(self, texts: Iterable[str], *, most_tokens: int = 200) -> None:
        self.model = TorchModel(find_model(None), "fp32")
        self.network = self.model.network.to(torch.bfloat16)
        self.table = self.network.embeddings.word_embeddings.weight.detach().float()
        self._most = most_tokens
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Read these texts in place of those before."""
        distinct = list(dict.fromkeys(texts))
        self.rows = {text: row for row, text in enumerate(distinct)}
        special = self.model.reader.special
        tokens: list[list[int]] = []
        for start in range(0, len(distinct), 10_000):
            read = self.model.reader.read(distinct[start : start + 10_000]).tokens
            tokens += [list(ids)[: self._most + 2] for ids in read]
        own = [[token for token in ids if token not in special] or [100] for ids in tokens]
        self.bounds: NDArray[np.int64] = np.concatenate([[0], np.cumsum([len(ids) for ids in own])]).astype(np.int64)
        self.ids = np.array([token for ids in own for token in ids], dtype=np.int32)
        self.vectors = np.zeros((len(self.ids), self.table.shape[1]), dtype=np.float16)
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        batch: list[int] = []
        with torch.inference_mode():
            for row in order:
                if batch and (len(batch) + 1) * len(tokens[row]) > _TOKENS_AT_ONCE:
                    self._fill(batch, tokens)
                    batch = []
                batch.append(row)
            if batch:
                self._fill(batch, tokens)

    def tokens_of(self, text: str) -> NDArray[np.int32]:
        row = self.rows[text]
        return self.ids[self.bounds[row] : self.bounds[row + 1]]

    def _fill(self, batch: Sequence[int], tokens: Sequence[Sequence[int]]) -> None:
        width = max(len(tokens[row]) for row in batch)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for at, row in enumerate(batch):
            ids[at, : len(tokens[row])] = torch.tensor(tokens[row])
            mask[at, : len(tokens[row])] = 1
        found = self.network(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        unit = torch.nn.functional.normalize(found, dim=-1).numpy()
        special = self.model.reader.special
        for at, row in enumerate(batch):
            keep = [index for index, token in enumerate(tokens[row]) if token not in special]
            start, end = self.bounds[row], self.bounds[row + 1]
            if keep:
                self.vectors[start:end] = unit[at, keep]
