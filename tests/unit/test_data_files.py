"""Files as people have them and as other tools write them: read as meant, or refused with a remedy."""

import argparse
import gzip
import json
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli import add_options
from plumbline.cli.score.source import open_source
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.encodings import detect_encoding
from plumbline.rows.records.record import Record
from tests.making.cases import load_cases

FILES: dict[str, dict[str, Any]] = {each["id"]: each for each in load_cases("data_files", "files", inner=list)}


@dataclass(frozen=True)
class Found:
    rows: list[list[object]]
    said: str


def read(path: Path, *options: str) -> Found:
    """The samples of a file as `plumbline score` reads it, and all that is said of the file and of its bad rows."""
    parser = argparse.ArgumentParser()
    add_options(parser, {"@columns": {}})
    given = parser.parse_args(options)
    given.data = str(path)
    rows, said = list[list[object]](), list[str]()
    with ExitStack() as stack:
        source = open_source(stack, given)
        with source.open() as reader:
            said.append(source.explanation)
            for each in reader:
                if isinstance(each, Record):
                    sample = each.sample
                    rows.append([sample.question, list(sample.contexts), sample.answer, sample.reference or ""])
                else:
                    said.append(str(each))
    return Found(rows, "\n".join(said))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_meant_or_refused_with_a_remedy(tmp_path: Path, name: str) -> None:
    case = FILES[name]
    path = tmp_path / case["name"]
    data = case["content"].encode(case.get("encoding", "utf-8"))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)

    if "rows" in case:
        found = read(path, *case.get("options", ()))
        assert found.rows == case["rows"]
        assert case.get("says", "") in found.said
    else:
        with pytest.raises(InvalidInput) as refused:
            read(path, *case.get("options", ()))
        assert case["says"] in str(refused.value)
        assert case["name"] in str(refused.value)


LANGUAGES: dict[str, tuple[str, tuple[str, ...]]] = load_cases("data_files", "languages")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_text_of_a_language_is_read_right_or_not_at_all(language: str) -> None:
    encoding, texts = LANGUAGES[language]
    lines = ["question,contexts,answer", ";".join(texts[:3]), ";".join(texts[3:])]

    for count in (1, 2, 3):
        data = "\n".join(lines[:count]).encode(encoding, "ignore")
        name = detected(data)
        assert name is None or data.decode(name) == data.decode(encoding)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "big5", "cp1252"]
)
def test_everyday_rows_are_read_right_in_each_encoding_or_refused(encoding: str) -> None:
    lines = (Path(__file__).parents[1] / "data" / "everyday_prose.jsonl").read_text(encoding="utf-8").splitlines()
    read = 0

    for start in range(0, len(lines), 5):
        text = json.dumps([json.loads(line) for line in lines[start : start + 5]], ensure_ascii=False)
        data = text.encode(encoding, "ignore")
        name = detected(data)
        assert name is None or data.decode(name).removeprefix("\ufeff") == data.decode(encoding)
        read += name is not None

    assert read or encoding == "big5"


def detected(data: bytes) -> str | None:
    with suppress(InvalidInput):
        return detect_encoding(data)
    return None
