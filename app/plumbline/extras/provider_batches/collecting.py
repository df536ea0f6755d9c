"""Replies to results: each row as the live judge would have scored it, in the order of the rows."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from plumbline.extras.provider_batches.batch_states import BatchStates
from plumbline.extras.provider_batches.correspondence import Correspondence
from plumbline.extras.provider_batches.manifest import Manifest, ManifestFile
from plumbline.extras.provider_batches.preparing import Score
from plumbline.extras.provider_batches.reply_index import AskedFile
from plumbline.extras.provider_batches.request_files import RequestFile, RequestFiles
from plumbline.extras.provider_batches.rows_asked import Estimate, asked_rows
from plumbline.extras.provider_batches.sending import reply_paths
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow


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
