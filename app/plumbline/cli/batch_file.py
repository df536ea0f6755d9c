"""`plumbline batch-file`: judge a file of rows through a provider's Batch API, at batch prices."""

import argparse
import asyncio
import os
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
)
from plumbline.extras.provider_batches.replies import ReplyIndex
from plumbline.ground.errors import BatchApiError, InvalidInput
from plumbline.ground.files import atomic_write, sha256_of
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.telemetry import configure_logging
from plumbline.ground.version import VERSION
from plumbline.models.chat.batch_api import BatchApi, BatchInfo
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.scored_row import RowStatus, RowTally
from plumbline.schemas.batch import BatchSummary
from plumbline.schemas.result_parts import TierName

_INCOMPLETE: Final = 3
_SECRET_BYTES: Final = 32


def add_command(commands: Commands) -> None:
    steps = {"prepare": prepare, "submit": submit, "collect": collect}
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
    if before is not None and any(file.file_id for file in before.files):
        raise InvalidInput(
            "the files of this name were submitted already; expected another --output", place=at.path.name
        )
    with RecordReader(options.data, format=options.format, columns=options.columns) as reader:
        metrics = parse_judging(options, {}).model_dump(include={"metrics", "criteria"}, exclude_none=True)
        manifest = Manifest(
            plumbline=VERSION,
            # The same rows give the same bytes again.
            secret=secrets.token_hex(_SECRET_BYTES) if before is None else before.secret,
            data=Path(os.path.relpath(options.data.resolve(), at.folder.resolve())).as_posix(),
            data_sha256=sha256_of(options.data),
            format=reader.format,
            columns=reader.columns,
            judge=options.judge,
            asked=describe_asking(settings, options.judge, metrics),
            metrics=metrics,
            url=options.url,
            max_requests=options.max_requests,
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
    rows = asked = invalid = 0
    with RequestFiles(at, manifest) as files:
        async with aclosing(ask_rows(settings, manifest, reader, ReplyIndex({}, ()))) as results:
            async for scored, questions in results:
                rows += 1
                asked += bool(questions.open)
                invalid += scored.status in (RowStatus.INVALID, RowStatus.FAILED)
                for line in questions.lines:
                    files.add(line)
        written = files.finish()
    _out(f"{rows} rows: {asked} to be asked, {rows - asked - invalid} without the judge, {invalid} invalid")
    requests = sum(each.requests for each in written)
    _out(f"{requests} requests to {manifest.asked['model']}; `plumbline score --estimate` has their cost")
    return written


def submit(options: argparse.Namespace) -> int:
    """Upload the files that are not uploaded, and create their batches."""
    settings, at = _settings(), ManifestFile(options.manifest)

    async def work(manifest: Manifest) -> None:
        async with aclosing(BatchApi(check_asking(settings, manifest))) as api:
            for file in manifest.files:
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
            # One that may have been created, and its reply lost, is looked up when this is run again.
            if error.is_unsure:
                raise BatchApiError(f"{error}; submit again") from error
            at.update(manifest, replace(file, is_batch_begun=False))
            raise
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


async def _refresh(settings: Settings, at: ManifestFile, manifest: Manifest) -> Manifest:
    """Query the batches that have not ended, and fetch the replies of those that have."""
    async with aclosing(BatchApi(check_asking(settings, manifest))) as api:
        for file in manifest.sent:
            if file.batch is not None and not file.batch.is_ended:
                manifest = at.update(manifest, replace(file, batch=await api.batch(file.batch.id)))
        for file in manifest.files:
            if file.batch is None or not file.is_ended:
                continue
            batch = file.batch
            for file_id, path in zip((batch.output_file_id, batch.error_file_id), at.reply_paths(file), strict=True):
                if file_id is not None and not path.exists():
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    await api.download(file_id, path)
    return manifest


def collect(options: argparse.Namespace) -> int:
    """Fetch the replies, write the results and the next round's files; return 3 until all batches have ended."""
    settings, at = _settings(), ManifestFile(options.manifest)
    with at.lock():
        manifest = at.load()
        at.check_apart(options.output, [at.folder / manifest.data, *(at.folder / each.name for each in manifest.files)])
        if manifest.plumbline != VERSION:
            _note(f"prepared by plumbline {manifest.plumbline}, this is {VERSION}: questions may not be found again")
        if idle := [file.name for file in manifest.sent if file.batch is None]:
            raise InvalidInput("has no batch yet; submit it first", place=idle[0])
        manifest = asyncio.run(_refresh(settings, at, manifest))
        for file in manifest.sent:
            if file.batch and (file.batch.status != "completed" or file.batch.error_file_id):
                _note(f"{file.name}: {file.batch}")
        if not all(file.is_ended for file in manifest.sent):
            return _INCOMPLETE
        asyncio.run(_collect(settings, at, manifest, options))
    return 0


async def _collect(settings: Settings, at: ManifestFile, manifest: Manifest, options: argparse.Namespace) -> None:
    data, sent = at.data_path(manifest), manifest.sent
    # Replies of later rounds are newer.
    replies = [path for file in reversed(sent) for path in at.reply_paths(file) if path.exists()]
    index = ReplyIndex({at.folder / file.name: file.batch.status if file.batch else "" for file in sent}, replies)
    if index.passed_over:
        _note(f"lines of replies passed over as unreadable, repeated or of no question: {index.passed_over}")
    fallback = [cast(TierName, name) for name in options.fallback.split(",") if name != "none"]
    round_ = max((file.round for file in sent), default=1) + 1
    tally, refused = RowTally(), 0
    with (
        RecordReader(data, format=manifest.format, columns=manifest.columns) as reader,
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
                        for line in questions.lines:
                            later.add(line)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=options.output.name) from error
        further = later.finish()
    # A new last round, in place of one that was never submitted.
    at.save(replace(manifest, files=(*sent, *further)))
    _out(f"written: {options.output}; {_format_summary(tally.summary())}")
    if refused:
        _out(f"{refused} questions were not run: mend what their batches failed for, and prepare them again")
    if further:
        names, still_open = ", ".join(each.name for each in further), sum(each.requests for each in further)
        _out(f"written: {names}, {still_open} questions that are still open; submit and collect again")
    elif not refused:
        _out("all questions have their replies: these results are final")


def _settings() -> Settings:
    settings = load_settings()
    # Every row whose question is open fails tier llm; the attempts of each row say so.
    configure_logging("ERROR")
    return settings


def _format_summary(summary: BatchSummary) -> str:
    usage = summary.usage
    cost = "not known" if usage.cost is None else f"{usage.cost:.4f}"
    return (
        f"{summary.rows} rows: {summary.judged} judged ({summary.passed} passed), {summary.not_judged} not judged, "
        f"{summary.errors} errors; tokens {usage.prompt_tokens} in, {usage.completion_tokens} out; cost {cost}"
    )


def _out(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _note(line: str) -> None:
    sys.stderr.write(f"{line}\n")
