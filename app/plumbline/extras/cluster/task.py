"""Task of a data cluster and its outcome: plain values that an engine may send anywhere."""

from dataclasses import dataclass, field
from typing import Literal

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.schemas.batch import BatchSummary
from plumbline.schemas.evaluation import EvaluationOptions

BlockFormat = Literal["jsonl", "parquet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTask:
    """Files in, one file of results for each block of rows out.

    Args:
        paths: files or folders, each a local path or a URI that pyarrow knows (`s3://`, `gs://`, `hdfs://`); the last
            part may hold `*` and `?`. Files are taken in this order, those of one folder or pattern by name.
        out_dir: a folder, local or a URI: empty, new, or with a part of this task.
        format: of the input, as of `RecordReader`; None: by the suffix.
        columns: a map, the name of a preset, or None to find the columns in each file.
        block_rows: rows of one output file; a killed worker repeats them.
        address: of a Ray cluster (`auto`, `HOST:PORT`, `ray://HOST:PORT`); None: this machine.
        workers: worker processes; None: as many as the cluster has CPUs for.
        cpus_per_worker: CPUs of each worker.

    Raises:
        InvalidInput: there is no input, or a number is too small.
    """

    paths: tuple[str, ...]
    out_dir: str
    options: EvaluationOptions = field(default_factory=EvaluationOptions)
    format: str | None = None
    columns: ColumnMap | str | None = None
    block_format: BlockFormat = "jsonl"
    block_rows: int = 2_000
    address: str | None = None
    workers: int | None = None
    cpus_per_worker: float = 1

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidInput("no input was named; expected one file or more")
        if self.block_rows < 1:
            raise InvalidInput(f"a block of {self.block_rows} rows; expected 1 or more")
        if self.workers is not None and self.workers < 1:
            raise InvalidInput(f"{self.workers} workers; expected 1 or more")
        if not self.cpus_per_worker > 0:
            raise InvalidInput(f"{self.cpus_per_worker} CPUs for a worker; expected more than 0")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a task in blocks and rows, those of earlier runs included."""

    blocks_done: int
    blocks: int
    rows_done: int
    rows: int


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """Outcome of a task.

    Args:
        summary: of all rows in the output, those of earlier runs included; `seconds` are this run's.
        files: the output, in the order of the rows.
        skipped: blocks that an earlier run had done.
        unfinished: output files that are missing because their workers crashed each time; empty: all is done.
    """

    summary: BatchSummary
    files: tuple[str, ...]
    skipped: int
    unfinished: tuple[str, ...]
