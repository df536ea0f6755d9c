"""Corpora: the files that are read, and errors with file and line."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from plumbline.extras.lab.corpus import Corpus, CorpusFiles
from plumbline.ground.errors import InvalidInput
from tests.making.cases import load_cases

QUERIES = '{"id": "q 1", "text": "drag?"}\n{"id": 2, "text": "never judged"}\n'
FILES = {
    "docs.jsonl": '{"id": "d1", "text": "lift", "year": 1958}\n{"id": "#2", "text": null}\n',
    "queries.jsonl": QUERIES,
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq 1\td1\t1\nq 1\tgone\t1\n",
}
ROWS = {"documents": "docs.jsonl", "queries": "queries.jsonl", "qrels": "qrels.tsv"}


def read(folder: Path, settings: Mapping[str, object], files: Mapping[str, str] = FILES) -> Corpus:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return CorpusFiles.model_validate(settings).read(folder)


def test_rows_have_fields_and_ids_as_written(tmp_path: Path) -> None:
    corpus = read(tmp_path, {**ROWS, "fields": ["year", "text"]})

    assert corpus.documents == {"d1": {"year": "1958", "text": "lift"}, "#2": {}}
    assert corpus.queries == {"q 1": "drag?"}
    assert corpus.unjudged == 1


def test_files_of_a_folder_in_beirs_layout_are_found_unless_they_are_named(tmp_path: Path) -> None:
    files = {
        "corpus.jsonl.gz": '{"_id": "d1", "title": "Wings", "text": "lift"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "drag"}\n',
        "qrels/dev.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    }

    corpus = read(tmp_path, {"documents": "corpus.jsonl.gz", "qrels": "qrels/dev.tsv"}, files)

    assert corpus.documents == {"d1": {"title": "Wings", "text": "lift"}}


@pytest.mark.parametrize(("name", "text", "said"), load_cases("lab_corpora", "an_error_names_file_and_line"))
def test_an_error_names_file_and_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(tmp_path, ROWS, {**FILES, name: text})
