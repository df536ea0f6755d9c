"""Rows to questions in files, with the manifest that leads back."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace

from plumbline.extras.provider_batches.correspondence import Correspondence
from plumbline.extras.provider_batches.manifest import Manifest, ManifestFile
from plumbline.extras.provider_batches.request_files import RequestFiles
from plumbline.extras.provider_batches.rows_asked import Estimate, asked_rows
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

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
