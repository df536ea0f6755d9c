"""Batch files and their manifest: what was asked of whom, the request files, and what became of each."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write, locked, read_file, replace_file, sha256_of
from plumbline.models.chat.batch_api import BatchInfo
from plumbline.rows.records.columns import ColumnMap

MANIFEST: Final = ".manifest.json"
# As their documentation had it in 2026; the smallest of them for what is not named.
_MEGABYTES: Final[Mapping[str, int]] = {"openai": 200, "azure": 200, "dashscope": 500, "dashscope-intl": 500}
_OTHER_MEGABYTES: Final = 100


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request file and its progress. `round` counts from 1; later rounds hold what earlier replies left open.

    `is_batch_begun` without a batch: one may have been created.
    """

    name: str
    sha256: str
    requests: int
    round: int = 1
    file_id: str | None = None
    is_batch_begun: bool = False
    batch: BatchInfo | None = None

    @property
    def is_ended(self) -> bool:
        return self.batch is not None and self.batch.is_ended


@dataclass(frozen=True, slots=True)
class Manifest:
    """Record of one run.

    Args:
        plumbline: the version that asked; another one may cut sentences or write prompts otherwise.
        secret: hexadecimal; the marks in the prompts are made with it. Who writes texts to be judged must not know it.
        data: the file of rows, relative to the manifest's folder.
        judge: its name in the settings.
        asked: whatever of the settings decides on the questions.
        metrics: what is judged besides faithfulness, as the fields `metrics` and `criteria` of a request.
        url: of each line, and the endpoint of the batches.
        max_requests: of one file.
    """

    plumbline: str
    secret: str
    data: str
    data_sha256: str
    format: str
    columns: ColumnMap
    judge: str
    asked: Mapping[str, Any]
    metrics: Mapping[str, Any]
    url: str
    max_requests: int
    files: tuple[RequestFile, ...] = ()

    @property
    def sent(self) -> tuple[RequestFile, ...]:
        """Return the files whose replies count: all but later rounds that were never submitted."""
        return tuple(file for file in self.files if file.round == 1 or file.file_id is not None)


_DECODER: Final = msgspec.json.Decoder(Manifest)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest on disk; its other files are in the same folder."""

    path: Path

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def stem(self) -> str:
        return self.path.name.removesuffix(MANIFEST)

    def load(self) -> Manifest:
        """Read the manifest; raise InvalidInput if there is none, or it is damaged or of another version."""
        try:
            return _DECODER.decode(read_file(self.path))
        except msgspec.MsgspecError:
            raise InvalidInput(
                "is no manifest of batch files; expected what `prepare` of this version wrote", place=self.path.name
            ) from None

    def save(self, manifest: Manifest) -> None:
        """Replace the file atomically; mode 0600, as it holds the secret."""
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")

    def update(self, manifest: Manifest, file: RequestFile) -> Manifest:
        """Save the new progress of a file and return the manifest with it."""
        files = tuple(file if each.name == file.name else each for each in manifest.files)
        manifest = replace(manifest, files=files)
        self.save(manifest)
        return manifest

    def lock(self) -> AbstractContextManager[None]:
        """Lock the run against other processes; raise InvalidInput if another one is at it."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        return locked(lock, place=self.path.name, busy="another process works with these batch files now")

    def reply_paths(self, file: RequestFile) -> tuple[Path, Path]:
        """Return the paths of a file's replies and errors; neither need exist."""
        # The digest keeps those of an earlier run of this name apart.
        folder, stem = self.path.with_name(f"{self.stem}.replies"), f"{Path(file.name).stem}.{file.sha256[:8]}"
        return folder / f"{stem}.output.jsonl", folder / f"{stem}.errors.jsonl"

    def data_path(self, manifest: Manifest) -> Path:
        """Return the path of the file of rows; raise InvalidInput if it is gone or was changed."""
        path = self.folder / manifest.data
        if sha256_of(path) != manifest.data_sha256:
            raise InvalidInput(
                "was changed since its batch files were prepared; expected the same bytes", place=path.name
            )
        return path

    def check_apart(self, output: Path, others: Iterable[Path]) -> None:
        """Raise InvalidInput if an output would be written over another file of the run."""
        if output.resolve() in {each.resolve() for each in (self.path, *others)}:
            raise InvalidInput(
                "is needed itself and would be written over; expected another --output", place=output.name
            )


class RequestFiles(ExitStack):
    """Writer of `STEM.jsonl`, and of `STEM-2.jsonl` and following when one is full; raises InvalidInput."""

    def __init__(self, at: ManifestFile, manifest: Manifest, *, round_: int = 1) -> None:
        super().__init__()
        self._done: list[RequestFile] = []
        self._folder, self._round = at.folder, round_
        self._stem = at.stem if round_ == 1 else f"{at.stem}.round-{round_}"
        self._max_requests = manifest.max_requests
        self._max_bytes = _MEGABYTES.get(manifest.asked["provider"], _OTHER_MEGABYTES) * 1_000_000
        self._file: BinaryIO | None = None
        self._name, self._requests = "", 0

    def add(self, line: bytes) -> None:
        data = line + b"\n"
        try:
            is_full = self._file is not None and self._file.tell() + len(data) > self._max_bytes
            if is_full or self._requests == self._max_requests:
                self.finish()
            if self._file is None:
                number = len(self._done) + 1
                self._name = f"{self._stem}.jsonl" if number == 1 else f"{self._stem}-{number}.jsonl"
                self._file = self.enter_context(atomic_write(self._folder / self._name))
            self._file.write(data)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self._name) from error
        self._requests += 1

    def finish(self) -> tuple[RequestFile, ...]:
        """Give the last file its name and return all."""
        if self._file is not None:
            self.close()
            digest = sha256_of(self._folder / self._name)
            self._done.append(RequestFile(self._name, digest, self._requests, self._round))
            self._file, self._requests = None, 0
        return tuple(self._done)
