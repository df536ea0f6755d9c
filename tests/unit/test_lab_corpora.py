"""Corpora of each form, and what each says of a file that is wrong. All texts are invented."""

import gzip
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from plumbline.extras.lab.corpora import AnyCorpus
from plumbline.extras.lab.corpora.rows import run_id
from plumbline.extras.lab.corpus import Corpus, Document, Query
from plumbline.ground.errors import InvalidInput
from tests.making.record_files import json_lines, write_file

_ADAPTER: TypeAdapter[AnyCorpus] = TypeAdapter(AnyCorpus)

MILLS = "q1 0 mill 1\nq2 0 dam 2\n"
QUERIES = [{"id": "q1", "text": "How old is the mill?"}, {"id": "q2", "text": "水坝多大？"}]
DOCUMENTS = [{"id": "mill", "text": "Built in 1890."}, {"id": "dam", "text": "水坝很大。"}]


def read(folder: Path, /, **settings: object) -> Corpus:
    """The corpus that an experiment file in the folder names."""
    return _ADAPTER.validate_python(settings).read("mills", folder)


def refusal(folder: Path, /, **settings: object) -> str:
    """What is said of a corpus that cannot be read."""
    with pytest.raises(InvalidInput) as raised:
        read(folder, **settings)
    return str(raised.value)


def rows(folder: Path, *, documents: str = "", queries: str = "", qrels: str = MILLS) -> dict[str, object]:
    """The settings of a corpus of rows, its files written."""
    write_file(folder, "docs.jsonl", documents or json_lines(DOCUMENTS))
    write_file(folder, "queries.jsonl", queries or json_lines(QUERIES))
    write_file(folder, "qrels.txt", qrels)
    return {"kind": "rows", "documents": "docs.jsonl", "queries": "queries.jsonl", "qrels": "qrels.txt"}


def beir(folder: Path, suffix: str = "") -> Path:
    """BEIR's layout, its files compressed where the suffix says so."""
    (folder / "set" / "qrels").mkdir(parents=True)
    documents: list[dict[str, object]] = [
        {"_id": "mill", "title": "Mill", "text": "Built in 1890.", "metadata": {"url": "https://mill.example"}},
        {"_id": "dam", "text": "", "metadata": {}},
    ]
    queries: list[dict[str, object]] = [
        {"_id": "q1", "text": "How old?", "metadata": {}},
        {"_id": "train-1", "text": "How large?"},
    ]
    write_file(folder / "set", f"corpus.jsonl{suffix}", json_lines(documents))
    write_file(folder / "set", f"queries.jsonl{suffix}", json_lines(queries))
    write_file(folder / "set" / "qrels", f"test.tsv{suffix}", "query-id\tcorpus-id\tscore\nq1\tmill\t1\n")
    return folder


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_beir_gives_title_text_and_the_queries_of_the_split(tmp_path: Path, suffix: str) -> None:
    corpus = read(beir(tmp_path, suffix), kind="beir", folder="set", metadata_fields=["url"])

    assert corpus.documents == (
        Document("mill", {"title": "Mill", "url": "https://mill.example", "text": "Built in 1890."}),
        Document("dam", {"title": "", "url": "", "text": ""}),
    )
    assert list(corpus.documents[0].fields) == ["title", "url", "text"]
    assert corpus.queries == (Query("q1", "How old?"),)
    assert corpus.qrels == {"q1": {"mill": 1}}


def test_beir_keeps_the_other_queries_where_it_is_told_to(tmp_path: Path) -> None:
    corpus = read(beir(tmp_path), kind="beir", folder="set", unjudged="keep")

    assert [query.id for query in corpus.queries] == ["q1", "train-1"]
    assert corpus.unjudged == 1


def test_beir_names_the_file_that_is_missing(tmp_path: Path) -> None:
    assert "qrels/dev.tsv: the folder 'set' has no such file" in refusal(
        beir(tmp_path), kind="beir", folder="set", split="dev"
    )


def test_judged_queries_that_are_not_asked_are_told_or_left_out(tmp_path: Path) -> None:
    given = rows(tmp_path, qrels="q1 0 mill 1\nq3 0 mill 1\n")

    assert "1 of 2 judged queries are not among the queries, first 'q3'" in refusal(tmp_path, **given)
    assert read(tmp_path, **given, unasked="leave_out").qrels == {"q1": {"mill": 1}}
    assert "no judged query is among the queries: judged is '1', asked is 'q1'" in refusal(
        tmp_path, **rows(tmp_path, qrels="1 0 mill 1\n")
    )


def test_rows_are_read_with_named_columns(tmp_path: Path) -> None:
    write_file(tmp_path, "d.csv", "no,body,head\n1,Built in 1890.,Mill\n2,,Dam\n")
    write_file(tmp_path, "q.tsv", "qid\tquestion\nq1\tHow old?\n")
    write_file(tmp_path, "qrels.tsv", "query-id\tcorpus-id\tscore\nq1\t1\t2\nq1\t9\t1\n")

    corpus = read(
        tmp_path, kind="rows", documents="d.csv", id_column="no", text_column="body", field_columns=["head"],
        queries="q.tsv", query_id_column="qid", query_text_column="question", qrels="qrels.tsv",
    )  # fmt: skip

    assert corpus.documents == (
        Document("1", {"head": "Mill", "text": "Built in 1890."}),
        Document("2", {"head": "Dam", "text": ""}),
    )
    assert corpus.queries == (Query("q1", "How old?"),)
    assert corpus.judged_elsewhere == 1


def test_rows_of_parquet_are_read(tmp_path: Path) -> None:
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"id": [1, 2], "text": ["Old.", None]}), tmp_path / "d.parquet")
    settings = rows(tmp_path, qrels="q1 0 1 1\n")

    corpus = read(tmp_path, **{**settings, "documents": "d.parquet"})

    assert corpus.documents == (Document("1", {"text": "Old."}), Document("2", {"text": ""}))


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        (
            '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n',
            "docs.jsonl:2: document 'a' is there already, at docs.jsonl:1",
        ),
        (
            '{"id": "a b", "text": "x"}\n{"id": "a%20b", "text": "y"}\n',
            "docs.jsonl:2: document 'a%20b' is there already",
        ),
        ('{"id": "a", "text": "x"}\n{"id": ""}\n', "docs.jsonl:2: the id of a document is empty"),
        ('{"id": "a", "text": "x"}\n{"text": "y"}\n', "docs.jsonl:2: no value for 'id'; expected text"),
        ('\n{"id": "a", "text": ["x"]}\n', "docs.jsonl:2: 'text' is a list; expected text"),
        ('{"id": true, "text": "x"}\n', "docs.jsonl:1: 'id' is true or false; expected text that is not empty"),
        ('{"id": "a", "txt": "x"}\n', "docs.jsonl: no row has 'text'"),
        ('{"id": "a", "text"\n', "docs.jsonl:1: not JSON at column"),
        ("\n", "mills: there is no document"),
        ('{"id": "other", "text": "x"}\n', "mills: no judged document is in the corpus: judged is 'dam', "),
    ],
)
def test_a_row_that_is_wrong_is_named_with_its_line(tmp_path: Path, documents: str, said: str) -> None:
    assert refusal(tmp_path, **rows(tmp_path, documents=documents)).startswith(said)


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ('{"id": "q1", "text": "x"}\n{"id": "q1", "text": "y"}\n', "queries.jsonl:2: query 'q1' is there already"),
        ('{"id": "q1", "text": " "}\n', "queries.jsonl:1: query 'q1' has no text"),
        ("\n", "mills: there is no query"),
    ],
)
def test_a_query_that_is_wrong_is_named_with_its_line(tmp_path: Path, queries: str, said: str) -> None:
    assert refusal(tmp_path, **rows(tmp_path, queries=queries)).startswith(said)


def test_judgments_that_are_wrong_are_named_with_their_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, **rows(tmp_path, qrels="q1 0 mill 1\nq2 0 dam\n")).startswith("qrels.txt:2: ")


def test_a_table_without_the_column_says_which_it_has(tmp_path: Path) -> None:
    settings = rows(tmp_path)
    write_file(tmp_path, "d.csv", "id,body\na,b\n")

    said = refusal(tmp_path, **{**settings, "documents": "d.csv"})

    assert said == "d.csv: there is no column 'text'; there are 'id', 'body'"


@pytest.mark.parametrize(
    ("named", "said"),
    [("none.jsonl", "none.jsonl: no such file"), ("none-*.jsonl", "none-*.jsonl: no file fits the pattern")],
)
def test_files_that_are_missing_are_named(tmp_path: Path, named: str, said: str) -> None:
    assert refusal(tmp_path, **{**rows(tmp_path), "documents": named}).startswith(said)


def test_files_are_read_once_and_in_order(tmp_path: Path) -> None:
    settings = rows(tmp_path)
    write_file(tmp_path, "a2.jsonl", '{"id": "mill", "text": "x"}\n')
    write_file(tmp_path, "a1.jsonl", '{"id": "dam", "text": "x"}\n')

    corpus = read(tmp_path, **{**settings, "documents": ["a*.jsonl", "a1.jsonl"]})

    assert [document.id for document in corpus.documents] == ["dam", "mill"]


def test_ids_are_written_as_they_stand_in_a_run(tmp_path: Path) -> None:
    documents = json_lines([{"id": "old mill", "text": "x"}, {"id": "#dam", "text": "y"}])
    qrels = "query-id\tcorpus-id\tscore\nq 1\told mill\t1\n"

    corpus = read(tmp_path, **rows(tmp_path, documents=documents, queries='{"id": "q 1", "text": "x"}\n', qrels=qrels))

    assert [document.id for document in corpus.documents] == ["old%20mill", "%23dam"]
    assert corpus.qrels == {"q%201": {"old%20mill": 1}}
    assert run_id("a#1/b%20-风\u3000c") == "a#1/b%20-风\u3000c"


def folder_corpus(folder: Path, qrels: str = "q1\tmill.md\t1\n") -> dict[str, object]:
    """The settings of a folder of texts, its queries and judgments written."""
    (folder / "texts" / "guides").mkdir(parents=True)
    write_file(folder, "queries.jsonl", json_lines(QUERIES))
    write_file(folder, "qrels.tsv", f"query-id\tcorpus-id\tscore\n{qrels}")
    return {"kind": "folder", "folder": "texts", "queries": "queries.jsonl", "qrels": "qrels.tsv"}


def test_a_folder_gives_files_by_their_paths_with_titles(tmp_path: Path) -> None:
    settings = folder_corpus(tmp_path, "q1\tguides/how to.txt\t1\n")
    texts = tmp_path / "texts"
    write_file(
        texts,
        "mill.md",
        b'\xef\xbb\xbf---\ntitle: "Mill: its age"\ntags: [old, wood]\nn: {a: b}\n---\n# Mills\r\nOld.\n',
    )
    write_file(texts, "dam.markdown", "# The *dam* #\n\n水坝很大。\n")
    write_file(texts / "guides", "how to.txt", "Plain.")
    write_file(texts, "rules.md", "---\nJust a text\n---\nbetween rules.\n")
    write_file(texts, "empty.md", "")
    write_file(texts, "skipped.rst", "x")
    write_file(texts, ".hidden.md", "x")

    corpus = read(tmp_path, **settings, front_matter_fields=["title", "tags", "n"])

    assert {document.id: dict(document.fields) for document in corpus.documents} == {
        "dam.markdown": {"title": "The *dam*", "tags": "", "n": "", "text": "# The *dam* #\n\n水坝很大。\n"},
        "empty.md": {"title": "", "tags": "", "n": "", "text": ""},
        "guides/how%20to.txt": {"title": "", "text": "Plain."},
        "mill.md": {"title": "Mill: its age", "tags": "old, wood", "n": "", "text": "# Mills\r\nOld.\n"},
        "rules.md": {"title": "", "tags": "", "n": "", "text": "---\nJust a text\n---\nbetween rules.\n"},
    }
    assert corpus.qrels == {"q1": {"guides/how%20to.txt": 1}}
    assert [document.id for document in corpus.documents] == sorted(document.id for document in corpus.documents)


def test_front_matter_that_is_no_yaml_is_named_or_read_as_text(tmp_path: Path) -> None:
    settings = folder_corpus(tmp_path)
    write_file(tmp_path / "texts", "mill.md", "---\ntitle: ok\nbad: [1\n---\nOld.\n")

    assert "the front matter is no YAML" in refusal(tmp_path, **settings)
    assert refusal(tmp_path, **settings).startswith("mill.md:")
    (document,) = read(tmp_path, **settings, front_matter=False).documents
    assert document.fields["text"].startswith("---\ntitle: ok")


def test_front_matter_cannot_grow(tmp_path: Path) -> None:
    settings = folder_corpus(tmp_path)
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    write_file(tmp_path / "texts", "mill.md", f"---\n{bomb}title: *i\n---\nOld.\n")

    (document,) = read(tmp_path, **settings).documents

    assert document.fields["title"] == ""


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, **{**folder_corpus(tmp_path), "folder": "nowhere"}).startswith("nowhere: no such folder")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"ok\n\xe9t\xe9", "mill.md:2: is not UTF-8; send text as UTF-8"),
        (b"\xef\xbb\xbfok \xff", "mill.md:1: is not UTF-8"),
        (b"ok\0", "mill.md:1: holds a NUL byte"),
        ("风".encode("utf-16"), "mill.md: is UTF-16"),
        (gzip.compress(b"a" * 99, mtime=0)[:-9], "mill.md: the gzip data ends too early"),
    ],
)
def test_a_text_in_another_encoding_is_refused_with_its_place(tmp_path: Path, data: bytes, said: str) -> None:
    settings = folder_corpus(tmp_path)
    (tmp_path / "texts" / "mill.md").write_bytes(data)

    assert refusal(tmp_path, **settings).startswith(said)
