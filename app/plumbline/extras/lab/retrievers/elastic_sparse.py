"""Learned sparse search on a server that has the model: ELSER on Elasticsearch, neural sparse on OpenSearch."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Retriever
from plumbline.extras.lab.retrievers.elastic_plan import Plan, ServerFacts
from plumbline.extras.lab.retrievers.elastic_settings import ServerSettings
from plumbline.ground.errors import InvalidInput

_TEXT: Final = "passage"
_WEIGHTS: Final = "expansion"
_SPARSE_VECTOR_FIELD: Final = (8, 11)  # Elasticsearch has the field again since then,
_SPARSE_VECTOR_QUERY: Final = (8, 15)  # and the query that replaces text_expansion since then
_NEURAL_SPARSE: Final = (2, 11)


class ElasticSparse(ServerSettings):
    """All text of a chunk, expanded by the server's model; the query by the same one."""

    query: Literal["sparse_vector"]
    model: str = Field(
        min_length=1,
        description="Elasticsearch: id of the inference endpoint (before 8.15: of the deployed model). "
        "OpenSearch: id of the deployed sparse encoding model.",
    )
    batch: int = Field(50, ge=1, le=10_000, description="Chunks in one bulk request: the model reads each of them.")
    timeout_seconds: float = Field(300.0, gt=0, le=3600, description="Seconds without a byte of an answer, at most.")

    def make(self) -> Retriever:
        """The retriever."""
        from plumbline.extras.lab.retrievers.elastic_index import ServerIndex  # noqa: PLC0415 - an HTTP client

        return ServerIndex(self, self.plan)

    def plan(self, server: ServerFacts, _chunks: Sequence[Chunk]) -> Plan:
        """What the index needs.

        Raises:
            InvalidInput: the server is too old.
        """
        is_open = server.flavour == "opensearch"
        oldest = _NEURAL_SPARSE if is_open else _SPARSE_VECTOR_FIELD
        if server.version and server.version < oldest:
            raise InvalidInput(f"{server.engine} is too old for sparse_vector: expected {'.'.join(map(str, oldest))}")
        if is_open:
            kind = "neural_sparse"
            processor: dict[str, Any] = {
                "sparse_encoding": {"model_id": self.model, "field_map": {_TEXT: _WEIGHTS}},
            }
        else:
            kind = "text_expansion" if server.version and server.version < _SPARSE_VECTOR_QUERY else "sparse_vector"
            fields = [{"input_field": _TEXT, "output_field": _WEIGHTS}]
            processor = {"inference": {"model_id": self.model, "input_output": fields}}

        def clause(query: str) -> dict[str, Any]:
            if kind == "sparse_vector":
                return {"field": _WEIGHTS, "inference_id": self.model, "query": query}
            text = "query_text" if is_open else "model_text"
            return {_WEIGHTS: {"model_id": self.model, text: query}}

        return Plan(
            properties={
                _TEXT: {"type": "text", "index": False},
                _WEIGHTS: {"type": "rank_features" if is_open else "sparse_vector"},
            },
            sources=lambda some: [{_TEXT: chunk.text} for chunk in some],
            search=lambda query, k: {
                "query": {kind: clause(query)},
                "size": k,
                "_source": False,
                "track_total_hits": False,
            },
            stated={"query": kind, "model": self.model},
            processors=[processor],
            unkept=[_WEIGHTS],
        )
