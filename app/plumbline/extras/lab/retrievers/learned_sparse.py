"""Learned sparse vectors: a model weighs the words of its vocabulary in chunk and query, searched by an inverted index.

SPLADE (https://arxiv.org/abs/2109.10086) and its kin, those among them whose queries pass no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts
from plumbline.extras.lab.retrievers.vectors import (
    BYTES_ARE,
    DistinctTexts,
    VectorSettings,
    Watcher,
    describe_model,
    encode_in_batches,
    encode_query,
    folder_bytes,
    group_by_text,
    load_model,
    scale_to_unit_length,
    unread_language,
)
from plumbline.ground.errors import InvalidInput
from plumbline.models.encoder.text_vectors import TextVectors

if TYPE_CHECKING:
    from scipy.sparse import csc_array

# Apache 2.0, where most of SPLADE's own may not be used commercially; its queries are looked up, not computed.
_DEFAULT = "opensearch-project/opensearch-neural-sparse-encoding-doc-v3-distill"


class LearnedSparseSettings(VectorSettings):
    """`kind = "learned_sparse"`: an inverted index of the weights of a `SparseEncoder`."""

    kind: Literal["learned_sparse"] = "learned_sparse"
    model: str = Field(
        default=_DEFAULT, description="A SparseEncoder of sentence-transformers: folder, or id on the Hugging Face Hub."
    )
    max_active_dims: int | None = Field(
        default=None,
        ge=1,
        description="Words of a chunk or query that keep their weight, the heaviest; else the model's.",
    )

    def make(self) -> LearnedSparseRetriever:
        """Create the retriever and load its model; InvalidInput says how to get a missing one."""
        return LearnedSparseRetriever(self, load_model(self, "words", max_active_dims=self.max_active_dims))


class LearnedSparseRetriever:
    """Sparse retriever. A score is the dot product of the weights; ties in the order of chunk ids.

    A chunk without a word of the query's is not found, as with keywords.
    """

    def __init__(self, settings: LearnedSparseSettings, model: TextVectors) -> None:
        self._settings = settings
        self._model = model
        self._watcher: Watcher | None = None
        self._texts: DistinctTexts | None = None
        self._postings: csc_array | None = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encode the chunks; see `Retriever.build`."""
        from scipy.sparse import csr_array, save_npz, vstack  # noqa: PLC0415

        texts = group_by_text(chunks, self._settings.fields)
        # Of the query the length says nothing of the order.
        is_cosine = self._model.similarity == "cosine"
        rows: list[int] = []
        blocks: list[csr_array] = []
        for places, weights in encode_in_batches(self._model, texts.texts, self._watcher):
            if not np.isfinite(weights).all():
                raise InvalidInput(f"model {self._model.name!r} gives weights that are no numbers")
            rows.extend(places)
            blocks.append(csr_array(scale_to_unit_length(weights) if is_cosine else weights))
        postings = vstack(blocks, format="csr")[np.argsort(rows)].tocsc()
        self._texts, self._postings = texts, postings
        save_npz(folder / "postings.npz", postings, compressed=False)
        texts.write_ids(folder)
        return IndexFacts(
            chunks=texts.chunks,
            index_bytes=folder_bytes(folder),
            bytes_are=BYTES_ARE.replace("vectors", "postings"),
            engine=f"scipy {version('scipy')}, {self._model.engine}",
            stated=texts.stated
            | describe_model(self._model)
            | {"words": postings.shape[1], "words_per_chunk": round(postings.nnz / postings.shape[0], 1)},
            warnings=unread_language(self._model.name, texts.texts),
        )

    def watch(self, tell: Watcher) -> None:
        self._watcher = tell

    def search(self, query: str, k: int) -> Hits:
        """Return the k best chunks, from the postings of the query's words alone. Scores as float32."""
        weights = encode_query(self._model, query)
        if weights is None or self._postings is None or self._texts is None:
            return []
        words = np.flatnonzero(weights)
        scores = self._postings[:, words] @ weights[words]
        rows = np.flatnonzero(scores)
        return self._texts.best(scores[rows], k, rows)

    def close(self) -> None:
        self._texts = self._postings = None
