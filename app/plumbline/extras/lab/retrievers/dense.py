"""Dense vectors: exact search over all of them, and approximate search in a graph of neighbours (HNSW of faiss)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts
from plumbline.extras.lab.retrievers.vectors import (
    BYTES_ARE,
    ChunkVectors,
    DenseVectorSettings,
    DistinctTexts,
    Watcher,
    folder_bytes,
)
from plumbline.ground.errors import InvalidInput

if TYPE_CHECKING:
    from types import ModuleType


class DenseSettings(DenseVectorSettings):
    """`kind = "dense"`: exact search of dense vectors."""

    kind: Literal["dense"] = "dense"

    def make(self) -> DenseRetriever:
        """Create the retriever and load its model; InvalidInput where it is missing."""
        return DenseRetriever(ChunkVectors(self))


class DenseRetriever:
    """Exact retriever. Scores are similarities; ties in the order of chunk ids. A blank query finds nothing.

    Chunks without text are not in it; `stated` counts them.
    """

    def __init__(self, vectors: ChunkVectors) -> None:
        self._vectors = vectors
        self._texts: DistinctTexts | None = None
        self._matrix: NDArray[np.float32] | None = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encode the chunks; see `Retriever.build`."""
        encoded = self._vectors.of(chunks, folder)
        self._texts, self._matrix = encoded.texts, encoded.matrix
        np.save(folder / "vectors.npy", self._matrix)
        self._texts.write_ids(folder)
        return IndexFacts(
            chunks=self._texts.chunks,
            index_bytes=folder_bytes(folder),
            bytes_are=BYTES_ARE,
            engine=f"numpy {version('numpy')}, {self._vectors.engine}",
            stated=self._texts.stated,
            warnings=encoded.warnings,
            reused_seconds=encoded.reused_seconds,
        )

    def watch(self, tell: Watcher) -> None:
        self._vectors.watcher = tell

    def search(self, query: str, k: int) -> Hits:
        """Return the k chunks most similar to the query; scores as float32."""
        vector = self._vectors.of_query(query)
        if vector is None or self._matrix is None or self._texts is None:
            return []
        return self._texts.best(self._matrix @ vector, k)

    def close(self) -> None:
        self._texts = self._matrix = None


# Recall is of so many neighbours of so many chunks: 2 % of standard error, in milliseconds for each 10,000 chunks.
_NEIGHBOURS, _SAMPLE = 10, 200
# As Malkov and Yashunin (2018, section 4.1) find reasonable: 5 to 48 links; from 100 on, building longer gives little.
_LINKS, _EF_CONSTRUCTION, _EF_SEARCH = 32, 200, 64
_MOST = 4096


class ApproximateSettings(DenseVectorSettings):
    """`kind = "approximate"`: HNSW of faiss (https://arxiv.org/abs/1603.09320) over dense vectors."""

    kind: Literal["approximate"] = "approximate"
    links: int = Field(
        default=_LINKS, ge=2, le=512, description="Neighbours that each vector is linked to (M); twice as many below."
    )
    ef_construction: int = Field(
        default=_EF_CONSTRUCTION, ge=1, le=_MOST, description="Candidates kept while a vector's neighbours are sought."
    )
    ef_search: int = Field(
        default=_EF_SEARCH,
        ge=1,
        le=_MOST,
        description="Candidates kept during a search, and at least as many as are asked for; more find more, slower.",
    )

    def make(self) -> ApproximateRetriever:
        """Create the retriever and load its model; InvalidInput where faiss or the model is missing."""
        try:
            import faiss  # noqa: PLC0415
        except ImportError as error:
            raise InvalidInput('faiss is not installed; pip install "plumbline-rag[lab]"') from error
        # With several threads the graph depends on which of them comes first.
        faiss.omp_set_num_threads(1)
        return ApproximateRetriever(self, ChunkVectors(self), faiss)


class ApproximateRetriever:
    """HNSW retriever. Scores and order as `DenseRetriever`'s; the graph depends on chunks and settings alone.

    `stated["recall@10_of_exact"]`: share of the 10 exact neighbours that are found, mean over 200 chunks evenly spread,
    each asked as a query and not counted itself; taken with `ef_search`. Its time is in the build's.
    """

    def __init__(self, settings: ApproximateSettings, vectors: ChunkVectors, engine: ModuleType) -> None:
        self._settings = settings
        self._vectors = vectors
        self._faiss: Any = engine
        self._texts: DistinctTexts | None = None
        self._index: Any = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encode the chunks and link them; see `Retriever.build`."""
        settings, faiss = self._settings, self._faiss
        encoded = self._vectors.of(chunks, folder)
        self._texts, matrix = encoded.texts, encoded.matrix
        self._index = faiss.IndexHNSWFlat(matrix.shape[1], settings.links, faiss.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction = settings.ef_construction
        self._index.add(matrix)
        faiss.write_index(self._index, str(folder / "vectors.faiss"))
        self._texts.write_ids(folder)
        return IndexFacts(
            chunks=self._texts.chunks,
            index_bytes=folder_bytes(folder),
            bytes_are=BYTES_ARE,
            engine=f"faiss {version('faiss-cpu')}, {self._vectors.engine}",
            stated=self._texts.stated
            | {
                "links": settings.links,
                "ef_construction": settings.ef_construction,
                "ef_search": settings.ef_search,
                "recall@10_of_exact": self._recall(matrix),
            },
            warnings=encoded.warnings,
            reused_seconds=encoded.reused_seconds,
        )

    def watch(self, tell: Watcher) -> None:
        self._vectors.watcher = tell

    def search(self, query: str, k: int) -> Hits:
        """Return approximately the k chunks most similar to the query; scores as float32."""
        vector = self._vectors.of_query(query)
        if vector is None or self._texts is None or k <= 0:
            return []
        scores, rows = self._nearest(vector[None], k)
        there = rows[0] >= 0
        return self._texts.best(scores[0][there], k, rows[0][there])

    def close(self) -> None:
        self._texts = self._index = None

    def _nearest(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        # The engine ends a search at `efSearch` candidates, and gives fewer than are asked for where that is less.
        wide_enough = self._faiss.SearchParametersHNSW(efSearch=max(self._settings.ef_search, k))
        scores, rows = self._index.search(vectors, min(k, self._index.ntotal), params=wide_enough)
        return scores, rows

    def _recall(self, matrix: NDArray[np.float32]) -> float:
        asked = np.unique(np.linspace(0, len(matrix) - 1, min(_SAMPLE, len(matrix))).astype(int))
        k = min(_NEIGHBOURS, len(matrix) - 1)
        if not k:
            return 1.0
        _, found = self._nearest(matrix[asked], k + 1)
        shares = []
        for row, near in zip(asked.tolist(), found, strict=True):
            similar = matrix @ matrix[row]
            similar[row] = -np.inf
            exact = np.argpartition(similar, -k)[-k:]
            shares.append(len(set(exact.tolist()) & set(near[near != row][:k].tolist())) / k)
        return round(float(np.mean(shares)), 4)
