"""How far each file of questions has come at the provider: written down after each step, so that none is made twice."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from plumbline.extras.provider_batches.provider_batch import ENDED, BatchInfo
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import locked, read_file, replace_file

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class FileState:
    """One file. What is begun and has no id may have been done or not: the provider is asked before it is repeated."""

    name: str
    is_upload_begun: bool = False
    file_id: str | None = None
    is_batch_begun: bool = False
    batch: BatchInfo | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the batch will not change any more."""
        return self.batch is not None and self.batch.status in ENDED


class _Form(msgspec.Struct):
    version: int
    files: list[FileState]


class BatchStates:
    """The states of all files of one manifest.

    Raises:
        InvalidInput: the file of states is damaged, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_name = {state.name: state for state in _load(path)}

    def __bool__(self) -> bool:
        """Whether anything was begun."""
        return bool(self._by_name)

    def of(self, name: str) -> FileState:
        """The state of a file, at its beginning when nothing was done with it."""
        return self._by_name.get(name, FileState(name))

    def put(self, state: FileState) -> None:
        """Keeps a state; it is on the disk when this returns."""
        self._by_name[state.name] = state
        form = _Form(_VERSION, list(self._by_name.values()))
        replace_file(self._path, msgspec.json.format(msgspec.json.encode(form)) + b"\n")


def alone(path: Path) -> AbstractContextManager[None]:
    """Holds off other processes that work on the same states; the lock ends with the process.

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
