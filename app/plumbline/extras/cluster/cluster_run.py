"""Run of a task on any engine: its plan and progress on the driver, its blocks on the workers."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plumbline.assembly import make_plan
from plumbline.extras.cluster.block_plan import Block, Reading, block_records
from plumbline.extras.cluster.output_blocks import Manifest, OutputBlocks, parse_block, sum_summaries
from plumbline.extras.cluster.places import FileFacts, files_in, is_uri
from plumbline.extras.cluster.score_batch import BatchScorer
from plumbline.extras.cluster.shared_settings import judges_digest, received_settings, sent_settings, share_limits
from plumbline.extras.cluster.task import BlockFormat, ClusterOutcome, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable, ConfigurationError, InvalidInput, PlumblineError
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.version import VERSION
from plumbline.rows.run_identity import Choice, differences, run_identity
from plumbline.rows.scored_row import RowTally
from plumbline.schemas.batch import BatchSummary
from plumbline.schemas.evaluation import EvaluationOptions


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


class ClusterRun:
    """Run on the driver: it hands pending blocks to an engine and takes the outcomes of its workers.

    Raises:
        ConfigurationError, PromptError, CalibrationError: as `make_plan`.
        InvalidInput: there is no input, or the folder holds the results of another task.
    """

    def __init__(self, settings: Settings, task: ClusterTask) -> None:
        if not task.paths:
            raise InvalidInput("no input was named; expected one file or more")
        if task.block_rows < 1:
            raise InvalidInput(f"a block of {task.block_rows} rows; expected 1 or more")
        if task.workers is not None and task.workers < 1:
            raise InvalidInput(f"{task.workers} workers; expected 1 or more")
        if not task.cpus_per_worker > 0:
            raise InvalidInput(f"{task.cpus_per_worker} CPUs for a worker; expected more than 0")
        plan = make_plan(settings)
        self._settings = settings
        self._task = task
        self.reading = Reading(task.format, task.columns)
        self._started = time.monotonic()
        self._out_dir = task.out_dir.rstrip("/") if is_uri(task.out_dir) else str(Path(task.out_dir).absolute())
        self._output = OutputBlocks(self._out_dir, task.block_format)
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
        self.files = [facts for place in task.paths for facts in files_in(place) if facts.size]
        self._manifest = self._output.manifest()
        if self._manifest is not None:
            _check_same(self._manifest, self._identity, self.files, self._out_dir)
        self._summaries: dict[str, BatchSummary] = {}
        self._given_up: list[str] = []
        self._skipped = 0

    @property
    def is_planned(self) -> bool:
        """Return True if the blocks are known: from an earlier run, or by `begin`."""
        return self._manifest is not None

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


def _check_same(manifest: Manifest, identity: dict[str, Choice], files: Sequence[FileFacts], place: str) -> None:
    # Manifests of 0.1.0 have the version under another name
    before = {"plumbline": manifest.identity.get("version"), **manifest.identity}
    before.pop("version", None)
    changed = differences(before, identity)
    if tuple(files) != manifest.files:
        changed.append("the input files changed")
    if changed:
        detail = f"holds results of another run: {'; '.join(changed)}; name a new folder"
        raise InvalidInput(detail, place=place)


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
