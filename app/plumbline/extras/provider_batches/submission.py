"""Submission of batch files: upload, batch, download; each step is recorded before and after it is made."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from plumbline.extras.provider_batches.batch_client import ENDED, BatchClient, BatchInfo
from plumbline.extras.provider_batches.manifest import ManifestFile, RequestFile
from plumbline.ground.errors import BatchApiError, InvalidInput
from plumbline.ground.files import locked, read_file, replace_file, sha256_of

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class FileState:
    """Progress of one file. A step that was started and has no id may have happened: look it up before repeating it."""

    name: str
    is_upload_begun: bool = False
    file_id: str | None = None
    is_batch_begun: bool = False
    batch: BatchInfo | None = None

    @property
    def is_ended(self) -> bool:
        """Return True if the batch is in a final state."""
        return self.batch is not None and self.batch.status in ENDED


class _Form(msgspec.Struct):
    version: int
    files: list[FileState]


class BatchStates:
    """States of all files of one manifest, kept in a file.

    Raises:
        InvalidInput: the file of states is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_name = {state.name: state for state in _load(path)}

    def __bool__(self) -> bool:
        """Return True if any step was started."""
        return bool(self._by_name)

    def of(self, name: str) -> FileState:
        """Return the state of a file; the initial state if nothing was done with it."""
        return self._by_name.get(name, FileState(name))

    def put(self, state: FileState) -> None:
        """Store a state; it is on the disk when this returns."""
        self._by_name[state.name] = state
        form = _Form(_VERSION, list(self._by_name.values()))
        replace_file(self._path, msgspec.json.format(msgspec.json.encode(form)) + b"\n")


def alone(path: Path) -> AbstractContextManager[None]:
    """Lock the states against other processes; the lock ends with the process.

    Raises:
        InvalidInput: another one is at it.
    """
    lock = path.with_name(f"{path.name}.lock")
    return locked(lock, place=path.name, busy="another process works with these batch files now")


def _load(path: Path) -> list[FileState]:
    if not path.exists():
        return []
    try:
        form = msgspec.json.decode(read_file(path), type=_Form)
    except msgspec.MsgspecError:
        raise InvalidInput("is no file of states; expected what `submit` wrote", place=path.name) from None
    if form.version != _VERSION:
        raise InvalidInput(f"has version {form.version}; expected {_VERSION}", place=path.name)
    return form.files


_ATTEMPTS: Final = 5
# Before the first retry of a refused batch, doubling.
_PAUSE_SECONDS: Final = 2.0
_DIGEST_DIGITS: Final = 32

Say = Callable[[str], None]


async def submit(
    at: ManifestFile,
    files: Sequence[RequestFile],
    states: BatchStates,
    api: BatchClient,
    *,
    say: Say,
    **created: str,
) -> None:
    """Upload each file and create its batch with the options of `BatchClient.create`, unless that is done.

    Raises:
        InvalidInput: a file is gone or was changed.
        BatchApiError: the provider refuses, or a batch may have been made and it cannot tell.
    """
    for file in files:
        state = states.of(file.name)
        if state.batch is None:
            state = await _batched(await _uploaded(at, file, states, api), file, states, api, created)
            say(f"{file.name}: {file.requests} requests, batch {describe_state(state)}")
        else:
            say(f"{file.name}: submitted before, batch {describe_state(state)}")


async def refresh(files: Sequence[RequestFile], states: BatchStates, api: BatchClient) -> None:
    """Update the states of batches that have not ended."""
    for file in files:
        state = states.of(file.name)
        if state.batch is not None and not state.is_ended:
            states.put(replace(state, batch=await api.batch(state.batch.id)))


async def wait_until_ended(
    files: Sequence[RequestFile], states: BatchStates, api: BatchClient, *, poll_seconds: float, say: Say
) -> None:
    """Poll until every batch has ended, and report changes."""
    last_lines: dict[str, str] = {}
    while True:
        await refresh(files, states, api)
        for file in files:
            line = describe_state(states.of(file.name))
            if last_lines.get(file.name) != line:
                last_lines[file.name] = line
                say(f"{file.name}: {line}")
        if all(states.of(file.name).is_ended for file in files):
            return
        await asyncio.sleep(poll_seconds)


async def fetch(at: ManifestFile, files: Sequence[RequestFile], states: BatchStates, api: BatchClient) -> None:
    """Download the replies of batches that have ended, unless they are there."""
    at.replies_folder.mkdir(mode=0o700, exist_ok=True)
    for file in files:
        batch = states.of(file.name).batch
        ids = (None, None) if batch is None else (batch.output_file_id, batch.error_file_id)
        for file_id, path in zip(ids, reply_paths(at, file), strict=True):
            if file_id is not None and not path.exists():
                partial = path.with_name(f"{path.name}.partial")
                await api.download(file_id, partial)
                partial.replace(path)


def reply_paths(at: ManifestFile, file: RequestFile) -> tuple[Path, Path]:
    """Return the paths of a file's replies and errors; neither need exist."""
    stem = file.name.removesuffix(".jsonl")
    return at.replies_folder / f"{stem}.output.jsonl", at.replies_folder / f"{stem}.errors.jsonl"


def describe_state(state: FileState) -> str:
    """Describe a state in one line."""
    batch = state.batch
    if batch is None:
        return "not submitted" if not state.is_upload_begun else "submission was interrupted; submit it again"
    counts = f", {batch.completed + batch.failed} of {batch.total} done" if batch.total else ""
    failed = f", {batch.failed} failed" if batch.failed else ""
    errors = f"; {', '.join(batch.errors)}" if batch.errors else ""
    return f"{batch.id} {batch.status}{counts}{failed}{errors}"


async def _uploaded(at: ManifestFile, file: RequestFile, states: BatchStates, api: BatchClient) -> FileState:
    path, state = at.folder / file.name, states.of(file.name)
    if state.file_id is not None:
        return state
    if sha256_of(path) != file.sha256:
        raise InvalidInput("was changed since it was prepared; prepare it again", place=file.name)
    # The digest in it lets a file be found again whose id was lost.
    name = f"{path.stem}.{file.sha256[:12]}.jsonl"
    found = await api.find_upload(name, file.bytes) if state.is_upload_begun else None
    states.put(replace(state, is_upload_begun=True))
    state = replace(state, is_upload_begun=True, file_id=found or await api.upload(path, name))
    states.put(state)
    return state


async def _batched(
    state: FileState, file: RequestFile, states: BatchStates, api: BatchClient, created: Mapping[str, str]
) -> FileState:
    assert state.file_id is not None  # noqa: S101 - uploaded before
    tag = f"{file.sha256[:_DIGEST_DIGITS]}-{file.round}"
    batch = await _found(state, tag, api)
    for attempt in range(_ATTEMPTS):
        if batch is not None:
            break
        states.put(replace(state, is_batch_begun=True))
        try:
            batch = await api.create(state.file_id, tag=tag, **created)
        except BatchApiError as error:
            if not error.is_unsure:
                states.put(state)
            if not error.is_retryable or attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_PAUSE_SECONDS * 2**attempt if error.wait_seconds is None else error.wait_seconds)
            batch = await _found(replace(state, is_batch_begun=error.is_unsure), tag, api)
    state = replace(state, is_batch_begun=True, batch=batch)
    states.put(state)
    return state


async def _found(state: FileState, tag: str, api: BatchClient) -> BatchInfo | None:
    """Return a batch that was created from this file before.

    Raises:
        BatchApiError: one may have been made, and the provider does not say.
    """
    assert state.file_id is not None  # noqa: S101 - uploaded before
    try:
        return await api.find_batch(state.file_id, tag)
    except BatchApiError as error:
        if not state.is_batch_begun:
            return None
        raise BatchApiError(
            f"{state.name}: a batch may have been made before, and the provider does not list its batches ({error}); "
            "look at its console, and take the file out of the state file to submit it again"
        ) from error
