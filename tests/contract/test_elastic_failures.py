"""How the lab's server retriever fails: one line that says where and why, and never a credential or a text."""

import base64
import logging
from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from tests.contract.elastic_indexes import CHUNKS, built, chunk, lab, settings_of
from tests.doubles.scripted_elasticsearch import ScriptedElasticsearch, error
from tests.doubles.scripted_service import Answer, json_answer

KEY = "VnVhQ2ZHY0JDZGJrUW0tZTVhT3g6dWkybHAyYXhU"


def failure(it: Any, **given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        built(it, **given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"api_key_env": "LAB_KEY"}, f"ApiKey {KEY}"),
        (
            {"username_env": "LAB_USER", "password_env": "LAB_KEY"},
            f"Basic {base64.b64encode(f'ann:{KEY}'.encode()).decode()}",
        ),
    ],
)
def test_credentials_are_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: dict[str, Any], header: str
) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    monkeypatch.setenv("LAB_USER", "ann")
    caplog.set_level(logging.DEBUG)
    server = ScriptedElasticsearch(key=header)
    with lab(server, **given) as it:
        facts = built(it)
        assert {asked.headers["authorization"] for asked in it.service.asked} == {header}
        server.refusals["POST _search"] = [error(400, "x_exception", f"no such thing as {header} of {KEY}")]
        with pytest.raises(InvalidInput) as caught:
            it.retriever.search("wing", 1)
        shown = f"{caught.value} {facts} {caplog.text} {server.indexes} {it.retriever!r}"

    assert KEY not in shown
    assert header.split()[1] not in shown


def test_wrong_credentials_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "wrong-key")
    with lab(ScriptedElasticsearch(key=f"ApiKey {KEY}"), api_key_env="LAB_KEY") as it:
        said = failure(it)

        assert said == f"{it.service.url}: 401: the credentials are missing or wrong (api_key_env or username_env)"
        assert it.waits == []


def test_credentials_that_do_not_suffice_are_told() -> None:
    with lab() as it:
        it.server.refusals["PUT"] = [error(403, "security_exception", "unauthorized for user [ann]")]

        assert "403: the credentials do not allow PUT /plumbline-lab-" in failure(it)


def test_variables_that_are_not_set_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_KEY", raising=False)
    with pytest.raises(InvalidInput, match="environment variable LAB_KEY is not set"):
        settings_of(api_key_env="LAB_KEY").make()


def test_credentials_in_the_address_are_refused_and_not_repeated() -> None:
    for url in ("http://ann:s3cret@localhost:9200", "ann:s3cret@localhost"):
        with pytest.raises(InvalidInput, match="username_env") as caught:
            settings_of(url=url)
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"url": "localhost:9200"},
        {"username_env": "A"},
        {"api_key_env": "A", "username_env": "B", "password_env": "C"},
        {"api_key_env": "not a name"},
        {"batch": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        settings_of(**given)


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    retriever = settings_of(url="http://127.0.0.1:9").make()
    with pytest.raises(InvalidInput, match=r"^http://127\.0\.0\.1:9: 127\.0\.0\.1:9 cannot be reached: "):
        retriever.build(CHUNKS, None)
    retriever.close()


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with lab(timeout_seconds=0.2) as it:
        it.server.refusals["GET /"] = [Answer([b"{"], is_held=True)]

        assert "did not answer in time (ReadTimeout); timeout_seconds is 0.2" in failure(it)


def test_another_server_is_told() -> None:
    with lab() as it:
        it.server.refusals["GET /"] = [json_answer({"hello": 1})]
        assert "neither Elasticsearch nor OpenSearch" in failure(it)
        it.server.refusals["GET /"] = [Answer([b"<html>"])]
        assert "not JSON of Elasticsearch or OpenSearch" in failure(it)
        it.server.refusals["GET /"] = [Answer([], 302, headers={"location": "http://127.0.0.1:9/"})]
        assert "302: leads to another address" in failure(it)
    with lab(ScriptedElasticsearch("opensearch"), flavour="elasticsearch") as it:
        assert "this is opensearch; flavour says elasticsearch" in failure(it)


def test_a_version_that_may_not_be_asked_for_is_not_needed_where_the_flavour_is_named() -> None:
    with lab(flavour="elasticsearch") as it:
        it.server.refusals["GET /"] = [error(403, "security_exception", "cluster:monitor/main")]
        assert built(it)["engine"] == "Elasticsearch (version not told)"


@pytest.mark.parametrize(
    ("flavour", "version", "given"),
    [
        ("elasticsearch", "8.10.4", {"query": "sparse_vector", "model": "m"}),
        ("opensearch", "2.10.0", {"query": "sparse_vector", "model": "m"}),
        ("elasticsearch", "7.17.9", {"query": "knn"}),
    ],
)
def test_an_old_server_is_told(flavour: str, version: str, given: dict[str, Any]) -> None:
    with lab(ScriptedElasticsearch(flavour, version), **given) as it:
        assert f"{version} is too old for {given['query']}" in failure(it)


def test_an_analyzer_that_the_server_has_not_is_told_in_its_words() -> None:
    with lab(analyzer="smartcn") as it:
        assert "mapper_parsing_exception: analyzer [smartcn] has not been configured in mappings" in failure(it)


def test_a_busy_server_is_asked_again() -> None:
    busy = error(429, "es_rejected_execution_exception", "queue is full")
    with lab(fields={"text": 1}) as it:
        it.server.refusals["POST _bulk"] = [busy, error(503, "unavailable", "x")]
        it.server.refusals["GET _count"] = [Answer([b'{"cou'], is_cut=True)]
        it.server.item_errors = {"d2": [429, 429]}

        assert built(it)["chunks"] == 3
        sent = [len(asked.body.splitlines()) // 2 for asked in it.asked("POST", "_bulk")]

    assert sent == [3, 3, 3, 1, 1]
    assert len(it.waits) == 5


def test_a_server_that_stays_busy_is_given_up() -> None:
    with lab() as it:
        it.server.item_errors = {"d2": [429] * 9}
        assert "the server is too busy to take chunk 'd2' and 0 others (429)" in failure(it)
        it.server.refusals["POST _bulk"] = [error(429, "rejected", "x")] * 3
        assert "429 to POST /plumbline-lab-" in failure(it)


def test_a_refused_chunk_is_named_and_its_text_is_not_shown() -> None:
    with lab() as it:
        it.server.item_errors = {"d2": [400]}
        said = failure(it)

    assert said == "chunk 'd2' was refused: 400 document_parsing_exception"


def test_a_refused_query_is_not_shown() -> None:
    with lab() as it:
        built(it)
        for query in ("who is Jane Doe of Elm Street", "Jane"):
            refusal = error(400, "query_shard_exception", f"failed to create query: {query}")
            it.server.refusals["POST _search"] = [refusal]
            with pytest.raises(InvalidInput, match="query_shard_exception") as caught:
                it.retriever.search(query, 3)
            assert "Jane" not in str(caught.value)


def test_a_model_that_is_not_deployed_is_told_by_the_first_chunk() -> None:
    with lab(query="sparse_vector", model="absent") as it:
        assert "chunk 'd1' was refused: 404 resource_not_found_exception: Inference endpoint not found" in failure(it)


def test_the_cause_below_is_told() -> None:
    cause = {"type": "illegal_argument_exception", "reason": "failed to find analyzer"}
    wrapped = {"error": {"type": "wrapper", "reason": "all failed", "caused_by": cause}}
    with lab() as it:
        it.server.refusals["PUT"] = [json_answer(wrapped, 400)]
        assert failure(it).endswith("illegal_argument_exception: failed to find analyzer")


def test_chunks_that_got_lost_are_missed() -> None:
    with lab() as it:
        it.server.refusals["GET _count"] = [json_answer({"count": 2})]
        assert failure(it) == "the server holds 2 chunks of the 3 that it took"


@pytest.mark.parametrize("kind", ["index", "pipeline"])
def test_what_is_anothers_is_never_touched(kind: str) -> None:
    server = ScriptedElasticsearch()
    given = {"query": "sparse_vector", "model": "sparse-model", "keep": True}
    with lab(server, **given) as it:
        built(it)
        if kind == "index":
            server.indexes[it.name].body["mappings"]["_meta"] = {"owner": "somebody"}
        else:
            server.pipelines[it.name]["description"] = "somebody's"
        before = (dict(server.indexes), dict(server.pipelines[it.name]))
        asked = len(it.service.asked)

        assert f"the {kind} {it.name} exists and is not the lab's; set another index_prefix" in failure(it)
        assert before[0] == server.indexes
        assert not [each for each in it.service.asked[asked:] if each.method == "DELETE"]


def test_a_build_that_failed_leaves_nothing() -> None:
    server = ScriptedElasticsearch()
    with lab(server, query="sparse_vector", model="absent") as it:
        failure(it)
        assert server.indexes
    assert (server.indexes, server.pipelines) == ({}, {})


def test_an_index_that_cannot_be_deleted_harms_no_result() -> None:
    with lab() as it:
        built(it)
        it.server.refusals["DELETE"] = [error(403, "security_exception", "x")]
    assert len(it.server.indexes) == 1


@pytest.mark.parametrize("k", [0, 10_001])
def test_k_beyond_the_window_is_refused(k: int) -> None:
    with lab() as it:
        built(it)
        with pytest.raises(InvalidInput, match="k: expected 1 to 10000, the window"):
            it.retriever.search("wing", k)


def test_ids_that_the_server_cannot_hold_are_refused() -> None:
    with lab() as it:
        assert "ids of 1 to 512 bytes" in failure(it, chunks=[chunk("热" * 171, "text")])
        assert failure(it, chunks=[]) == "there is no chunk to index"


def test_an_authoritys_file_that_is_none_is_told(tmp_path: Any) -> None:
    for path in (tmp_path / "absent.pem", tmp_path):
        with pytest.raises(InvalidInput, match="ca_certs: "):
            settings_of(url="https://localhost:9200", ca_certs=path).make()
