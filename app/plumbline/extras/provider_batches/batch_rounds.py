"""Rounds of batch files: rows to requests, and replies to results."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from plumbline.extras.provider_batches.batch_file_chat import Correspondence, OpenQuestion
from plumbline.extras.provider_batches.manifest import Manifest, ManifestFile, RequestFile, RequestFiles
from plumbline.extras.provider_batches.reply_index import AskedFile
from plumbline.extras.provider_batches.submission import BatchStates, reply_paths
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow

_ROWS_AT_ONCE: Final = 16


class AskedRow(NamedTuple):
    """A row as far as its replies go. `open`: questions without one."""

    scored: ScoredRow
    open: list[OpenQuestion]


def asked_rows(
    rows: Iterable[Record | RecordProblem],
    score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]],
    correspondence: Correspondence,
) -> AsyncGenerator[AskedRow, None]:
    """The rows in their order. `score` asks chat models behind the correspondence."""

    async def work(row: Record | RecordProblem) -> AskedRow:
        with correspondence.about(row.row) as letters:
            scored = await score(row)
        return AskedRow(scored, letters.unanswered())

    return map_concurrently(work, rows, limit=_ROWS_AT_ONCE, in_order=True)


@dataclass(slots=True)
class Estimate:
    """What rows will ask, in tokens: rather too many in, and out at most."""

    rows: int = 0
    invalid: int = 0
    decided: int = 0
    unaskable: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    max_output_tokens: int = 0

    def add(self, row: AskedRow) -> None:
        """Counts a row."""
        self.rows += 1
        self.requests += len(row.open)
        self.prompt_tokens += sum(question.prompt_tokens for question in row.open)
        self.max_output_tokens += sum(question.max_output_tokens for question in row.open)
        status = row.scored.status
        self.invalid += status in (RowStatus.INVALID, RowStatus.FAILED)
        if not row.open:
            self.unaskable += status is RowStatus.NOT_JUDGED
            self.decided += status in (RowStatus.JUDGED, RowStatus.ABSTAINED, RowStatus.EMPTY_ANSWER)


Score = Callable[[Record | RecordProblem], Awaitable[ScoredRow]]


async def prepare(
    at: ManifestFile,
    manifest: Manifest,
    rows: Iterable[Record | RecordProblem],
    score: Score,
    correspondence: Correspondence,
    *,
    is_dry: bool = False,
) -> tuple[Manifest, Estimate]:
    """The manifest with its files, and what they ask; equal arguments write equal bytes.

    Args:
        manifest: all but rows and files.
        is_dry: count alone and write nothing.

    Raises:
        InvalidInput: the rows cannot be read to their end, or a file cannot be written.
    """
    estimate = Estimate()
    with RequestFiles(at.folder, at.stem, manifest.limits) as files:
        async with aclosing(asked_rows(rows, score, correspondence)) as asked:
            async for row in asked:
                estimate.add(row)
                for question in () if is_dry else row.open:
                    files.add(question.line)
        manifest = replace(manifest, rows=estimate.rows, files=files.finish())
    if not is_dry:
        at.save(manifest)
    return manifest, estimate


def files_sent(manifest: Manifest, states: BatchStates) -> list[RequestFile]:
    """The files whose replies count: a later round that was never submitted is as if it had not been written."""
    return [file for file in manifest.files if file.round == 1 or states.of(file.name).is_upload_begun]


def asked_files(at: ManifestFile, files: Iterable[RequestFile], states: BatchStates) -> list[AskedFile]:
    """The files with their replies; those of later rounds first, as their replies are newer."""
    found = []
    for file in sorted(files, key=lambda file: -file.round):
        batch = states.of(file.name).batch
        replies = [path for path in reply_paths(at, file) if path.exists()]
        found.append(AskedFile(at.folder / file.name, replies, "" if batch is None else batch.status))
    return found


async def collect(
    rows: Iterable[Record | RecordProblem],
    score: Score,
    correspondence: Correspondence,
    output: Path,
    *,
    next_round: RequestFiles | None,
    tell: Callable[[ScoredRow], None],
) -> tuple[Estimate, tuple[RequestFile, ...]]:
    """Writes the lines of all rows, and into `next_round` the questions that are still open.

    Returns what the open questions ask, and the files of the next round.

    Raises:
        InvalidInput: the rows cannot be read to their end, or a file cannot be written.
    """
    estimate = Estimate()
    with _written(output) as file:
        async with aclosing(asked_rows(rows, score, correspondence)) as asked:
            async for row in asked:
                file.write(row.scored.line + b"\n")
                estimate.add(row)
                tell(row.scored)
                if next_round is not None:
                    for question in row.open:
                        next_round.add(question.line)
    return estimate, () if next_round is None else next_round.finish()


def with_next_round(manifest: Manifest, sent: list[RequestFile], files: tuple[RequestFile, ...]) -> Manifest:
    """The manifest with a new last round in place of one that was never submitted."""
    return replace(manifest, files=(*sent, *files))


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all of it is written."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error
