"""`plumbline batch-file`: judge a file of rows through a provider's Batch API, at batch prices."""

import argparse
import asyncio
import secrets
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, cast

from plumbline.cli import Commands, build_command
from plumbline.cli.score.options import parse_judging
from plumbline.extras.provider_batches.asking import ask_rows, check_asking, describe_asking
from plumbline.extras.provider_batches.manifest import (
    MANIFEST,
    Manifest,
    ManifestFile,
    RequestFile,
    RequestFiles,
    Source,
)
from plumbline.extras.provider_batches.replies import ReplyIndex
from plumbline.ground.errors import BatchApiError, InvalidInput
from plumbline.ground.files import atomic_write, sha256_of
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.version import VERSION
from plumbline.models.chat.batch_api import BatchApi, BatchInfo, open_batch_api
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.scored_row import RowStatus, RowTally
from plumbline.schemas.batch import BatchSummary
from plumbline.schemas.result_parts import TierName

_INCOMPLETE: Final = 3
_SECRET_BYTES: Final = 32


def add_command(commands: Commands) -> None:
    steps = {"prepare": prepare, "submit": submit, "status": status, "collect": collect}
    build_command(commands, "batch-file", {name: partial(_run, step) for name, step in steps.items()})


def _run(step: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        return step(options)
    except KeyboardInterrupt:
        _note("interrupted; run the same command again to resume")
        return _INCOMPLETE


def prepare(options: argparse.Namespace) -> int:
    """Write the request files of all rows and the manifest."""
    settings = _settings()
    at = ManifestFile(options.output.with_name(options.output.name.removesuffix(".jsonl") + MANIFEST))
    at.check_apart(options.data, [at.folder / f"{at.stem}.jsonl", *at.folder.glob(f"{at.stem}-[0-9]*.jsonl")])
    before = at.load() if at.path.exists() else None
    if before is not None and any(file.is_sent for file in before.files):
        raise InvalidInput(
            "the files of this name were submitted already; expected another --output", place=at.path.name
        )
    with RecordReader(options.data, format=options.format, columns=options.columns) as reader:
        metrics = parse_judging(options, {}).model_dump(include={"metrics", "criteria"}, exclude_none=True)
        manifest = Manifest(
            plumbline=VERSION,
            # The same rows give the same bytes again.
            secret=secrets.token_hex(_SECRET_BYTES) if before is None else before.secret,
            source=Source(at.relative(options.data), sha256_of(options.data), reader.format, reader.columns),
            judge=options.judge,
            asked=describe_asking(settings, options.judge, metrics),
            metrics=metrics,
            url=options.url,
            max_requests=options.max_requests,
            price_factor=options.price_factor,
        )
        files = asyncio.run(_prepare(settings, at, manifest, reader))
        _out(f"{options.data.name}: {reader.explanation}")
    at.save(replace(manifest, files=files))
    for name in {file.name for file in (before.files if before else ())} - {file.name for file in files}:
        (at.folder / name).unlink(missing_ok=True)
    for file in files:
        _out(f"written: {at.folder / file.name}, {file.requests} requests")
    _out(f"written: {at.path}; it holds a secret, keep it from those whose texts are judged")
    return 0


async def _prepare(
    settings: Settings, at: ManifestFile, manifest: Manifest, reader: RecordReader
) -> tuple[RequestFile, ...]:
    rows = asked = invalid = requests = 0
    with RequestFiles(at, manifest) as files:
        async with aclosing(ask_rows(settings, manifest, reader, ReplyIndex({}, ()))) as results:
            async for scored, questions in results:
                rows += 1
                asked += bool(questions.open)
                invalid += scored.status in (RowStatus.INVALID, RowStatus.FAILED)
                for line in questions.lines:
                    requests += 1
                    files.add(line)
        written = files.finish()
    _out(f"{rows} rows: {asked} to be asked, {rows - asked - invalid} without the judge, {invalid} invalid")
    _out(f"{requests} requests to {manifest.asked['model']}; `plumbline score --estimate` has their cost")
    return written


def submit(options: argparse.Namespace) -> int:
    """Upload the files that are not uploaded, and create their batches."""
    settings, at = _settings(), ManifestFile(options.manifest)

    async def work(manifest: Manifest) -> None:
        chosen = {Path(name).name for name in options.files} or {file.name for file in manifest.files}
        if unknown := chosen - {file.name for file in manifest.files}:
            raise InvalidInput(f"names no file {min(unknown)!r}; expected one that `prepare` wrote", place=at.path.name)
        async with open_batch_api(check_asking(settings, manifest)) as api:
            for file in manifest.files:
                if file.name in chosen:
                    manifest = await _submit(at, manifest, file, api, options.window)

    with at.lock():
        asyncio.run(work(at.load()))
    return 0


async def _submit(at: ManifestFile, manifest: Manifest, file: RequestFile, api: BatchApi, window: str) -> Manifest:
    """Upload a file and create its batch; the manifest has each step before the next one is made."""
    if file.batch is not None:
        _out(f"{file.name}: submitted before, batch {file.batch}")
        return manifest
    path = at.folder / file.name
    if sha256_of(path) != file.sha256:
        raise InvalidInput("was changed since it was prepared; prepare it again", place=file.name)
    if file.file_id is None:
        file = replace(file, file_id=await api.upload(path))
        manifest = at.update(manifest, file)
    file_id = cast(str, file.file_id)
    batch = await _find_batch(file, api) if file.is_batch_begun else None
    if batch is None:
        manifest = at.update(manifest, replace(file, is_batch_begun=True))
        try:
            batch = await api.create(file_id, endpoint=manifest.url, window=window)
        except BatchApiError as error:
            if not error.is_unsure:
                at.update(manifest, replace(file, is_batch_begun=False))
                raise
            # It may have been created, and its reply lost.
            batch = await _find_batch(file, api)
            if batch is None:
                raise BatchApiError(f"{error}; submit again") from error
    _out(f"{file.name}: {file.requests} requests, batch {batch}")
    return at.update(manifest, replace(file, is_batch_begun=True, batch=batch))


async def _find_batch(file: RequestFile, api: BatchApi) -> BatchInfo | None:
    """Return the batch that was created from this file before; raise BatchApiError if the provider does not say."""
    try:
        return await api.find_batch(cast(str, file.file_id))
    except BatchApiError as error:
        raise BatchApiError(
            f"{file.name}: a batch may have been made before, and the provider does not list its batches ({error}); "
            "look at its console, and set is_batch_begun to false in the manifest to submit it again"
        ) from error


def status(options: argparse.Namespace) -> int:
    """Print the status of each file; return 3 until all have ended."""
    settings, at = _settings(), ManifestFile(options.manifest)
    with at.lock():
        manifest = asyncio.run(_refresh(settings, at, at.load()))
    for file in manifest.files:
        _out(f"{file.name}: {file.batch or 'not submitted'}")
    return 0 if all(map(_is_ended, manifest.files)) else _INCOMPLETE


async def _refresh(settings: Settings, at: ManifestFile, manifest: Manifest) -> Manifest:
    """Query the batches that have not ended, and fetch the replies of those that have."""
    async with open_batch_api(check_asking(settings, manifest)) as api:
        for file in manifest.sent:
            if file.batch is not None and not file.batch.is_ended:
                manifest = at.update(manifest, replace(file, batch=await api.batch(file.batch.id)))
        for file in filter(_is_ended, manifest.files):
            batch = cast(BatchInfo, file.batch)
            for file_id, path in zip((batch.output_file_id, batch.error_file_id), at.reply_paths(file), strict=True):
                if file_id is not None and not path.exists():
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    await api.download(file_id, path)
    return manifest


def _is_ended(file: RequestFile) -> bool:
    return file.batch is not None and file.batch.is_ended


def collect(options: argparse.Namespace) -> int:
    """Fetch the replies and write the results; return 3 until all batches have ended."""
    settings, at = _settings(), ManifestFile(options.manifest)
    with at.lock():
        manifest = at.load()
        requests = [at.folder / file.name for file in manifest.files]
        at.check_apart(options.output, [at.folder / manifest.source.path, *requests, *options.replies])
        if manifest.plumbline != VERSION:
            _note(f"prepared by plumbline {manifest.plumbline}, this is {VERSION}: questions may not be found again")
        if options.replies:
            replies, sent = options.replies, manifest.files
        else:
            if idle := [file.name for file in manifest.sent if file.batch is None]:
                raise InvalidInput("has no batch yet; submit it first", place=idle[0])
            manifest = asyncio.run(_refresh(settings, at, manifest))
            sent = manifest.sent
            # Those of later rounds are newer.
            paths = [path for file in reversed(sent) for path in at.reply_paths(file)]
            replies = [path for path in paths if path.exists()]
        for file in sent:
            if not options.replies and file.batch and (file.batch.status != "completed" or file.batch.failed):
                _note(f"{file.name}: {file.batch}")
        if not options.replies and not all(map(_is_ended, sent)):
            return _INCOMPLETE
        statuses = {at.folder / file.name: file.batch.status if file.batch else "" for file in sent}
        index = ReplyIndex(dict.fromkeys(statuses, "") if options.replies else statuses, replies)
        if index.passed_over:
            _note(f"lines of replies passed over as unreadable, repeated or of no question: {index.passed_over}")
        asyncio.run(_collect(settings, at, manifest, index, options))
    return 0


async def _collect(
    settings: Settings, at: ManifestFile, manifest: Manifest, index: ReplyIndex, options: argparse.Namespace
) -> None:
    source, path = manifest.source, at.source_path(manifest.source)
    fallback = [cast(TierName, name) for name in options.fallback.split(",") if name != "none"]
    files = manifest.files if options.replies else manifest.sent
    round_ = max((file.round for file in files), default=1) + 1
    tally, refused, still_open = RowTally(), 0, 0
    with (
        RecordReader(path, format=source.format, columns=source.columns) as reader,
        RequestFiles(at, manifest, round_=round_) as later,
    ):
        rows = ask_rows(settings, manifest, reader, index, fallback=fallback, threshold=options.threshold)
        try:
            with atomic_write(options.output) as file:
                async with aclosing(rows):
                    async for scored, questions in rows:
                        file.write(scored.line + b"\n")
                        tally.add(scored)
                        refused += questions.refused
                        still_open += len(questions.open)
                        for line in questions.lines if options.next_round else ():
                            later.add(line)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=options.output.name) from error
        further = later.finish()
    if options.next_round:
        # A new last round, in place of one that was never submitted.
        at.save(replace(manifest, files=(*files, *further)))
    _out(f"written: {options.output}; {_format_summary(tally.summary())}")
    if refused:
        _out(f"{refused} questions were not run: mend what their batches failed for, and prepare them again")
    if further:
        names = ", ".join(each.name for each in further)
        _out(f"written: {names}, {still_open} questions that are still open; submit and collect again")
    elif still_open:
        _out(f"{still_open} questions are still open; --next-round writes them as files to be submitted")
    elif not refused:
        _out("all questions have their replies: these results are final")


def _settings() -> Settings:
    settings = load_settings()
    # Every row whose question is open fails tier llm; the attempts of each row say so.
    configure_logging("ERROR")
    return settings


def _format_summary(summary: BatchSummary) -> str:
    tiers = ", ".join(f"{name} {count}" for name, count in summary.tiers.model_dump().items() if count) or "none"
    cost = "not known" if summary.usage.cost is None else f"{summary.usage.cost:.4f}"
    return (
        f"{summary.rows} rows: {summary.judged} judged ({summary.passed} passed), {summary.abstained} abstained, "
        f"{summary.empty_answer} empty, {summary.not_judged} not judged, {summary.errors} errors; tiers: {tiers}; "
        f"tokens {summary.usage.prompt_tokens} in, {summary.usage.completion_tokens} out; cost {cost}"
    )


def _out(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _note(line: str) -> None:
    sys.stderr.write(f"{line}\n")
