"""The bodies that the lab sends, against those that Elastic's own client makes of its typed queries and fields."""

from typing import Any

import elasticsearch
import pytest
from elasticsearch.dsl import field, query

from tests.contract.elastic_indexes import built, lab
from tests.doubles.scripted_elasticsearch import ScriptedElasticsearch

TEXT = "wing heat"
MATCH: dict[str, Any] = {"query": TEXT, "fields": ["title^2", "text^1"], "tie_breaker": 0.0}
MODEL: dict[str, Any] = {"query": "sparse_vector", "model": "sparse-model"}
FIELDS = {"fields": {"title": 2, "text": 1}}


@pytest.mark.parametrize(
    ("version", "given", "same"),
    [
        ("9.1.0", {"query": "best_fields", **FIELDS}, query.MultiMatch(**MATCH, type="best_fields", operator="or")),
        ("9.1.0", {"query": "cross_fields", **FIELDS}, query.MultiMatch(**MATCH, type="cross_fields", operator="or")),
        (
            "9.1.0",
            {"query": "phrase_prefix", **FIELDS},
            query.MultiMatch(**MATCH, type="phrase_prefix", slop=0, max_expansions=50),
        ),
        ("9.1.0", MODEL, query.SparseVector(field="expansion", inference_id="sparse-model", query=TEXT)),
        ("8.14.0", MODEL, query.TextExpansion("expansion", {"model_id": "sparse-model", "model_text": TEXT})),
    ],
)
def test_a_search_is_the_one_that_the_client_sends(version: str, given: dict[str, Any], same: query.Query) -> None:
    with lab(ScriptedElasticsearch(version=version), **given) as it:
        built(it)
        ours = it.retriever.search(TEXT, 5)
        with elasticsearch.Elasticsearch(it.service.url) as client:
            answer = client.search(
                index=it.name,
                query=same.to_dict(),
                size=5,
                source=False,
                track_total_hits=False,
                allow_partial_search_results=False,
                filter_path="hits.hits._id,hits.hits._score",
            )
        mine, theirs = it.asked("POST", "_search")

    assert (mine.path, dict(mine.params), mine.json) == (theirs.path, dict(theirs.params), theirs.json)
    assert list(ours) == [(hit["_id"], hit["_score"]) for hit in answer.body.get("hits", {}).get("hits", [])]


def test_a_search_of_neighbours_is_the_one_that_the_client_sends() -> None:
    vector = [2.0, 2.0, 1.0]
    with lab(query="knn") as it:
        built(it)
        it.retriever.search(TEXT, 5)
        with elasticsearch.Elasticsearch(it.service.url) as client:
            knn = query.Knn(field="vector", query_vector=vector, k=5, num_candidates=100).to_dict()["knn"]
            client.search(index=it.name, knn=knn, size=5, source=False, track_total_hits=False)
        mine, theirs = it.asked("POST", "_search")
        properties = it.server.indexes[it.name].properties

    graph = {"type": "hnsw", "m": 16, "ef_construction": 100}
    assert mine.json == theirs.json
    assert (
        properties["vector"]
        == field.DenseVector(dims=3, index=True, similarity="cosine", index_options=graph).to_dict()
    )


def test_the_calls_of_a_build_are_those_of_the_client() -> None:
    with lab(ScriptedElasticsearch(), **MODEL) as it:
        built(it)
        ours = [(asked.method, asked.path, dict(asked.params)) for asked in it.service.asked]
        name, body = it.name, it.server.indexes[it.name].body
        it.server.indexes.clear()
        before = len(it.service.asked)
        with elasticsearch.Elasticsearch(it.service.url) as client:
            client.info()
            client.ingest.get_pipeline(id=name)
            client.ingest.put_pipeline(id=name, **it.server.pipelines[name])
            client.indices.create(index=name, **body)
            client.indices.get_mapping(index=name)
            client.indices.forcemerge(index=name, max_num_segments=1)
            client.indices.refresh(index=name)
            client.count(index=name)
            client.indices.stats(index=name, metric="store")
        theirs = [(asked.method, asked.path, dict(asked.params)) for asked in it.service.asked[before:]]

    # the client counts by POST, which both servers take as they take GET
    changed = [("GET" if path.endswith("_count") else method, path, params) for method, path, params in theirs]
    assert sorted(changed, key=str) == sorted((call for call in ours if "_bulk" not in call[1]), key=str)


def test_the_client_refuses_the_other_server_and_this_is_why_it_is_not_used() -> None:
    with (
        lab(ScriptedElasticsearch("opensearch", "3.1.0")) as it,
        elasticsearch.Elasticsearch(it.service.url) as client,
        pytest.raises(elasticsearch.UnsupportedProductError),
    ):
        client.info()
