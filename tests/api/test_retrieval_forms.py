"""Judgments and runs in every form, as pandas, trec_eval, rerankers and RAG tools write them, through three doors.

The command, HTTP and Python read each pair of files alike: to the same numbers, or to the same refusal.
"""

import io
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.parquet
import pytest

import plumbline
from plumbline.cli.main import main
from plumbline.ground.errors import InvalidInput
from tests.running.edge_app import read_problem

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore::UserWarning")]

MEASURES = ["mrr", "recall@2", "num_rel"]
# q1: the first hit at rank 2, one of two in the first two; q2: at rank 1, one of one.
NUMBERS = {"mrr": 0.75, "recall@2": 0.75, "num_rel": 3.0}
JUDGED = [("q1", "d1"), ("q1", "d2"), ("q2", "d4")]
FOUND = [("q1", "d3", 0.9), ("q1", "d1", 0.5), ("q1", "d2", 0.25), ("q2", "d4", 8.0), ("q2", "d9", 4.0)]
GOLD = {"q1": ["d1", "d2"], "q2": ["d4"]}
LISTS = {"q1": ["d3", "d1", "d2"], "q2": ["d4", "d9"]}
SCORES = {query: {doc: score for own, doc, score in FOUND if own == query} for query in GOLD}

TREC_QRELS = "".join(f"{query} 0 {doc} 1\n" for query, doc in JUDGED)
TREC_RUN = "".join(f"{query} Q0 {doc} 1 {score} t\n" for query, doc, score in FOUND)


def lines(rows: Iterable[Sequence[object]], sign: str) -> str:
    return "".join(sign.join(map(str, row)) + "\n" for row in rows)


def json_lines(rows: Iterable[object]) -> str:
    return "\n".join(map(json.dumps, rows))


def parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), buffer)
    return buffer.getvalue()


def hits(query: str) -> dict[str, Any]:
    found = [
        {"_index": "i", "_id": doc, "_score": score, "_source": {"t": "x"}} for doc, score in SCORES[query].items()
    ]
    return {"took": 3, "timed_out": False, "hits": {"total": {"value": 2, "relation": "eq"}, "hits": found}}


def rank_llm(query: str) -> dict[str, Any]:
    found = [{"docid": doc, "score": score, "doc": {"contents": "x"}} for doc, score in SCORES[query].items()]
    return {"query": {"text": f"text of {query}", "qid": query}, "candidates": found}


def rank_gpt(query: str) -> dict[str, Any]:
    found = [{"qid": query, "docid": doc, "rank": at, "content": "x"} for at, doc in enumerate(LISTS[query], start=1)]
    return {"query": f"text of {query}", "hits": found}


def by_column(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, dict[str, object]]:
    return {name: {str(at): row[place] for at, row in enumerate(rows)} for place, name in enumerate(names)}


CSV_RUN = lines([("query_id", "doc_id", "score"), *FOUND], ",")
CSV_QRELS = lines([("query_id", "doc_id", "relevance"), *((*row, 1) for row in JUDGED)], ",")
LONG = [{"query_id": query, "doc_id": doc, "score": score} for query, doc, score in FOUND]
RECORDS = [{"query_id": query, "doc_id": doc, "relevance": 1} for query, doc in JUDGED]
CANDIDATES = ["d1", "d2", "d3", "d4", "d9"]
REPLIES = {"q1": "[d3] > [d1] > [d2]", "q2": "1. d4\n2. d9"}
WIDE = [{"query": f"text {query}", "expected_ids": GOLD[query], "retrieved_ids": LISTS[query]} for query in GOLD]

# Pairs of files that give the numbers above.
READ: dict[str, Sequence[Any]] = {
    "trec": (TREC_QRELS, TREC_RUN),
    "trec with tabs and CRLF": (TREC_QRELS.replace(" ", "\t").replace("\n", "\r\n"), TREC_RUN.replace(" ", "\t")),
    "an equal judgment twice": (TREC_QRELS + "q1 0 d1 1\n", TREC_RUN),
    "MS MARCO's three columns": (TREC_QRELS, lines([(q, d, at) for q in LISTS for at, d in enumerate(LISTS[q])], "\t")),
    "BEIR's table": (lines([("query-id", "corpus-id", "score"), *((*row, 1) for row in JUDGED)], "\t"), TREC_RUN),
    "CSV": (CSV_QRELS, CSV_RUN),
    "CSV with the index of pandas": (
        lines([("", "qid", "docno", "label"), *((at, *row, 1) for at, row in enumerate(JUDGED))], ","),
        lines([("", "qid", "docno", "score"), *((at, *row) for at, row in enumerate(FOUND))], ","),
    ),
    "CSV with semicolons and quotes": (CSV_QRELS.replace(",", ";"), CSV_RUN.replace(",", ";").replace("d3", '"d3"')),
    "CSV of Excel": ("\ufeff" + CSV_QRELS, "\ufeff" + CSV_RUN.replace("\n", "\r\n")),
    "CSV by rank": (
        CSV_QRELS,
        lines([("qid", "docid", "rank"), *((q, d, at) for q in LISTS for at, d in enumerate(LISTS[q], start=1))], ","),
    ),
    "CSV of judgments without grades": (lines([("query_id", "doc_id"), *JUDGED], ","), CSV_RUN),
    "TSV": (CSV_QRELS.replace(",", "\t"), CSV_RUN.replace(",", "\t")),
    "Parquet": (
        parquet({"query_id": [q for q, _ in JUDGED], "doc_id": [d for _, d in JUDGED], "relevance": [1, 1, 1]}),
        parquet({"qid": [q for q, *_ in FOUND], "docno": [d for _, d, _ in FOUND], "score": [s for *_, s in FOUND]}),
    ),
    "Parquet of lists, as AutoRAG": (
        parquet({"qid": list(GOLD), "query": ["a", "b"], "retrieval_gt": list(GOLD.values())}),
        parquet({"qid": list(GOLD), "retrieved_ids": list(LISTS.values()), "retrieve_scores": [[3, 2, 1], [2, 1]]}),
    ),
    "JSON grades and scores": (json.dumps({q: dict.fromkeys(d, 1) for q, d in GOLD.items()}), json.dumps(SCORES)),
    "JSON lists": (json.dumps(GOLD), json.dumps(LISTS)),
    "JSON indented": (json.dumps(GOLD, indent=2), json.dumps(SCORES, indent=2)),
    "JSON records": (json.dumps(RECORDS), json.dumps(LONG)),
    "JSON lines": (json_lines(RECORDS), json_lines(LONG)),
    "JSON records under a key": (json.dumps({"data": RECORDS}), json.dumps({"rows": LONG})),
    "JSON columns": (
        json.dumps(by_column(("query_id", "doc_id"), JUDGED)),
        json.dumps(by_column(("query_id", "doc_id", "score"), FOUND)),
    ),
    "JSON split by pandas": (
        json.dumps({"columns": ["query_id", "doc_id"], "index": [0, 1, 2], "data": JUDGED}),
        json.dumps({"columns": ["query_id", "doc_id", "score"], "index": [0, 1, 2, 3, 4], "data": FOUND}),
    ),
    "JSON by index of pandas": (
        json.dumps({str(at): row for at, row in enumerate(RECORDS)}),
        json.dumps({str(at): row for at, row in enumerate(LONG)}),
    ),
    "JSON pairs": (json.dumps(GOLD), json.dumps({q: list(own.items()) for q, own in SCORES.items()})),
    "JSON hits by query": (
        json.dumps({q: [{"doc_id": d, "relevance": 1} for d in own] for q, own in GOLD.items()}),
        json.dumps({q: [{"id": d, "score": s} for d, s in own.items()] for q, own in SCORES.items()}),
    ),
    "rows of expected and retrieved ids": (json.dumps(WIDE), json.dumps(WIDE)),
    "rows of ids without a query": tuple(
        json_lines({name: row[name]} for row in WIDE) for name in ("expected_ids", "retrieved_ids")
    ),
    "rows of ids in CSV": tuple(
        lines([("query", name), *((row["query"], json.dumps(row[name]).replace('"', "'")) for row in WIDE)], "\t")
        for name in ("expected_ids", "retrieved_ids")
    ),
    "LiveRAG's tables": (
        lines([("qid", "document_ids"), *GOLD.items()], "\t"),
        lines([("qid", "answer", "doc_ids"), *((q, "x", d) for q, d in LISTS.items())], "\t"),
    ),
    "ragas' ids": tuple(
        json_lines({"user_input": f"text {q}", name: own} for q, own in given.items())
        for name, given in (("reference_context_ids", GOLD), ("retrieved_context_ids", LISTS))
    ),
    "contexts of deepeval": tuple(
        json.dumps([{"input": f"text {q}", name: own} for q, own in given.items()])
        for name, given in (("context", GOLD), ("retrieval_context", LISTS))
    ),
    "answers of Elasticsearch by query": (TREC_QRELS, json.dumps({query: hits(query) for query in GOLD})),
    "answers of Elasticsearch in lines": (TREC_QRELS, json_lines({"query_id": q, **hits(q)} for q in GOLD)),
    "RankLLM": (TREC_QRELS, json_lines(map(rank_llm, GOLD))),
    "RankGPT": (TREC_QRELS, json.dumps(list(map(rank_gpt, GOLD)))),
    "replies by query": (json.dumps(GOLD), json.dumps(REPLIES)),
    "replies in lines": (
        CSV_QRELS,
        json_lines({"query_id": q, "output": reply, "candidates": CANDIDATES} for q, reply in REPLIES.items()),
    ),
    "ids that are numbers": (
        json.dumps([{"query_id": 1, "doc_id": 7.0}, {"query_id": 1, "doc_id": 8}, {"query_id": 2, "doc_id": 9}]),
        lines([("query_id", "doc_id", "score"), (1, 3, 3), (1, 7, 2), (1, 8, 1), (2, 9, 1)], ","),
    ),
}

# Pairs of files that are refused, and what is said.
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a list among ids": (json.dumps({"q1": ["d1", ["d2", "d3"]]}), TREC_RUN, "qrels.in: q1: found \"['d2', 'd3']\""),
    "AutoRAG's alternatives": (
        parquet({"qid": ["q1"], "retrieval_gt": [[["d1"], ["d2"]]]}), TREC_RUN, "qrels.in: row 1: found \"['d1']\"",
    ),
    "null among judged ids": (json.dumps({"q1": ["d1", None]}), TREC_RUN, "qrels.in: q1: found 'None'"),
    "null among found ids": (TREC_QRELS, json.dumps({"q1": ["d3", None]}), "run.in: q1: rank 2: found 'None'"),
    "a grade that is missing": (CSV_QRELS.replace("d2,1", "d2,"), CSV_RUN, "qrels.in:3: found the grade"),
    "a grade between": (json.dumps({"q1": {"d1": 0.5}}), TREC_RUN, "q1/d1: found the grade '0.5'"),
    "a score that is text": (CSV_QRELS, CSV_RUN.replace("0.5", "high"), "run.in:3: score 'high' is not a finite"),
    "a score that is null": (TREC_QRELS, json.dumps([{**LONG[0], "score": None}]), "row 1: score 'None' is not"),
    "two grades": (CSV_QRELS + "q1,d1,0\n", CSV_RUN, "qrels.in:5: document 'd1' has two grades, 1 and 0"),
    "a document twice": (CSV_QRELS, CSV_RUN + "q1,d1,9\n", "run.in:7: document 'd1' is listed twice"),
    "files swapped": (TREC_RUN, TREC_QRELS, "that is a run: are the files swapped?"),
    "documents and grades swapped": (
        "q1 d1 1 0\nq1 d2 1 0\nq2 d4 1 0\n".replace("1 0", "1 1"), TREC_RUN, "documents and grades swapped?",
    ),
    "queries and documents swapped": (
        TREC_QRELS, lines([("doc_id", "query_id", "score"), *FOUND], ","), "queries and documents swapped?",
    ),
    "documents and ranks swapped": (
        TREC_QRELS, "q1 Q0 1 d3 9 t\nq1 Q0 2 d1 8 t\nq2 Q0 1 d4 9 t\n", "documents and ranks swapped?",
    ),
    "nothing in common": (TREC_QRELS, TREC_RUN.replace("q", "x"), "no query of the run is judged"),
    "answers without queries": (TREC_QRELS, json.dumps({"took": 1, "responses": [hits("q1")]}), "names no query"),
    "one answer without its query": (TREC_QRELS, json.dumps(hits("q1")), "names no query"),
    "no column of documents": (lines([("query_id", "gold"), *JUDGED], ","), TREC_RUN, "wanted a column of documents"),
    "no column of queries": (TREC_QRELS, lines([("docid", "score"), ("d1", 2)], ","), "wanted a column of queries"),
    "a query twice": (TREC_QRELS, json.dumps([WIDE[0], WIDE[0]]), "row 2: query 'text q1' has a second row"),
    "nested too deep": ("[" * 50_000, TREC_RUN, "qrels.in: is not JSON"),
    "nothing": ("", TREC_RUN, "qrels.in: holds no judgment"),
    "a header alone": (TREC_QRELS, "query_id,doc_id,score\n", "run.in: holds no row"),
}  # fmt: skip


def write(folder: Path, qrels: Any, run: Any) -> tuple[Path, Path]:
    paths = folder / "qrels.in", folder / "run.in"
    for path, content in zip(paths, (qrels, run), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def in_python(qrels: Any, run: Any, **options: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = plumbline.retrieval.evaluate(qrels, run, MEASURES, **options)
    assert isinstance(found, dict)
    return found


def by_command(paths: tuple[Path, Path], capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    code = main(["retrieval", "evaluate", *map(str, paths), "--json", *options, *(f"-m{each}" for each in MEASURES)])
    said = capsys.readouterr()
    if code:
        return code, said.err.removeprefix("plumbline: ").rstrip("\n")
    return {name: each["mean"] for name, each in json.loads(said.out)["runs"][0]["measures"].items()}


async def over_http(client: httpx2.AsyncClient, paths: tuple[Path, Path], **options: Any) -> httpx2.Response:
    files = [(part, (path.name, path.read_bytes())) for part, path in zip(("qrels", "run"), paths, strict=True)]
    return await client.post(
        "/v1/retrieval/evaluations", files=files, data={"options": json.dumps({"measures": MEASURES, **options})}
    )


def means(response: httpx2.Response) -> dict[str, float]:
    assert response.status_code == 200, response.text
    return {name: each["mean"] for name, each in response.json()["runs"][0]["measures"].items()}


@pytest.mark.parametrize("form", READ)
async def test_each_form_gives_the_same_numbers_by_three_doors(
    form: str, tmp_path: Path, shared_client: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write(tmp_path, *READ[form])

    assert in_python(*paths) == NUMBERS
    assert by_command(paths, capsys) == NUMBERS
    assert means(await over_http(shared_client, paths)) == NUMBERS


@pytest.mark.parametrize("form", REFUSED)
async def test_each_fault_is_refused_alike_by_three_doors(
    form: str, tmp_path: Path, shared_client: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, run, said = REFUSED[form]
    paths = write(tmp_path, qrels, run)

    with pytest.raises(InvalidInput) as caught:
        in_python(*paths)
    by_http = read_problem(await over_http(shared_client, paths), 422).detail

    assert said in str(caught.value)
    assert by_command(paths, capsys) == (2, str(caught.value))
    assert by_http == str(caught.value)


@pytest.mark.parametrize("form", [form for form, (_, run) in READ.items() if isinstance(run, str) and run[0] in "[{"])
async def test_what_json_files_hold_is_read_as_values_too(form: str, shared_client: httpx2.AsyncClient) -> None:
    load: Callable[[str], Any] = lambda text: json.loads(text) if text[0] in "[{" else None  # noqa: E731
    try:
        qrels, run = load(READ[form][0]) or GOLD, load(READ[form][1])
    except json.JSONDecodeError:
        pytest.skip("JSON by lines is a file's")
    body = {"qrels": qrels, "runs": [{"name": "r", "results": run}], "measures": MEASURES}

    assert in_python(qrels, run) == NUMBERS
    assert means(await shared_client.post("/v1/retrieval/evaluations", json=body)) == NUMBERS


async def test_alternatives_count_as_one_document_where_that_is_told(
    tmp_path: Path, shared_client: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    # d3 or d1 is enough, found at rank 1; d2 is the second of two documents, then at rank 2.
    paths = write(tmp_path, json.dumps({"q1": [["d1", "d3"], "d2"], "q2": ["d4"]}), TREC_RUN)
    expected = {"mrr": 1.0, "recall@2": 1.0, "num_rel": 3.0}

    assert in_python(*paths, alternatives=True) == expected
    assert by_command(paths, capsys, "--alternatives") == expected
    assert means(await over_http(shared_client, paths, alternatives=True)) == expected


async def test_the_best_documents_alone_count_where_a_maximum_is_set(
    tmp_path: Path, shared_client: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write(tmp_path, TREC_QRELS, TREC_RUN)
    # of q1 only d3 is left
    expected = {"mrr": 0.5, "recall@2": 0.5, "num_rel": 3.0}

    assert in_python(*paths, max_documents=1) == expected
    assert by_command(paths, capsys, "-M", "1") == expected
    assert means(await over_http(shared_client, paths, conventions={"max_documents": 1})) == expected


async def test_equal_judgments_are_counted_and_what_is_disjoint_is_allowed_on_request(
    tmp_path: Path, shared_client: httpx2.AsyncClient
) -> None:
    twice = write(tmp_path, TREC_QRELS * 2, TREC_RUN)
    merged = (await over_http(shared_client, twice)).json()["runs"][0]["warnings"]
    apart = write(tmp_path, TREC_QRELS, TREC_RUN.replace("d", "x"))

    assert merged[0] == "3 judgments were given twice with the same grade; each counts once"
    assert in_python(*apart, allow_disjoint=True)["mrr"] == 0.0
    assert means(await over_http(shared_client, apart, allow_disjoint=True))["mrr"] == 0.0
