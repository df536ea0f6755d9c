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
    """A row scored with the replies so far. `open`: requests without a reply."""

    scored: ScoredRow
    open: list[OpenQuestion]


def score_rows(
    rows: Iterable[Record | RecordProblem],
    score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]],
    correspondence: Correspondence,
) -> AsyncGenerator[AskedRow, None]:
    """Score rows and yield them in order. `score` uses chat models behind the correspondence."""

    async def work(row: Record | RecordProblem) -> AskedRow:
        with correspondence.about(row.row) as requests:
            scored = await score(row)
        return AskedRow(scored, requests.unanswered())

    return map_concurrently(work, rows, limit=_ROWS_AT_ONCE, in_order=True)


@dataclass(slots=True)
class Estimate:
    """Requests and tokens of rows: estimated from above, and output tokens as they usually are."""

    rows: int = 0
    invalid: int = 0
    decided: int = 0
    unaskable: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    max_output_tokens: int = 0
    expected_output_tokens: int = 0

    def add(self, row: AskedRow) -> None:
        """Count a row."""
        self.rows += 1
        self.requests += len(row.open)
        for open_question in row.open:
            question = open_question.question
            self.prompt_tokens += question.prompt_tokens
            self.max_output_tokens += question.max_output_tokens
            self.expected_output_tokens += question.expected_output_tokens
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
    """Write the request files and return the manifest and the estimate; equal arguments write equal bytes.

    Args:
        manifest: all but rows and files.
        is_dry: count alone and write nothing.

    Raises:
        InvalidInput: the rows cannot be read to their end, or a file cannot be written.
    """
    estimate = Estimate()
    with RequestFiles(at.folder, at.stem, manifest.limits) as files:
        async with aclosing(score_rows(rows, score, correspondence)) as asked:
            async for row in asked:
                estimate.add(row)
                for question in () if is_dry else row.open:
                    files.add(question.line)
        manifest = replace(manifest, rows=estimate.rows, files=files.finish())
    if not is_dry:
        at.save(manifest)
    return manifest, estimate


def files_sent(manifest: Manifest, states: BatchStates) -> list[RequestFile]:
    """Return the files whose replies count: all but later rounds that were never submitted."""
    return [file for file in manifest.files if file.round == 1 or states.of(file.name).is_upload_begun]


def asked_files(at: ManifestFile, files: Iterable[RequestFile], states: BatchStates) -> list[AskedFile]:
    """Return the files with their replies, later rounds first, as their replies are newer."""
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
    """Write the results of all rows, and the open requests into `next_round`.

    Returns what the open questions ask, and the files of the next round.

    Raises:
        InvalidInput: the rows cannot be read to their end, or a file cannot be written.
    """
    estimate = Estimate()
    with _written(output) as file:
        async with aclosing(score_rows(rows, score, correspondence)) as asked:
            async for row in asked:
                file.write(row.scored.line + b"\n")
                estimate.add(row)
                tell(row.scored)
                if next_round is not None:
                    for question in row.open:
                        next_round.add(question.line)
    return estimate, () if next_round is None else next_round.finish()


def with_next_round(manifest: Manifest, sent: list[RequestFile], files: tuple[RequestFile, ...]) -> Manifest:
    """Return the manifest with a new last round in place of one that was never submitted."""
    return replace(manifest, files=(*sent, *files))


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name when it is complete."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error
