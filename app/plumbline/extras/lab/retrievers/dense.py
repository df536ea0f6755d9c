"""Dense vectors, and the similarity of a query to every one of them: what an approximate index is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts
from plumbline.extras.lab.retrievers.distinct_texts import BYTES_ARE, DistinctTexts, folder_bytes
from plumbline.extras.lab.retrievers.vector_model import ChunkVectors, DenseVectorSettings


class DenseSettings(DenseVectorSettings):
    """`kind = "dense"`: exact search of dense vectors."""

    kind: Literal["dense"] = "dense"

    def make(self) -> DenseRetriever:
        """The retriever, its model loaded.

        Raises:
            InvalidInput: the model is not there.
        """
        return DenseRetriever(ChunkVectors(self))


class DenseRetriever:
    """A `Retriever`. Scores are similarities; equal ones come in the order of chunk ids. A blank query finds nothing.

    Chunks without text are not in it; `stated` counts them.
    """

    def __init__(self, vectors: ChunkVectors) -> None:
        self._vectors = vectors
        self._texts: DistinctTexts | None = None
        self._matrix: NDArray[np.float32] | None = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encodes the chunks; see `Retriever.build`."""
        self._texts, self._matrix = self._vectors.of(chunks)
        np.save(folder / "vectors.npy", self._matrix)
        self._texts.write_ids(folder)
        return IndexFacts(
            chunks=self._texts.chunks,
            index_bytes=folder_bytes(folder),
            bytes_are=BYTES_ARE,
            engine=f"numpy {version('numpy')}, {self._vectors.engine}",
            stated=self._texts.stated,
        )

    def search(self, query: str, k: int) -> Hits:
        """The k chunks most similar to the query; scores as float32."""
        vector = self._vectors.of_query(query)
        if vector is None or self._matrix is None or self._texts is None:
            return []
        return self._texts.best(self._matrix @ vector, k)

    def close(self) -> None:
        """Gives the vectors' memory back."""
        self._texts = self._matrix = None
