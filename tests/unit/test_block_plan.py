"""Blocks of a file give together, each read by itself, exactly what a walk over the file gives."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plumbline.extras.cluster.block_plan import Block, Reading, block_records, split_file
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition
from tests.making.cluster_files import bridge_rows, write_lines

AS_FOUND = Reading()
REPEATED = [{**row, "custom_id": f"id-{number % 7}"} for number, row in enumerate(bridge_rows(23))]


def as_read(place: str, reading: Reading = AS_FOUND) -> list[Any]:
    path = Path(place.removeprefix("file://"))
    with RecordReader(path, format=reading.format, columns=reading.columns) as reader:
        return list(reader)


def in_blocks(place: str, block_rows: int, reading: Reading = AS_FOUND) -> list[Any]:
    blocks = split_file(place, 0, reading, block_rows)
    assert all(block.rows <= block_rows for block in blocks)
    return [row for block in blocks for row in block_records(place, block, reading)]


def json_lines(folder: Path) -> Path:
    rows: list[object] = [*REPEATED[:9], '{"broken', "", json.dumps({"custom_id": 5}), *REPEATED[9:]]
    return write_lines(folder / "in.jsonl", rows)


def table(folder: Path) -> Path:
    path = folder / "in.csv"
    cells = [f'{row["custom_id"]},"{row["contexts"][0]}","two\nlines, {row["answer"]}"' for row in REPEATED]
    path.write_text("\n".join(["custom_id,contexts,answer", *cells[:4], 'open,"quote', *cells[4:]]), encoding="utf-8")
    return path


def parquet(folder: Path) -> Path:
    path = folder / "in.parquet"
    pq.write_table(pa.Table.from_pylist(REPEATED), path, row_group_size=6)
    return path


def parquet_without_ids(folder: Path) -> Path:
    path = folder / "in.parquet"
    pq.write_table(pa.Table.from_pylist(bridge_rows(23, named=False)), path, row_group_size=6)
    return path


def array(folder: Path) -> Path:
    path = folder / "in.json"
    path.write_text(json.dumps(REPEATED, indent=1), encoding="utf-8")
    return path


@pytest.mark.parametrize("block_rows", [1, 4, 23, 100])
@pytest.mark.parametrize("write", [json_lines, table, parquet, parquet_without_ids, array])
def test_blocks_give_what_the_file_gives(tmp_path: Path, write: Any, block_rows: int) -> None:
    place = str(write(tmp_path))

    assert in_blocks(place, block_rows) == as_read(place)


def test_a_uri_gives_what_the_path_gives(tmp_path: Path) -> None:
    for path in (json_lines(tmp_path), parquet(tmp_path)):
        place = path.as_uri()

        assert in_blocks(place, 4) == as_read(place)


def test_a_map_of_columns_holds_for_every_block(tmp_path: Path) -> None:
    rows = [{"passage": "a", "said": "b", "key": {"name": str(number % 3)}} for number in range(8)]
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    reading = Reading(columns=ColumnMap(answer="said", contexts="passage", custom_id="key.name"))

    found = in_blocks(str(path), 3, reading)

    assert found == as_read(str(path), reading)
    assert [each.custom_id for each in found] == ["0", "1", "2", None, None, None, None, None]


def test_names_of_blocks_sort_as_their_rows_do(tmp_path: Path) -> None:
    place = str(json_lines(tmp_path))

    blocks = [block for file in (0, 9, 10) for block in split_file(place, file, Reading(), 2)]

    stems = [block.stem for block in blocks]
    assert stems == sorted(set(stems))
    assert Block(3, ReadPosition(row=40), 2).stem == "part-000003-000000000040"


def test_a_file_that_is_cut_off_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps(REPEATED)[:-40], encoding="utf-8")

    with pytest.raises(InvalidInput, match="was the copy cut off"):
        split_file(str(path), 0, Reading(), 4)
