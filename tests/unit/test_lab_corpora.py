"""Corpora: the files that are read, and errors with file and line."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from plumbline.extras.lab.corpus import AnyCorpus, Corpus
from plumbline.ground.errors import InvalidInput
from tests.making.cases import load_cases

QUERIES = '{"id": "q 1", "text": "drag?"}\n{"id": 2, "text": "never judged"}\n'
FILES = {
    "docs.jsonl": '{"id": "d1", "text": "lift", "year": 1958}\n{"id": "#2", "text": null}\n',
    "queries.jsonl": QUERIES,
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq 1\td1\t1\nq 1\tgone\t1\n",
}
ROWS = {"kind": "rows", "documents": "docs.jsonl", "queries": "queries.jsonl", "qrels": "qrels.tsv"}


def read(folder: Path, settings: Mapping[str, object], files: Mapping[str, str] = FILES) -> Corpus:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    corpus: AnyCorpus = TypeAdapter(AnyCorpus).validate_python(settings)
    return corpus.read(folder)


def test_rows_have_fields_and_ids_that_a_run_file_holds(tmp_path: Path) -> None:
    corpus = read(tmp_path, {**ROWS, "field_columns": ["year"]})

    assert [(each.id, dict(each.fields)) for each in corpus.documents] == [
        ("d1", {"year": "1958", "text": "lift"}),
        ("%232", {"year": "", "text": ""}),
    ]
    assert [(each.id, each.text) for each in corpus.queries] == [("q%201", "drag?")]
    assert (corpus.unjudged, corpus.judged_elsewhere) == (1, 1)


def test_a_beir_folder_is_read_plain_or_zipped(tmp_path: Path) -> None:
    files = {
        "corpus.jsonl.gz": '{"_id": "d1", "title": "Wings", "text": "lift"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "drag"}\n',
        "qrels/dev.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    }

    corpus = read(tmp_path, {"kind": "beir", "folder": ".", "split": "dev"}, files)

    assert [dict(each.fields) for each in corpus.documents] == [{"title": "Wings", "text": "lift"}]


def test_a_folder_of_texts_has_paths_as_ids_and_headings_as_titles(tmp_path: Path) -> None:
    files = {
        "t/guides/setup.md": "# 安装 \n步骤",
        "t/b.TXT": "plain",
        "t/.hidden/x.md": "no",
        "t/c.png": "no",
        "queries.jsonl": '{"id": "q1", "text": "how"}\n',
        "qrels.txt": "q1 0 guides/setup.md 1\n",
    }

    corpus = read(tmp_path, {"kind": "folder", "folder": "t", "queries": "queries.jsonl", "qrels": "qrels.txt"}, files)

    found = {each.id: each.fields["title"] for each in corpus.documents}
    assert found == {"b.TXT": "", "guides/setup.md": "安装"}


@pytest.mark.parametrize(("name", "text", "said"), load_cases("lab_corpora", "an_error_names_file_and_line"))
def test_an_error_names_file_and_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(tmp_path, ROWS, {**FILES, name: text})
