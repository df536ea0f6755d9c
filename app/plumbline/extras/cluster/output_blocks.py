"""Folder of results: one atomic file for each block, and a manifest of the blocks.

A block is done exactly if its file is there; no other record could contradict that.
"""

import importlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from plumbline.extras.cluster.block_plan import Block
from plumbline.extras.cluster.places import FileFacts, folder_at
from plumbline.extras.cluster.score_batch import flat_record
from plumbline.extras.cluster.task import BlockFormat
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import ReadPosition
from plumbline.rows.records.result_table import result_schema
from plumbline.rows.run_identity import Choice
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.batch import BatchSummary, TierCounts
from plumbline.schemas.evaluation import UsageItem

# Readers of a folder of Parquet skip names that begin with an underscore.
_OURS: Final = "_plumbline"
_MANIFEST: Final = "manifest.json"
_MAX_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Manifest:
    """Task of a folder. `identity`: by name, everything that decides the results; equal for the same task."""

    identity: dict[str, Choice]
    files: tuple[FileFacts, ...]
    blocks: tuple[Block, ...]


class OutputBlocks:
    """Results of one task in a folder, local or a URI."""

    def __init__(self, place: str, block_format: BlockFormat) -> None:
        self.place = place
        self._format = block_format
        self._folder = folder_at(place)
        self._ours = self._folder.folder(_OURS)
        self._summaries = self._ours.folder("blocks")
        self._begun = self._ours.folder("begun")

    def file_of(self, block: Block) -> str:
        return f"{block.stem}.{self._format}"

    def manifest(self) -> Manifest | None:
        """Return the manifest of the folder; None if the folder is new.

        Raises:
            InvalidInput: the folder holds something else.
        """
        data = self._ours.read(_MANIFEST)
        if data is None:
            if self._folder.names() - {_OURS}:
                raise InvalidInput("holds files and no manifest of a run; name a new or empty folder", place=self.place)
            return None
        try:
            words = json.loads(data)
            return Manifest(
                words["identity"],
                tuple(FileFacts(*facts) for facts in words["files"]),
                tuple(parse_block(each) for each in words["blocks"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput("its manifest cannot be read; name a new folder", place=self.place) from error

    def begin(self, manifest: Manifest) -> None:
        """Write the manifest, before any block."""
        words = {
            "identity": manifest.identity,
            "files": [list(facts) for facts in manifest.files],
            "blocks": [block_words(block) for block in manifest.blocks],
        }
        self._ours.write(_MANIFEST, json.dumps(words, ensure_ascii=False).encode())

    def done(self) -> set[str]:
        return self._folder.names() - {_OURS}

    def summary_of(self, block: Block) -> BatchSummary | None:
        """Return the counts of a block; None if it has no file yet."""
        return self.counted(block) if self._folder.has(self.file_of(block)) else None

    def counted(self, block: Block) -> BatchSummary:
        """Return the counts of a block that has its file. Raises InvalidInput: they were removed."""
        data = self._summaries.read(f"{block.stem}.json")
        if data is None:
            raise InvalidInput(f"the counts of {self.file_of(block)} are gone; name a new folder", place=self.place)
        return BatchSummary.model_validate_json(data)

    def write(self, block: Block, rows: Sequence[ScoredRow], summary: BatchSummary) -> None:
        """Write the counts of a block, then its results."""
        self._summaries.write(f"{block.stem}.json", summary.model_dump_json().encode())
        is_lines = self._format == "jsonl"
        data = b"".join(row.line + b"\n" for row in rows) if is_lines else _parquet(rows)
        self._folder.write(self.file_of(block), data)
        self._begun.remove(f"{block.stem}.json")

    def may_begin(self, block: Block, run: str) -> bool:
        """Count one more try of this block in this run; return False if three tries crashed their process."""
        name = f"{block.stem}.json"
        before = json.loads(self._begun.read(name) or b"{}")
        tries = before.get("tries", 0) if before.get("run") == run else 0
        if tries < _MAX_TRIES:
            self._begun.write(name, json.dumps({"run": run, "tries": tries + 1}).encode())
        return bool(tries < _MAX_TRIES)


def sum_summaries(summaries: Iterable[BatchSummary], *, seconds: float) -> BatchSummary:
    """Return the total of the counts of many blocks."""
    parts = list(summaries)
    names = ("rows", "judged", "abstained", "empty_answer", "not_judged", "errors", "passed", "degraded")
    costs = [part.usage.cost for part in parts]
    usage = {
        name: sum(getattr(part.usage, name) for part in parts) for name in UsageItem.model_fields if name != "cost"
    }
    known = [cost for cost in costs if cost is not None]
    counts = {name: sum(getattr(part, name) for part in parts) for name in names}
    return BatchSummary(
        **counts,
        tiers=TierCounts(
            **{name: sum(getattr(part.tiers, name) for part in parts) for name in TierCounts.model_fields}
        ),
        usage=UsageItem(**usage, cost=sum(known) if len(known) == len(costs) else None),
        seconds=round(seconds, 3),
    )


def _parquet(rows: Iterable[ScoredRow]) -> bytes:
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    schema = result_schema(arrow).append(arrow.field("line", arrow.string()))
    buffer = io.BytesIO()
    parquet.write_table(
        arrow.Table.from_pylist([flat_record(row) for row in rows], schema=schema), buffer, compression="zstd"
    )
    return buffer.getvalue()


def block_words(block: Block) -> list[object]:
    return [block.file, list(block.start), block.rows, list(block.repeats)]


def parse_block(words: list[object]) -> Block:
    file, start, rows, repeats = words
    return Block(file, ReadPosition(*start), rows, tuple(repeats))  # type: ignore[arg-type, misc]
