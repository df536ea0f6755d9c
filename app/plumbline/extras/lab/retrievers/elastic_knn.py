"""Approximate search of dense vectors on a server: they are computed here, and lie there in an HNSW graph."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Retriever
from plumbline.extras.lab.retrievers.elastic_plan import Plan, ServerFacts
from plumbline.extras.lab.retrievers.elastic_settings import ServerSettings
from plumbline.extras.lab.retrievers.vector_model import VectorSettings
from plumbline.ground.errors import InvalidInput

_VECTOR: Final = "vector"
_MOST_CANDIDATES: Final = 10_000


class TextVectors(Protocol):
    """Texts as vectors: one row of float32 for each text, in their order."""

    @property
    def name(self) -> str:
        """The model, as a report names it."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Of what is indexed."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Of what is asked."""
        ...


class ElasticKnn(ServerSettings):
    """Nearest neighbours by cosine in a graph of 32-bit vectors: `hnsw` of Elasticsearch, OpenSearch's `lucene`."""

    query: Literal["knn"]
    model: str | None = Field(None, description='As of `kind = "dense"`, and so are the prompts.')
    query_prompt: str | None = Field(None, description="Put before each query; else the model's own.")
    document_prompt: str | None = Field(None, description="Put before each chunk; else the model's own.")
    m: int = Field(16, ge=2, le=512, description="Edges of a vector in the graph.")
    ef_construction: int = Field(100, ge=2, le=3200, description="Candidates that are looked at for each new vector.")
    candidates: int = Field(
        100, ge=1, le=_MOST_CANDIDATES, description="Candidates that are looked at for a query; k, where that is more."
    )

    def encoder(self) -> VectorSettings:
        """What makes the vectors, for the lab to load."""
        return VectorSettings(model=self.model, query_prompt=self.query_prompt, document_prompt=self.document_prompt)

    def make(self, vectors: TextVectors) -> Retriever:
        """The retriever; encoding the query is part of its search."""
        from plumbline.extras.lab.retrievers.elastic_index import ServerIndex  # noqa: PLC0415 - an HTTP client

        return ServerIndex(self, partial(self.plan, vectors))

    def plan(self, vectors: TextVectors, server: ServerFacts, chunks: Sequence[Chunk]) -> Plan:
        """What the index needs; the first chunk's vector says how long they are.

        Raises:
            InvalidInput: the server is too old.
        """
        is_open = server.flavour == "opensearch"
        if server.version and server.version < ((2, 4) if is_open else (8, 4)):
            raise InvalidInput(f"{server.engine} is too old for knn: expected {'2.4' if is_open else '8.4'}")
        dimensions = int(vectors.encode_documents([chunks[0].text]).shape[1])

        def sources(some: Sequence[Chunk]) -> list[dict[str, Any]]:
            rows = vectors.encode_documents([chunk.text for chunk in some])
            return [{_VECTOR: row.tolist()} for row in rows]

        def search(query: str, k: int) -> dict[str, Any]:
            vector = vectors.encode_queries([query])[0].tolist()
            wide = max(k, self.candidates)
            bare = {"size": k, "_source": False, "track_total_hits": False}
            if is_open:
                return {"query": {"knn": {_VECTOR: {"vector": vector, "k": wide}}}, **bare}
            return {"knn": {"field": _VECTOR, "query_vector": vector, "k": k, "num_candidates": wide}, **bare}

        return Plan(
            properties={_VECTOR: self._opensearch(dimensions) if is_open else self._elasticsearch(dimensions)},
            sources=sources,
            search=search,
            settings={"knn": True} if is_open else {},
            stated={
                "query": "knn",
                "model": vectors.name,
                "dimensions": dimensions,
                "similarity": "cosine",
                "graph": "hnsw (lucene)",
                "m": self.m,
                "ef_construction": self.ef_construction,
                "candidates": self.candidates,
            },
            unkept=[_VECTOR],
        )

    def _elasticsearch(self, dimensions: int) -> dict[str, Any]:
        # said, as the default has changed with versions: float vectors, then 8 bits, then 1
        graph = {"type": "hnsw", "m": self.m, "ef_construction": self.ef_construction}
        return {
            "type": "dense_vector",
            "dims": dimensions,
            "index": True,
            "similarity": "cosine",
            "index_options": graph,
        }

    def _opensearch(self, dimensions: int) -> dict[str, Any]:
        return {
            "type": "knn_vector",
            "dimension": dimensions,
            "method": {
                "name": "hnsw",
                "engine": "lucene",
                "space_type": "cosinesimil",
                "parameters": {"m": self.m, "ef_construction": self.ef_construction},
            },
        }
