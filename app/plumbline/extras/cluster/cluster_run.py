"""Run of a task on any engine: its plan and progress on the driver, its blocks on the workers, its folder of results.

A block is done exactly if its file is in the folder; no other record could contradict that.
"""

import importlib
import io
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from plumbline.assembly import make_plan
from plumbline.extras.cluster.block_plan import Block, Reading, block_records
from plumbline.extras.cluster.places import FileFacts, files_in, folder_at, is_uri
from plumbline.extras.cluster.score_batch import BatchScorer, flat_record
from plumbline.extras.cluster.shared_settings import judges_digest, received_settings, sent_settings, share_limits
from plumbline.extras.cluster.task import BlockFormat, ClusterOutcome, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable, ConfigurationError, InvalidInput, PlumblineError
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.version import VERSION
from plumbline.rows.records.record import ReadPosition
from plumbline.rows.records.result_table import result_schema
from plumbline.rows.run_identity import Choice, differences, run_identity
from plumbline.rows.scored_row import RowTally, ScoredRow
from plumbline.schemas.batch import BatchSummary, TierCounts
from plumbline.schemas.evaluation import EvaluationOptions, UsageItem

# Readers of a folder of Parquet skip names that begin with an underscore.
_OURS: Final = "_plumbline"
_MANIFEST: Final = "manifest.json"
_MAX_TRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """Values for every block of a run; plain data without secrets, since engines store and log it.

    Args:
        settings: as of `sent_settings`. judges: their digest.
        options: as JSON.
        run: name of this run; the tries of a block are counted by run.
        workers: number of processes that share the limits.
    """

    settings: Mapping[str, object]
    judges: str
    options: str
    reading: Reading
    places: tuple[str, ...]
    out_dir: str
    block_format: BlockFormat
    run: str
    workers: int
    cpu_threads: int
    version: str = VERSION


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
            # Manifests of 0.1.0 have the version under another name
            identity = {"plumbline": words["identity"].pop("version", None), **words["identity"]}
            return Manifest(
                identity,
                tuple(FileFacts(*facts) for facts in words["files"]),
                tuple(parse_block(each) for each in words["blocks"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
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


class ClusterRun:
    """Run on the driver: it hands pending blocks to an engine and takes the outcomes of its workers.

    Raises:
        ConfigurationError, PromptError, CalibrationError: as `make_plan`.
        InvalidInput: there is no input, or the folder holds the results of another task.
    """

    def __init__(self, settings: Settings, task: ClusterTask) -> None:
        self._settings = settings
        self._task = task
        self.reading = Reading(task.format, task.columns)
        self._started = time.monotonic()
        self._out_dir = task.out_dir.rstrip("/") if is_uri(task.out_dir) else str(Path(task.out_dir).absolute())
        self._output = OutputBlocks(self._out_dir, task.block_format)
        self.files = [facts for place in task.paths for facts in files_in(place) if facts.size]
        self._manifest = self._output.manifest()
        plan = make_plan(settings)
        self._identity = {
            **run_identity(
                plan.settings,
                task.options,
                calibrations=plan.calibrations,
                prompts=plan.prompts,
                judges=[judges_digest(plan.settings)] if plan.judge_names else [],
            ),
            "columns": task.columns if task.columns is None or isinstance(task.columns, str) else repr(task.columns),
            "format": task.format,
            "block_format": task.block_format,
            "block_rows": task.block_rows,
        }
        if self._manifest is not None:
            changed = differences(self._manifest.identity, self._identity)
            changed += [] if self._manifest.files == tuple(self.files) else ["the input files changed"]
            if changed:
                detail = f"holds results of another run: {'; '.join(changed)}; name a new folder"
                raise InvalidInput(detail, place=self._out_dir)
        self._summaries: dict[str, BatchSummary] = {}
        self._given_up: list[str] = []
        self._skipped = 0

    @property
    def is_planned(self) -> bool:
        """Return True if the blocks are known: from an earlier run, or by `begin`."""
        return self._manifest is not None

    @property
    def is_done(self) -> bool:
        """Return True if every block has its file, from earlier runs."""
        return self.is_planned and not self.pending()

    def begin(self, blocks_by_file: Sequence[Sequence[Block]]) -> None:
        """Store the blocks of every file, in the order of `files`."""
        blocks = tuple(block for blocks in blocks_by_file for block in blocks)
        self._manifest = Manifest(self._identity, tuple(self.files), blocks)
        self._output.begin(self._manifest)

    def pending(self) -> list[Block]:
        """Return the blocks that have no file yet; count the others."""
        done = self._output.done()
        found = [(block, self._output.file_of(block)) for block in self._blocks]
        self._summaries = {name: self._output.counted(block) for block, name in found if name in done}
        self._skipped = len(self._summaries)
        return [block for block, name in found if name not in done]

    def order(self, *, workers: int) -> WorkOrder:
        return WorkOrder(
            settings=sent_settings(self._settings),
            judges=judges_digest(self._settings),
            options=self._task.options.model_dump_json(),
            reading=self.reading,
            places=tuple(facts.place for facts in self.files),
            out_dir=self._out_dir,
            block_format=self._task.block_format,
            run=uuid.uuid4().hex,
            workers=workers,
            cpu_threads=max(1, int(self._task.cpus_per_worker)),
        )

    def take(self, outcome: str) -> None:
        """Take the outcome of a block from a worker, as JSON.

        Raises:
            ConfigurationError: the worker refused for a reason that the user can fix.
        """
        parsed = json.loads(outcome)
        if "refused" in parsed:
            raise ConfigurationError(parsed["refused"])
        if parsed.get("given_up"):
            self._given_up.append(parsed["block"])
        else:
            self._summaries[parsed["block"]] = BatchSummary.model_validate(parsed["summary"])

    def progress(self) -> Progress:
        return Progress(
            blocks_done=len(self._summaries),
            blocks=len(self._blocks),
            rows_done=sum(summary.rows for summary in self._summaries.values()),
            rows=sum(block.rows for block in self._blocks),
        )

    def outcome(self) -> ClusterOutcome:
        """Return the outcome of the run.

        Raises:
            ClusterUnavailable: blocks are missing without a reason from a worker.
        """
        names = [self._output.file_of(block) for block in self._blocks]
        missing = [name for name in names if name not in self._summaries]
        if lost := len(missing) - len(self._given_up):
            raise ClusterUnavailable(f"{lost} of {len(names)} blocks got lost on the cluster; run again to resume")
        return ClusterOutcome(
            summary=sum_summaries(self._summaries.values(), seconds=time.monotonic() - self._started),
            files=tuple(f"{self._out_dir}/{name}" for name in names if name in self._summaries),
            skipped=self._skipped,
            unfinished=tuple(missing),
        )

    @property
    def _blocks(self) -> tuple[Block, ...]:
        return self._manifest.blocks if self._manifest is not None else ()


class BlockWork:
    """Worker process of a cluster: score blocks with one warm scorer; return errors that the user can fix."""

    def __init__(self, order: WorkOrder) -> None:
        self._order = order

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """Score a batch of blocks as engines hand it out: JSON texts in, their outcomes as JSON texts out."""
        return {"outcome": [json.dumps(self.done(parse_block(json.loads(str(text))))) for text in batch["block"]]}

    def done(self, block: Block) -> dict[str, object]:
        """Return `{"block": file, ...}` with `summary`, or `given_up`, or `refused`, one line."""
        outcome = {"block": self._output.file_of(block)}
        try:
            if (summary := self._output.summary_of(block)) is not None:
                return {**outcome, "summary": summary.model_dump(mode="json")}
            if not self._output.may_begin(block, self._order.run):
                return {**outcome, "given_up": True}
            tally = RowTally()
            rows = self._scorer.score(block_records(self._order.places[block.file], block, self._order.reading))
            for row in rows:
                tally.add(row)
            summary = tally.summary()
            self._output.write(block, rows, summary)
            return {**outcome, "summary": summary.model_dump(mode="json")}
        except PlumblineError as error:
            return {**outcome, "refused": str(error)}
        except OSError as error:
            return {**outcome, "refused": f"{self._order.out_dir}: cannot be written ({error.strerror or error})"}

    def close(self) -> None:
        self._scorer.close()

    @cached_property
    def _output(self) -> OutputBlocks:
        return OutputBlocks(self._order.out_dir, self._order.block_format)

    @cached_property
    def _scorer(self) -> BatchScorer:
        order = self._order
        if order.version != VERSION:
            raise ConfigurationError(f"a worker has plumbline {VERSION}; expected {order.version}, as the driver has")
        received = received_settings(order.settings)
        configure_logging(received.log_level)
        if judges_digest(received) != order.judges:
            raise ConfigurationError(
                "a worker's judges are not those of this machine; set the same PLUMBLINE_LLM_* variables and keys in "
                "the environment of the cluster's nodes"
            )
        settings = share_limits(received, order.workers).model_copy(update={"cpu_threads": order.cpu_threads})
        return BatchScorer(settings, EvaluationOptions.model_validate_json(order.options))


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
