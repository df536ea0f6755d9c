"""Retrievers on an Elasticsearch or OpenSearch server, by `query`: BM25, learned sparse vectors, kNN."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Retriever
from plumbline.extras.lab.retrievers.elastic_settings import IndexPlan, ServerFacts, ServerSettings
from plumbline.extras.lab.retrievers.vectors import ModelVectors, VectorSettings
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import shown

# What would mean something else in a field's name or in a list of fields.
_SPECIAL: Final = frozenset('.*^,"\\ ')
_BARE: Final = {"_source": False, "track_total_hits": False}
Boost = Annotated[float, Field(gt=0, le=1000)]


class _ServerRetriever(ServerSettings):
    def make(self) -> Retriever:
        """Create the retriever, nothing sent yet; InvalidInput where a credential's variable is not set."""
        from plumbline.extras.lab.retrievers.elastic_index import ServerIndex  # noqa: PLC0415 - an HTTP client

        return ServerIndex(self, self.plan)

    def plan(self, server: ServerFacts, chunks: Sequence[Chunk]) -> IndexPlan:
        """Plan the index; InvalidInput where the settings do not fit the chunks or the server."""
        raise NotImplementedError


class _Keyword(_ServerRetriever):
    fields: Mapping[str, Boost] = Field(
        {}, description="Fields that are searched, and what each counts for; all alike when empty."
    )
    tie_breaker: float = Field(
        0.0, ge=0, le=1, description="What the fields that are not the best one count for: 0 nothing, 1 all."
    )
    analyzer: str = Field(
        "english",
        pattern=r"^[a-z0-9_]+$",
        description="The server's analyzer for all fields: standard, english, cjk ..., or one of a plugin, as smartcn.",
    )
    k1: float = Field(1.2, ge=0, le=100, description="BM25's k1.")
    b: float = Field(0.75, ge=0, le=1, description="BM25's b.")

    def plan(self, server: ServerFacts, chunks: Sequence[Chunk]) -> IndexPlan:
        """Plan the index, alike on both servers; InvalidInput where no chunk has a field, or its name is refused."""
        boosts = self.fields or dict.fromkeys((name for chunk in chunks for name in chunk.fields), 1.0)
        for name in boosts:
            if name.startswith("_") or not _SPECIAL.isdisjoint(name) or not name:
                raise InvalidInput(f"field {shown(name)}: rename it; a server has no plain field of that name")
            if not any(chunk.fields.get(name) for chunk in chunks):
                raise InvalidInput(f"field {shown(name)}: no chunk has text in it")
        named = [f"{name}^{boost:g}" for name, boost in boosts.items()]
        kind = {**self._kind(), "tie_breaker": self.tie_breaker}

        def sources(some: Sequence[Chunk]) -> list[dict[str, Any]]:
            return [{name: chunk.fields[name] for name in boosts if chunk.fields.get(name)} for chunk in some]

        def search(query: str, k: int) -> dict[str, Any]:
            return {"query": {"multi_match": {"query": query, "fields": named, **kind}}, "size": k, **_BARE}

        return IndexPlan(
            properties={name: {"type": "text", "analyzer": self.analyzer} for name in boosts},
            sources=sources,
            search=search,
            settings={"similarity": {"default": {"type": "BM25", "k1": self.k1, "b": self.b}}},
            stated={
                "query": str(kind["type"]),
                "fields": " ".join(named),
                "k1": self.k1,
                "b": self.b,
                "analyzer": self.analyzer,
                **{name: value for name, value in kind.items() if name != "type"},
            },
        )

    def _kind(self) -> Mapping[str, str | int | float]:
        raise NotImplementedError


class ElasticFields(_Keyword):
    """`multi_match`: best_fields scores by the best field, cross_fields looks for each term in all fields as one."""

    query: Literal["best_fields", "cross_fields"]
    operator: Literal["or", "and"] = Field("or", description="or: any term matches; and: every term must.")

    def _kind(self) -> Mapping[str, str | int | float]:
        return {"type": self.query, "operator": self.operator}


class ElasticPhrases(_Keyword):
    """`multi_match`: the query as a phrase whose last word may be a prefix; the best field decides."""

    query: Literal["phrase_prefix"]
    slop: int = Field(0, ge=0, le=1000, description="Moves of words that a phrase may need.")
    max_expansions: int = Field(50, ge=1, le=1000, description="Completions of the last word that are tried.")

    def _kind(self) -> Mapping[str, str | int | float]:
        return {"type": self.query, "slop": self.slop, "max_expansions": self.max_expansions}


_TEXT_FIELD: Final = "passage"
_WEIGHTS_FIELD: Final = "expansion"
_SPARSE_VECTOR_FIELD: Final = (8, 11)  # Elasticsearch has the field again since then,
_SPARSE_VECTOR_QUERY: Final = (8, 15)  # and the query that replaces text_expansion since then
_NEURAL_SPARSE: Final = (2, 11)


class ElasticSparse(_ServerRetriever):
    """Learned sparse search by a model on the server: ELSER on Elasticsearch, neural sparse on OpenSearch."""

    query: Literal["sparse_vector"]
    model: str = Field(
        min_length=1,
        description="Elasticsearch: id of the inference endpoint (before 8.15: of the deployed model). "
        "OpenSearch: id of the deployed sparse encoding model.",
    )
    batch: int = Field(50, ge=1, le=10_000, description="Chunks in one bulk request: the model reads each of them.")
    timeout_seconds: float = Field(300.0, gt=0, le=3600, description="Read timeout of a request, in seconds.")

    def plan(self, server: ServerFacts, chunks: Sequence[Chunk]) -> IndexPlan:
        """Plan the index; InvalidInput where the server is too old."""
        is_open = server.flavour == "opensearch"
        oldest = _NEURAL_SPARSE if is_open else _SPARSE_VECTOR_FIELD
        if server.version and server.version < oldest:
            raise InvalidInput(f"{server.engine} is too old for sparse_vector: expected {'.'.join(map(str, oldest))}")
        if is_open:
            kind = "neural_sparse"
            processor: dict[str, Any] = {
                "sparse_encoding": {"model_id": self.model, "field_map": {_TEXT_FIELD: _WEIGHTS_FIELD}},
            }
        else:
            kind = "text_expansion" if server.version and server.version < _SPARSE_VECTOR_QUERY else "sparse_vector"
            fields = [{"input_field": _TEXT_FIELD, "output_field": _WEIGHTS_FIELD}]
            processor = {"inference": {"model_id": self.model, "input_output": fields}}

        def clause(query: str) -> dict[str, Any]:
            if kind == "sparse_vector":
                return {"field": _WEIGHTS_FIELD, "inference_id": self.model, "query": query}
            text = "query_text" if is_open else "model_text"
            return {_WEIGHTS_FIELD: {"model_id": self.model, text: query}}

        return IndexPlan(
            properties={
                _TEXT_FIELD: {"type": "text", "index": False},
                _WEIGHTS_FIELD: {"type": "rank_features" if is_open else "sparse_vector"},
            },
            sources=lambda some: [{_TEXT_FIELD: chunk.text} for chunk in some],
            search=lambda query, k: {"query": {kind: clause(query)}, "size": k, **_BARE},
            stated={"query": kind, "model": self.model},
            processors=[processor],
            unkept=[_WEIGHTS_FIELD],
        )


_VECTOR_FIELD: Final = "vector"


class ElasticKnn(ServerSettings):
    """Approximate kNN by cosine over vectors encoded here: `hnsw` of Elasticsearch, OpenSearch's `lucene`."""

    query: Literal["knn"]
    model: str | None = Field(None, description='As of `kind = "dense"`, and so are the prompts.')
    query_prompt: str | None = Field(None, description="Put before each query; else the model's own.")
    document_prompt: str | None = Field(None, description="Put before each chunk; else the model's own.")
    m: int = Field(16, ge=2, le=512, description="Edges of a vector in the graph.")
    ef_construction: int = Field(100, ge=2, le=3200, description="Candidates that are looked at for each new vector.")
    candidates: int = Field(
        100, ge=1, le=10_000, description="Candidates that are looked at for a query; k, where that is more."
    )

    def make(self) -> Retriever:
        """Create the retriever and load its model; encoding the query is part of its search."""
        from plumbline.extras.lab.retrievers.elastic_index import ServerIndex  # noqa: PLC0415 - an HTTP client

        settings = VectorSettings(
            model=self.model, query_prompt=self.query_prompt, document_prompt=self.document_prompt
        )
        return ServerIndex(self, partial(self.plan_vectors, ModelVectors(settings)))

    def plan_vectors(self, vectors: ModelVectors, server: ServerFacts, chunks: Sequence[Chunk]) -> IndexPlan:
        """Plan the index, its dimensions from the first chunk's vector; InvalidInput where the server is too old."""
        is_open = server.flavour == "opensearch"
        if server.version and server.version < ((2, 4) if is_open else (8, 4)):
            raise InvalidInput(f"{server.engine} is too old for knn: expected {'2.4' if is_open else '8.4'}")
        dimensions = int(vectors.encode_documents([chunks[0].text]).shape[1])

        def sources(some: Sequence[Chunk]) -> list[dict[str, Any]]:
            rows = vectors.encode_documents([chunk.text for chunk in some])
            return [{_VECTOR_FIELD: row.tolist()} for row in rows]

        def search(query: str, k: int) -> dict[str, Any]:
            vector = vectors.encode_queries([query])[0].tolist()
            wide = max(k, self.candidates)
            if is_open:
                return {"query": {"knn": {_VECTOR_FIELD: {"vector": vector, "k": wide}}}, "size": k, **_BARE}
            near = {"field": _VECTOR_FIELD, "query_vector": vector, "k": k, "num_candidates": wide}
            return {"knn": near, "size": k, **_BARE}

        graph: dict[str, Any] = {"m": self.m, "ef_construction": self.ef_construction}
        if is_open:
            method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil", "parameters": graph}
            field: dict[str, Any] = {"type": "knn_vector", "dimension": dimensions, "method": method}
        else:
            field = {"type": "dense_vector", "dims": dimensions, "index": True, "similarity": "cosine"}
            # explicit, as the default has changed with versions: float vectors, then 8 bits, then 1
            field["index_options"] = {"type": "hnsw", **graph}

        return IndexPlan(
            properties={_VECTOR_FIELD: field},
            sources=sources,
            search=search,
            settings={"knn": True} if is_open else {},
            stated={
                "query": "knn",
                "model": vectors.name,
                "dimensions": dimensions,
                "similarity": "cosine",
                "graph": "hnsw (lucene)",
                **graph,
                "candidates": self.candidates,
            },
            unkept=[_VECTOR_FIELD],
        )


ElasticRetriever = Annotated[ElasticFields | ElasticPhrases | ElasticSparse | ElasticKnn, Field(discriminator="query")]
