"""The retrieval endpoints: numbers worked by hand, conventions repeated, bad input named by its place."""

import math
from typing import Any

import httpx2
import pytest

from plumbline.service.api.openapi import (
    COMPARISON_EXAMPLES,
    FUSION_EXAMPLES,
    RETRIEVAL_EXAMPLES,
)
from tests.making.cases import load_cases
from tests.running.edge_app import read_problem
from tests.running.service import plain_settings, running

URL = "/v1/retrieval/evaluations"
QRELS = {"q1": {"d1": 2, "d2": 1, "d3": 0}, "q2": {"d4": 1}}
KEYWORD = {"name": "keyword", "results": {"q1": ["d1", "d3", "d2"], "q2": ["d9", "d4"]}}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def client(shared_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return shared_client


async def evaluated(client: httpx2.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await client.post(URL, json={"qrels": QRELS, "runs": [KEYWORD], **fields})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()
    return result


async def test_means_are_those_of_a_hand_calculation(client: httpx2.AsyncClient) -> None:
    result = await evaluated(client, measures=["ndcg@10", "recall@1", "mrr"])

    # q1: DCG 2/1 + 1/log2(4) = 2.5 of 2/1 + 1/log2(3); q2: the one relevant document at rank 2.
    q1, q2 = 2.5 / (2 + 1 / math.log2(3)), 1 / math.log2(3)
    means = {measure: each["mean"] for measure, each in result["runs"][0]["measures"].items()}
    assert means == pytest.approx({"ndcg@10": (q1 + q2) / 2, "recall@1": 0.25, "mrr": 0.75})


async def test_a_bad_value_is_named_with_its_place(client: httpx2.AsyncClient) -> None:
    qrels = {f"q{query}": {f"d{place}": 1 for place in range(20)} for query in range(20)}
    qrels["q13"]["d7"] = "two"  # type: ignore[assignment]

    response = await client.post(URL, json={"qrels": qrels, "runs": [KEYWORD]})

    assert "/qrels/q13/d7: found the grade \"'two'\", wanted a whole number" in read_problem(response, 422).detail


@pytest.mark.parametrize("path", ["evaluations", "comparisons"])
@pytest.mark.parametrize("query", ["q1", "not judged"])
async def test_a_bad_score_is_named_with_its_place_in_judged_queries_and_others(
    client: httpx2.AsyncClient, path: str, query: str
) -> None:
    scored = {"name": "scored", "results": {**{f"q{each}": {"d1": 1.0} for each in range(9)}, query: {"d7": "0.5"}}}

    response = await client.post(f"/v1/retrieval/{path}", json={"qrels": QRELS, "runs": [KEYWORD, scored]})

    assert f"/runs/1/{query}/d7: found the score '0.5', wanted a finite number" in read_problem(response, 422).detail


async def test_seed_0_the_rankings_that_were_read_stand_beside_the_measures(client: httpx2.AsyncClient) -> None:
    told = '{"doc_1": 1, "doc_5": 2}'
    llm = {
        "name": "llm",
        "llm_outputs": {"q1": "1. d1\n2. d2", "q2": told},
        "candidates": {"q1": ["d1", "d2"], "q2": ["doc_1", "doc_5"]},
    }

    result = await evaluated(client, runs=[llm], measures=["success@1", "recall@100", "mrr"], per_query=True)

    run = result["runs"][0]
    assert run["rankings"]["q1"]["ids"] == ["d1", "d2"]
    assert run["rankings"]["q2"]["readings"] == [["doc_5", "doc_1"], ["doc_1", "doc_5"]]
    assert run["unparsed"] == ["q2"]
    assert run["warnings"][0].startswith("1 of 2 replies hold no ranking (1 of them two): 'q2'")
    assert run["measures"]["mrr"]["mean"] == 0.5


async def test_a_budget_of_tokens_takes_the_lengths_of_the_documents(client: httpx2.AsyncClient) -> None:
    lengths = {"d1": 100, "d3": 100, "d2": 100, "d9": 300, "d4": 100}

    result = await evaluated(client, measures=["recall_budget(tokens=250)"], lengths=lengths)

    # q1: d1 and d3, so 1 of 2; q2: d9 takes more than there is
    assert result["runs"][0]["measures"]["recall_budget(tokens=250)"]["mean"] == 0.25


async def test_per_query_values_stand_beside_their_ids(client: httpx2.AsyncClient) -> None:
    result = await evaluated(client, measures=["mrr"], per_query=True)

    per_query = result["runs"][0]["per_query"]
    assert dict(zip(per_query["query_ids"], per_query["values"]["mrr"], strict=True)) == {"q1": 1.0, "q2": 0.5}


async def test_every_resolved_convention_is_repeated(client: httpx2.AsyncClient) -> None:
    result = await evaluated(client, measures=["mrr"], conventions={"preset": "beir", "rel_level": 2})

    assert result["conventions"]["rel_level"] == 2
    assert result["conventions"]["ignore_identical_ids"] is True
    assert result["conventions"]["duplicates"]


async def test_seed_4_what_was_not_measured_is_null(client: httpx2.AsyncClient) -> None:
    run = {**KEYWORD, "system": {"build_seconds": 1.5}}

    result = await evaluated(client, runs=[run], measures=["mrr"])

    assert result["runs"][0]["latency_ms"] is None
    assert result["runs"][0]["system"] == {"build_seconds": 1.5, "index_chunks": None, "index_bytes": None}


async def test_seed_4_latencies_show_their_tail(client: httpx2.AsyncClient) -> None:
    run = {**KEYWORD, "latency_ms": {"q1": 10.0, "q2": 30.0}}

    result = await evaluated(client, runs=[run], measures=["mrr"])

    assert result["runs"][0]["latency_ms"] == pytest.approx({"mean": 20, "p50": 20, "p95": 29, "p99": 29.8, "n": 2})


async def test_an_llm_text_that_ranks_nothing_is_said_so(client: httpx2.AsyncClient) -> None:
    run = {
        "name": "reranker",
        "llm_outputs": {"q1": "1. d2\n2. d1", "q2": "I cannot rank these."},
        "candidates": {"q1": ["d1", "d2", "d3"], "q2": ["d4", "d9"]},
    }

    result = await evaluated(client, runs=[run], measures=["mrr"], per_query=True)

    assert result["runs"][0]["unparsed"] == ["q2"]
    assert result["runs"][0]["counts"]["missing"] == 1


@pytest.mark.parametrize(("fields", "said"), load_cases("retrieval", "bad_input", inner=list))
async def test_bad_input_is_refused_with_its_place(
    client: httpx2.AsyncClient, fields: dict[str, Any], said: str
) -> None:
    response = await client.post(URL, json={"qrels": QRELS, "runs": [KEYWORD], **fields})

    assert said in read_problem(response, 422).detail


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"qrels": NaN}', b"\xff"])
async def test_a_body_that_is_no_json_is_refused(client: httpx2.AsyncClient, body: bytes) -> None:
    response = await client.post(URL, content=body, headers={"content-type": "application/json"})

    assert response.status_code in (400, 422)
    read_problem(response, response.status_code)


async def test_another_content_type_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, content=b"{}", headers={"content-type": "text/plain"})

    read_problem(response, 415)


async def test_a_body_over_the_limit_of_retrieval_is_refused() -> None:
    async with running(plain_settings(max_retrieval_body_bytes=2_000, max_body_bytes=1_024)) as client:
        fits = await client.post(URL, json={"qrels": QRELS, "runs": [KEYWORD], "measures": ["mrr"] * 100})
        refused = await client.post(URL, content=b"[" + b" " * 2_000, headers={"content-type": "application/json"})

    assert fits.status_code == 200
    assert "2000 bytes" in read_problem(refused, 413).detail


@pytest.mark.parametrize("name", RETRIEVAL_EXAMPLES)
async def test_every_example_works_when_posted(client: httpx2.AsyncClient, name: str) -> None:
    response = await client.post(URL, json=RETRIEVAL_EXAMPLES[name]["value"])

    assert response.status_code == 200


async def test_runs_are_compared_and_identical_ones_have_p_1(client: httpx2.AsyncClient) -> None:
    twin = {**KEYWORD, "name": "twin"}

    response = await client.post(
        "/v1/retrieval/comparisons",
        json={"qrels": QRELS, "runs": [KEYWORD, twin], "measures": ["mrr"], "format": "markdown"},
    )

    (comparison,) = response.json()["comparisons"]
    assert (comparison["diff"], comparison["p"], comparison["significant"]) == (0.0, 1.0, False)
    assert (comparison["win"], comparison["tie"], comparison["loss"]) == (0, 2, 0)
    assert "| keyword |" in response.json()["table"]


async def test_one_run_has_nothing_to_be_compared_with(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/retrieval/comparisons", json={"qrels": QRELS, "runs": [KEYWORD]})

    assert "at least two runs" in read_problem(response, 422).detail


async def test_reciprocal_rank_fusion_is_that_of_a_hand_calculation(client: httpx2.AsyncClient) -> None:
    other = {"name": "dense", "results": {"q1": ["d2", "d1"]}}

    response = await client.post(
        "/v1/retrieval/fusions", json={"runs": [KEYWORD, other], "method": "rrf", "qrels": QRELS, "measures": ["mrr"]}
    )

    # d1: 1/61 + 1/62; d2: 1/63 + 1/61; d3: 1/62.
    assert response.json()["results"]["q1"] == pytest.approx(
        {"d1": 1 / 61 + 1 / 62, "d2": 1 / 63 + 1 / 61, "d3": 1 / 62}
    )
    assert response.json()["report"]["measures"]["mrr"]["mean"] == 0.75


@pytest.mark.parametrize(("fields", "said"), load_cases("retrieval", "without_judgments", inner=list))
async def test_what_only_judgments_would_use_is_checked_without_them(
    client: httpx2.AsyncClient, fields: dict[str, Any], said: str
) -> None:
    response = await client.post("/v1/retrieval/fusions", json={"runs": [KEYWORD], **fields})

    assert said in read_problem(response, 422).detail


async def test_raw_scores_of_other_scales_are_summed_with_a_warning(client: httpx2.AsyncClient) -> None:
    runs = [
        {"name": "bm25", "results": {"q1": {"a": 21.0, "b": 18.0}}},
        {"name": "cosine", "results": {"q1": {"b": 0.9, "a": 0.1}}},
    ]

    response = await client.post("/v1/retrieval/fusions", json={"runs": runs, "method": "wsum", "norm": "none"})

    assert response.json()["warnings"]


@pytest.mark.parametrize(("path", "name"), [("comparisons", "markdown"), ("fusions", "rrf"), ("fusions", "weighted")])
async def test_every_other_example_works_when_posted(client: httpx2.AsyncClient, path: str, name: str) -> None:
    examples = {**COMPARISON_EXAMPLES, **FUSION_EXAMPLES}

    response = await client.post(f"/v1/retrieval/{path}", json=examples[name]["value"])

    assert response.status_code == 200


FILES = {
    "qrels": ("qrels.txt", b"q1 0 d1 2\nq1 0 d2 1\nq2 0 d4 1\n"),
    "run": ("bm25.txt", b"q1 Q0 d1 1 9.0 t\nq1 Q0 d3 2 8.0 t\nq2 Q0 d9 1 5.0 t\nq2 Q0 d4 2 4.0 t\n"),
}


async def test_trec_files_are_measured_as_a_form(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, files=FILES, data={"options": '{"measures": ["mrr"], "per_query": true}'})

    assert response.status_code == 200
    (run,) = response.json()["runs"]
    assert (run["name"], run["measures"]["mrr"]["mean"]) == ("bm25.txt", 0.75)


async def test_a_form_from_another_origin_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, files=FILES, headers={"origin": "https://elsewhere.example"})

    read_problem(response, 415)
