"""What the lab's server retriever sends, word for word, against the documented calls of the two servers."""

import json
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from tests.contract.elastic_indexes import CHUNKS, Lab, built, chunk, lab, settings_of
from tests.doubles.scripted_elasticsearch import ScriptedElasticsearch

BARE = {"_source": False, "track_total_hits": False}


def search_body(it: Lab, query: str = "wing heat", k: int = 2) -> Any:
    built(it)
    it.retriever.search(query, k)
    return it.asked("POST", "_search")[-1].json


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"query": "best_fields", "tie_breaker": 0.3}, {"type": "best_fields", "operator": "or", "tie_breaker": 0.3}),
        ({"query": "cross_fields", "operator": "and"}, {"type": "cross_fields", "operator": "and", "tie_breaker": 0.0}),
        ({"query": "phrase_prefix"}, {"type": "phrase_prefix", "slop": 0, "max_expansions": 50, "tie_breaker": 0.0}),
    ],
)
@pytest.mark.parametrize("flavour", ["elasticsearch", "opensearch"])
def test_keywords_are_asked_as_multi_match(flavour: str, given: dict[str, Any], kind: dict[str, Any]) -> None:
    with lab(ScriptedElasticsearch(flavour), fields={"title": 2, "text": 1.5}, **given) as it:
        body = search_body(it)

    assert body == {
        "query": {"multi_match": {"query": "wing heat", "fields": ["title^2", "text^1.5"], **kind}},
        "size": 2,
        **BARE,
    }


def test_an_index_for_keywords_states_its_similarity_and_analyzer() -> None:
    with lab(fields={"title": 2, "text": 1}, k1=0.9, b=0.4, analyzer="cjk") as it:
        facts = built(it)
        body = it.server.indexes[it.name].body

    assert body["settings"]["index"] == {
        "number_of_shards": 1,
        "number_of_replicas": 0,
        "refresh_interval": "-1",
        "store.stats_refresh_interval": "0s",
        "similarity": {"default": {"type": "BM25", "k1": 0.9, "b": 0.4}},
    }
    assert body["mappings"] == {
        "dynamic": False,
        "_meta": {"made_by": "made by plumbline lab"},
        "properties": {name: {"type": "text", "analyzer": "cjk"} for name in ("title", "text")},
    }
    assert facts["stated"] == {
        "query": "best_fields",
        "fields": "title^2 text^1",
        "k1": 0.9,
        "b": 0.4,
        "analyzer": "cjk",
        "operator": "or",
        "tie_breaker": 0.0,
        "shards": 1,
        "merged": "yes",
    }


@pytest.mark.parametrize(
    ("version", "query"),
    [
        ("9.1.0", {"sparse_vector": {"field": "expansion", "inference_id": "sparse-model", "query": "plane"}}),
        ("8.15.0", {"sparse_vector": {"field": "expansion", "inference_id": "sparse-model", "query": "plane"}}),
        ("8.14.3", {"text_expansion": {"expansion": {"model_id": "sparse-model", "model_text": "plane"}}}),
    ],
)
def test_elser_is_asked_as_the_version_knows_it(version: str, query: dict[str, Any]) -> None:
    with lab(ScriptedElasticsearch(version=version), query="sparse_vector", model="sparse-model") as it:
        body = search_body(it, "plane")
        pipeline, index = it.server.pipelines[it.name], it.server.indexes[it.name].body["mappings"]
        sent = it.asked("POST", "_bulk")[0]

    fields = [{"input_field": "passage", "output_field": "expansion"}]
    inference = {"inference": {"model_id": "sparse-model", "input_output": fields}}
    assert body == {"query": query, "size": 2, **BARE}
    assert pipeline == {"description": "made by plumbline lab", "processors": [inference]}
    assert index["properties"] == {
        "passage": {"type": "text", "index": False},
        "expansion": {"type": "sparse_vector"},
    }
    assert index["_source"] == {"excludes": ["expansion"]}
    assert sent.params == {"pipeline": sent.path.split("/")[1]}
    assert json.loads(sent.body.splitlines()[1]) == {"passage": CHUNKS[0].text}


def test_opensearch_is_asked_for_neural_sparse() -> None:
    server = ScriptedElasticsearch("opensearch", "3.1.0")
    with lab(server, query="sparse_vector", model="sparse-model") as it:
        body = search_body(it, "plane")
        (processor,) = server.pipelines[it.name]["processors"]
        properties = server.indexes[it.name].properties

    assert body["query"] == {"neural_sparse": {"expansion": {"query_text": "plane", "model_id": "sparse-model"}}}
    assert processor == {"sparse_encoding": {"model_id": "sparse-model", "field_map": {"passage": "expansion"}}}
    assert properties["expansion"] == {"type": "rank_features"}


def test_nearest_neighbours_of_elasticsearch() -> None:
    with lab(query="knn", candidates=7) as it:
        body = search_body(it, "wing")
        index = it.server.indexes[it.name].body

    assert body == {
        "knn": {"field": "vector", "query_vector": [2.0, 1.0, 1.0], "k": 2, "num_candidates": 7},
        "size": 2,
        **BARE,
    }
    assert index["mappings"]["properties"]["vector"] == {
        "type": "dense_vector",
        "dims": 3,
        "index": True,
        "similarity": "cosine",
        "index_options": {"type": "hnsw", "m": 16, "ef_construction": 100},
    }
    assert index["mappings"]["_source"] == {"excludes": ["vector"]}


def test_nearest_neighbours_of_opensearch() -> None:
    with lab(ScriptedElasticsearch("opensearch", "2.19.1"), query="knn", m=8) as it:
        body = search_body(it, "wing")
        index = it.server.indexes[it.name].body

    assert body == {"query": {"knn": {"vector": {"vector": [2.0, 1.0, 1.0], "k": 100}}}, "size": 2, **BARE}
    assert index["settings"]["index"]["knn"] is True
    assert index["mappings"]["properties"]["vector"] == {
        "type": "knn_vector",
        "dimension": 3,
        "method": {
            "name": "hnsw",
            "engine": "lucene",
            "space_type": "cosinesimil",
            "parameters": {"m": 8, "ef_construction": 100},
        },
    }


def test_the_calls_of_a_build_and_its_end() -> None:
    with lab(fields={"text": 1}) as it:
        facts = built(it)
        name = it.name
        it.retriever.search("wing", 10)
        it.retriever.close()
        calls = [(asked.method, asked.path.replace(name, "INDEX"), dict(asked.params)) for asked in it.service.asked]

    bare = {"filter_path": "hits.hits._id,hits.hits._score", "allow_partial_search_results": "false"}
    assert calls == [
        ("GET", "/", {}),
        ("GET", "/INDEX/_mapping", {}),
        ("PUT", "/INDEX", {}),
        ("POST", "/INDEX/_bulk", {}),
        ("POST", "/INDEX/_forcemerge", {"max_num_segments": "1"}),
        ("POST", "/INDEX/_refresh", {}),
        ("GET", "/INDEX/_count", {}),
        ("GET", "/INDEX/_stats/store", {}),
        ("POST", "/INDEX/_search", bare),
        ("DELETE", "/INDEX", {}),
    ]
    assert facts["engine"] == "Elasticsearch 9.1.0"
    assert facts["chunks"] == 3
    assert facts["bytes"] > 0


def test_bulk_is_ndjson_of_actions_and_sources_in_bounded_requests() -> None:
    with lab(fields={"title": 1, "text": 1}, batch=2) as it:
        built(it, (*CHUNKS, chunk('d"4#0', "line one\nline two")))
        first, second = it.asked("POST", "_bulk")

    assert first.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in first.body.split(b"\n")[:-1]] == [
        {"index": {"_id": "d1"}},
        {"title": "Heat transfer", "text": "Heat moves through the wing of a plane."},
        {"index": {"_id": "d2"}},
        {"title": "Noise", "text": "Sound in the wake of a wing: a wing hums."},
    ]
    assert second.body.endswith(b"\n")
    assert [json.loads(line) for line in second.body.split(b"\n")[2:-1]] == [
        {"index": {"_id": 'd"4#0'}},
        {"text": "line one\nline two"},
    ]


def test_a_bulk_request_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plumbline.extras.lab.retrievers.elastic_index.MOST_BYTES", 200)
    with lab(fields={"text": 1}) as it:
        built(it, [chunk(f"d{at}", "x" * size) for at, size in enumerate((90, 400, 20, 20))])
        sent = [len(asked.body.splitlines()) // 2 for asked in it.asked("POST", "_bulk")]

    assert sent == [1, 1, 2]


@pytest.mark.parametrize(
    ("given", "query", "ids"),
    [
        ({"fields": {"title": 1, "text": 1}}, "heat wing", ["d1", "d2"]),
        ({"fields": {"text": 1}}, "wing", ["d2", "d1"]),
        ({"fields": {"title": 9, "text": 1}, "query": "cross_fields"}, "noise heat", ["d2", "d1"]),
        ({"fields": {"title": 1, "text": 1}, "query": "cross_fields", "operator": "and"}, "noise wing", ["d2"]),
        ({"fields": {"title": 1, "text": 1}, "operator": "and"}, "noise wing", []),
        ({"fields": {"text": 1}, "query": "phrase_prefix"}, "the wa", ["d2"]),
        ({"fields": {"text": 1}, "analyzer": "cjk"}, "机翼", ["d3"]),
        ({"query": "sparse_vector", "model": "sparse-model"}, "aircraft", ["d1"]),
        ({"query": "knn"}, "wing", ["d2", "d3", "d1"]),
    ],
)
def test_hits_come_best_first_with_their_scores(given: dict[str, Any], query: str, ids: list[str]) -> None:
    with lab(**given) as it:
        built(it)
        hits = it.retriever.search(query, 10)

    assert [id_ for id_, _ in hits] == ids
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    assert all(isinstance(score, float) for _, score in hits)


def test_nothing_found_is_no_hits() -> None:
    with lab() as it:
        built(it)

        assert it.retriever.search("zebra", 10) == []


def test_what_is_kept_is_replaced_by_the_next_run_and_gone_after_one_that_keeps_nothing() -> None:
    server = ScriptedElasticsearch()
    given = {"query": "sparse_vector", "model": "sparse-model"}
    for keep, left in ((True, 1), (True, 1), (False, 0)):
        with lab(server, keep=keep, **given) as it:
            built(it)
        assert len(server.indexes) == len(server.pipelines) == left


def test_other_chunks_and_other_settings_have_other_indexes() -> None:
    server = ScriptedElasticsearch()
    for chunks, k1 in ((CHUNKS, 1.2), (CHUNKS[:2], 1.2), (CHUNKS, 0.9)):
        with lab(server, keep=True, k1=k1) as it:
            built(it, chunks)

    assert len(server.indexes) == 3


def test_all_fields_with_text_in_any_chunk_are_searched_when_none_are_named() -> None:
    with lab() as it:
        assert search_body(it)["query"]["multi_match"]["fields"] == ["title^1", "text^1"]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"fields": {"abstract": 1}}, "field 'abstract': no chunk has text in it"),
        ({"fields": {"a.b": 1}}, r"field 'a.b': rename it"),
    ],
)
def test_fields_that_do_not_fit_are_refused_before_anything_is_made(given: dict[str, Any], match: str) -> None:
    with lab(**given) as it:
        with pytest.raises(InvalidInput, match=match):
            built(it)
        assert [asked.path for asked in it.service.asked] == ["/"]


def test_settings_are_told_apart_by_their_query() -> None:
    assert settings_of(query="phrase_prefix", slop=2).slop == 2
    for wrong in ({"slop": 2}, {"query": "knn", "k1": 1.0}, {"query": "sparse_vector"}, {"index_prefix": "a,b"}):
        with pytest.raises(ValueError, match="validation error"):
            settings_of(**wrong)
