"""One run of a task, whatever the engine: what it is, what is done already, what came of the rest."""

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from plumbline import __version__
from plumbline.assembly import make_plan
from plumbline.extras.cluster.block_plan import Block, Reading
from plumbline.extras.cluster.block_work import WorkOrder
from plumbline.extras.cluster.output_blocks import Manifest, OutputBlocks, summed
from plumbline.extras.cluster.places import FileFacts, files_in, is_uri
from plumbline.extras.cluster.shared_settings import deciding_settings, judges_digest, sent_settings
from plumbline.extras.cluster.task import ClusterOutcome, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable, ConfigurationError, InvalidInput
from plumbline.ground.settings import Settings
from plumbline.schemas.batch import BatchSummary


class ClusterRun:
    """Opened on the driver; an engine gets blocks to do from it and hands back what its workers say of them.

    Raises:
        ConfigurationError, PromptError, CalibrationError: as `make_plan`.
        InvalidInput: there is no input, or the folder holds the results of another task.
    """

    def __init__(self, settings: Settings, task: ClusterTask) -> None:
        _check(task)
        make_plan(settings)
        self._settings = settings
        self._task = task
        self._started = time.monotonic()
        self._out_dir = _absolute(task.out_dir)
        self._output = OutputBlocks(self._out_dir, task.block_format)
        self._identity = _identity(settings, task)
        self.files = [facts for place in task.paths for facts in files_in(place) if facts.size]
        self._manifest = self._output.manifest()
        if self._manifest is not None:
            _check_same(self._manifest, self._identity, self.files, self._out_dir)
        self._summaries: dict[str, BatchSummary] = {}
        self._given_up: list[str] = []
        self._skipped = 0

    @property
    def is_planned(self) -> bool:
        """Whether the blocks are known: from an earlier run, or by `begin`."""
        return self._manifest is not None

    @property
    def reading(self) -> Reading:
        """How the files are read."""
        return Reading(self._task.format, self._task.columns)

    def begin(self, blocks_by_file: Sequence[Sequence[Block]]) -> None:
        """Write down the blocks of every file, in the order of `files`."""
        blocks = tuple(block for blocks in blocks_by_file for block in blocks)
        self._manifest = Manifest(self._identity, tuple(self.files), blocks)
        self._output.begin(self._manifest)

    def pending(self) -> list[Block]:
        """The blocks that have no file yet; the others are counted."""
        done = self._output.done()
        found = [(block, self._output.file_of(block)) for block in self._blocks]
        self._summaries = {name: self._output.counted(block) for block, name in found if name in done}
        self._skipped = len(self._summaries)
        return [block for block, name in found if name not in done]

    def order(self, *, workers: int) -> WorkOrder:
        """What so many workers need to know."""
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
        """What a worker says of a block, as JSON.

        Raises:
            ConfigurationError: it refused, for a reason that the user can do something about.
        """
        told = json.loads(outcome)
        if "refused" in told:
            raise ConfigurationError(told["refused"])
        if told.get("given_up"):
            self._given_up.append(told["block"])
        else:
            self._summaries[told["block"]] = BatchSummary.model_validate(told["summary"])

    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            blocks_done=len(self._summaries),
            blocks=len(self._blocks),
            rows_done=sum(summary.rows for summary in self._summaries.values()),
            rows=sum(block.rows for block in self._blocks),
        )

    def outcome(self) -> ClusterOutcome:
        """What became of it.

        Raises:
            ClusterUnavailable: blocks are missing and no worker said why.
        """
        names = [self._output.file_of(block) for block in self._blocks]
        missing = [name for name in names if name not in self._summaries]
        if lost := len(missing) - len(self._given_up):
            raise ClusterUnavailable(f"{lost} of {len(names)} blocks got lost on the cluster; run again to go on")
        return ClusterOutcome(
            summary=summed(self._summaries.values(), seconds=time.monotonic() - self._started),
            files=tuple(f"{self._out_dir}/{name}" for name in names if name in self._summaries),
            skipped=self._skipped,
            unfinished=tuple(missing),
        )

    @property
    def _blocks(self) -> tuple[Block, ...]:
        return self._manifest.blocks if self._manifest is not None else ()


def _check(task: ClusterTask) -> None:
    if not task.paths:
        raise InvalidInput("no input was named; expected one file or more")
    if task.block_rows < 1:
        raise InvalidInput(f"a block of {task.block_rows} rows; expected 1 or more")
    if task.workers is not None and task.workers < 1:
        raise InvalidInput(f"{task.workers} workers; expected 1 or more")
    if not task.cpus_per_worker > 0:
        raise InvalidInput(f"{task.cpus_per_worker} CPUs for a worker; expected more than 0")


def _identity(settings: Settings, task: ClusterTask) -> dict[str, object]:
    columns = task.columns if task.columns is None or isinstance(task.columns, str) else repr(task.columns)
    words = {
        "version": __version__,
        "options": task.options.model_dump(mode="json"),
        "settings": deciding_settings(settings),
        "columns": columns,
        "format": task.format,
        "block_format": task.block_format,
        "block_rows": task.block_rows,
    }
    # As it is read back
    identity: dict[str, object] = json.loads(json.dumps(words))
    return identity


def _check_same(manifest: Manifest, identity: dict[str, object], files: Sequence[FileFacts], place: str) -> None:
    changed = [name for name, value in identity.items() if manifest.identity.get(name) != value]
    if tuple(files) != manifest.files:
        changed.append("input files")
    if changed:
        detail = f"holds results of another run: not the same {', '.join(changed)}; name a new folder"
        raise InvalidInput(detail, place=place)


def _absolute(place: str) -> str:
    if is_uri(place):
        return place.rstrip("/")
    return str(Path(place).absolute())
