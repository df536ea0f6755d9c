"""Small data files for the tests of the records room."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem

MILL: dict[str, object] = {
    "question": "How old is the mill?",
    "contexts": ["The mill was built in 1890."],
    "answer": "It dates from 1890.",
}


def write_file(folder: Path, name: str, data: bytes | str) -> Path:
    """A file with these bytes, compressed where its name says so."""
    path = folder / name
    content = data.encode("utf-8") if isinstance(data, str) else data
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def json_lines(rows: Sequence[Mapping[str, object]]) -> str:
    """One object a line."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def mills(count: int) -> list[dict[str, object]]:
    """Rows that differ in id and answer."""
    return [{**MILL, "custom_id": f"mill-{number}", "answer": f"It has {number} wheels."} for number in range(count)]


def read_all(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002
    columns: ColumnMap | str | None = None,
) -> tuple[list[Record], list[RecordProblem]]:
    """The records and the problems of a file, each in file order."""
    with RecordReader(path, format=format, columns=columns) as reader:
        found = list(reader)
    records = [each for each in found if isinstance(each, Record)]
    return records, [each for each in found if isinstance(each, RecordProblem)]
