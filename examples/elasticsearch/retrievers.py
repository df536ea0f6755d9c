"""Elasticsearch 8.18 or 9 as retrievers of `plumbline lab`: BM25, kNN, ELSER, and blends that Elasticsearch makes.

`experiment.toml` beside this file uses them. They need `pip install elasticsearch`, and `elser` a cluster with an
inference endpoint of ELSER.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch, helpers

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits
from plumbline.models.encoder.model_files import find_model
from plumbline.models.encoder.torch_model import load_sentence_transformer

# Elasticsearch returns no more hits than this unless the index says otherwise (index.max_result_window).
MOST_HITS = 10_000


class Elastic:
    """One index of Elasticsearch, searched in one way.

    Args:
        kind: `keyword` (multi-match of the type `multi_match`), `knn`, `elser`; `rrf` and `linear` blend the `parts`.
        fields: the fields of `keyword`, with boosts.
        model: of `knn`: folder or hub id of a sentence-transformers model; default: all-MiniLM-L6-v2.
        weights: of `linear`, one for each part.
    """

    def __init__(
        self,
        kind: str = "keyword",
        *,
        url: str = "http://localhost:9200",
        api_key: str | None = None,
        index: str = "plumbline-lab",
        fields: Sequence[str] = ("title^2", "text"),
        multi_match: str = "best_fields",
        parts: Sequence[str] = ("keyword", "knn"),
        weights: Sequence[float] = (0.5, 0.5),
        model: str | None = None,
        inference_id: str = ".elser-2-elasticsearch",
    ) -> None:
        self.client = Elasticsearch(url, api_key=api_key, request_timeout=120)
        self.kind, self.index, self.inference_id = kind, f"{index}-{kind}", inference_id
        self.fields, self.multi_match, self.parts, self.weights = list(fields), multi_match, parts, weights
        self.parts_used = set(parts) if kind in ("rrf", "linear") else {kind}
        self.encoder: Any = None
        if "knn" in self.parts_used:
            self.encoder = load_sentence_transformer(find_model(model))

    def build(self, chunks: Sequence[Chunk], folder: Path) -> int:
        """Make the index anew, with a vector for each chunk where one is needed; return its bytes."""
        # One shard: terms are counted by shard, and scores would differ between them.
        settings: dict[str, Any] = {"number_of_shards": 1, "number_of_replicas": 0}
        properties: dict[str, Any] = {}
        if self.encoder is not None:
            dimensions = len(self.encoder.encode("", show_progress_bar=False))
            properties["vector"] = {"type": "dense_vector", "dims": dimensions, "similarity": "cosine"}
        if "elser" in self.parts_used:
            properties |= {"all_text": {"type": "text", "index": False}, "expansion": {"type": "sparse_vector"}}
            pipeline, terms = f"{self.index}-elser", {"input_field": "all_text", "output_field": "expansion"}
            step = {"inference": {"model_id": self.inference_id, "input_output": [terms]}}
            self.client.ingest.put_pipeline(id=pipeline, processors=[step])
            settings["default_pipeline"] = pipeline
        self.client.indices.delete(index=self.index, ignore_unavailable=True)
        self.client.indices.create(index=self.index, settings=settings, mappings={"properties": properties})
        vectors: list[Any] = [None] * len(chunks)
        if self.encoder is not None:
            vectors = self.encoder.encode([each.text for each in chunks], show_progress_bar=False).tolist()
        helpers.bulk(self.client, map(self._document, chunks, vectors))
        self.client.indices.refresh(index=self.index)
        size = self.client.indices.stats(index=self.index)["_all"]["primaries"]["store"]["size_in_bytes"]
        return int(size)

    def search(self, query: str, k: int) -> Hits:
        """Return the best chunks by Elasticsearch's own score."""
        found = self.client.search(
            index=self.index,
            retriever=self._retriever(self.kind, query, min(k, MOST_HITS)),
            size=min(k, MOST_HITS),
            source=False,
        )
        return [(hit["_id"], hit["_score"]) for hit in found["hits"]["hits"]]

    def _document(self, chunk: Chunk, vector: list[float] | None) -> dict[str, Any]:
        document: dict[str, Any] = {"_index": self.index, "_id": chunk.id, **chunk.fields}
        if vector is not None:
            document["vector"] = vector
        if "elser" in self.parts_used:
            document["all_text"] = chunk.text
        return document

    def _retriever(self, kind: str, query: str, k: int) -> dict[str, Any]:
        if kind == "keyword":
            asked = {"multi_match": {"query": query, "fields": self.fields, "type": self.multi_match}}
            return {"standard": {"query": asked}}
        if kind == "elser":
            expansion = {"field": "expansion", "inference_id": self.inference_id, "query": query}
            return {"standard": {"query": {"sparse_vector": expansion}}}
        if kind == "knn":
            vector, candidates = (
                self.encoder.encode(query, show_progress_bar=False).tolist(),
                min(max(2 * k, 100), MOST_HITS),
            )
            return {"knn": {"field": "vector", "query_vector": vector, "k": k, "num_candidates": candidates}}
        parts = [self._retriever(part, query, k) for part in self.parts]
        if kind == "rrf":
            return {"rrf": {"retrievers": parts, "rank_constant": 60, "rank_window_size": k}}
        weighed = [
            {"retriever": part, "weight": weight, "normalizer": "minmax"}
            for part, weight in zip(parts, self.weights, strict=True)
        ]
        return {"linear": {"retrievers": weighed, "rank_window_size": k}}
