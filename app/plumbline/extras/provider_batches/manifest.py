"""Batch files and their manifest: all that is needed to write them again and to read the replies."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Self

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file, replace_file, sha256_of
from plumbline.rows.records.columns import ColumnMap

TEST_MODEL: Final = "batch-test-model"
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits of one file; `line_bytes` and `file_bytes` include line ends."""

    requests: int
    file_bytes: int
    line_bytes: int


# As their documentation had it in 2026; what is not named there takes the smallest of them.
_LIMITS: Final[Mapping[str, FileLimits]] = MappingProxyType(
    {
        "openai": FileLimits(50_000, 200 * _MEGABYTE, 200 * _MEGABYTE),
        "azure": FileLimits(50_000, 200 * _MEGABYTE, 200 * _MEGABYTE),
        "dashscope": FileLimits(50_000, 500 * _MEGABYTE, 6 * _MEGABYTE),
        "dashscope-intl": FileLimits(50_000, 500 * _MEGABYTE, 6 * _MEGABYTE),
    }
)
_OTHER_LIMITS: Final = FileLimits(50_000, 100 * _MEGABYTE, 6 * _MEGABYTE)
_TEST_LIMITS: Final = FileLimits(100, _MEGABYTE, _MEGABYTE)


def batch_file_limits(provider: str, model: str) -> FileLimits:
    """Return the limits of a provider's batches, tighter for DashScope's test model."""
    return _TEST_LIMITS if model == TEST_MODEL else _LIMITS.get(provider, _OTHER_LIMITS)


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request file of a manifest. `round` counts from 1; later rounds hold what earlier replies left open."""

    name: str
    sha256: str
    bytes: int
    requests: int
    round: int = 1


class RequestFiles:
    """Writer of `STEM.jsonl`, or of `STEM-001.jsonl` and following if one file cannot hold all lines.

    A context manager: `finish` gives the files their names; whatever was not finished is removed.

    Raises:
        InvalidInput: a file cannot be written.
    """

    def __init__(self, folder: Path, stem: str, limits: FileLimits, *, round_: int = 1) -> None:
        self._folder = folder
        self._stem = stem if round_ == 1 else f"{stem}.round-{round_}"
        self._limits = limits
        self._round = round_
        self._done: list[tuple[Path, str, int, int]] = []
        self._file: BinaryIO | None = None
        self._path = folder
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._requests = 0

    def add(self, line: bytes) -> None:
        """Write a line; its end is added here."""
        data = line + b"\n"
        is_full = self._requests == self._limits.requests or self._bytes + len(data) > self._limits.file_bytes
        if self._file is None or is_full:
            self._begin()
        assert self._file is not None  # noqa: S101 - begun above
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)
        self._requests += 1

    def finish(self) -> tuple[RequestFile, ...]:
        """Rename the files to their final names and return them."""
        self._end()
        is_alone = len(self._done) == 1
        files = []
        for number, (path, digest, size, requests) in enumerate(self._done, start=1):
            name = f"{self._stem}.jsonl" if is_alone else f"{self._stem}-{number:03}.jsonl"
            path.replace(self._folder / name)
            files.append(RequestFile(name, digest, size, requests, self._round))
        self._done.clear()
        return tuple(files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        for path, *_rest in self._done:
            path.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._end()
        self._path = self._folder / f"{self._stem}-{len(self._done) + 1:03}.jsonl.partial"
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self._path.name) from error

    def _end(self) -> None:
        if self._file is None:
            return
        self._file.close()
        self._done.append((self._path, self._digest.hexdigest(), self._bytes, self._requests))
        self._file, self._digest, self._bytes, self._requests = None, hashlib.sha256(), 0, 0


MANIFEST: Final = ".manifest.json"
MANIFEST_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Source:
    """The file of rows; `path` is relative to the manifest's folder."""

    path: str
    sha256: str
    format: str
    columns: ColumnMap


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """The judge and the format of its requests; `omitted` fields are not sent."""

    name: str
    provider: str
    base_url: str
    model: str
    context_tokens: int
    max_output_tokens: int
    structure: str
    omitted: tuple[str, ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Record of one preparation.

    Args:
        plumbline: the version that asked; another one may cut sentences or write prompts otherwise.
        secret: hexadecimal; the marks in the prompts are made with it. Who writes texts to be judged must not know it.
        prompts: digest by label.
        row_limits: what a row may hold.
        url: of each line, and the endpoint of the batches.
        files: the questions; the id of each begins with the number of its row: `ROW-DIGEST`.
        controls: the questions hold some; those of manifests without the field do not.
        metrics: what is judged besides faithfulness, as the fields `metrics` and `criteria` of a request.
    """

    version: int
    plumbline: str
    secret: str
    source: Source
    judge: JudgeSpec
    prompts: Mapping[str, str]
    row_limits: Mapping[str, int]
    url: str
    limits: FileLimits
    rows: int
    files: tuple[RequestFile, ...]
    controls: bool = False
    metrics: Mapping[str, Any] = field(default_factory=dict)


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

    @property
    def state_path(self) -> Path:
        return self.path.with_name(f"{self.stem}.state.json")

    @property
    def replies_folder(self) -> Path:
        return self.path.with_name(f"{self.stem}.replies")

    def load(self) -> Manifest:
        """Read the manifest.

        Raises:
            InvalidInput: there is none, or it is damaged or of another version.
        """
        try:
            manifest = _DECODER.decode(read_file(self.path))
        except msgspec.MsgspecError:
            raise InvalidInput("is no manifest of batch files", place=self.path.name) from None
        if manifest.version != MANIFEST_VERSION:
            raise InvalidInput(f"has version {manifest.version}; expected {MANIFEST_VERSION}", place=self.path.name)
        return manifest

    def save(self, manifest: Manifest) -> None:
        """Replace the file atomically; mode 0600, as it holds the secret."""
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")

    def relative(self, path: Path) -> str:
        """Return a path relative to the manifest's folder."""
        return Path(os.path.relpath(path.resolve(), self.folder.resolve())).as_posix()

    def source_path(self, manifest: Manifest) -> Path:
        """Return the path of the file of rows, after checking its digest.

        Raises:
            InvalidInput: it is gone or was changed.
        """
        path = self.folder / manifest.source.path
        if sha256_of(path) != manifest.source.sha256:
            raise InvalidInput(
                "was changed since its batch files were prepared; expected the same bytes", place=path.name
            )
        return path


def manifest_beside(output: Path) -> ManifestFile:
    """Return the manifest for an output file: `requests.jsonl` -> `requests.manifest.json`."""
    return ManifestFile(output.with_name(output.name.removesuffix(".jsonl") + MANIFEST))


def find_manifest(paths: Sequence[Path]) -> ManifestFile:
    """Return the manifest that these files belong to; each is the manifest itself or one of its request files.

    Raises:
        InvalidInput: there is none for one of them, or there are several.
    """
    found = {_manifest_of(path) for path in paths}
    if len(found) > 1:
        raise InvalidInput("the files belong to several manifests; expected those of one", place=paths[0].name)
    return ManifestFile(found.pop())


def _manifest_of(path: Path) -> Path:
    if path.name.endswith(MANIFEST):
        return path
    for candidate in sorted(path.parent.glob(f"*{MANIFEST}")):
        if any(file.name == path.name for file in ManifestFile(candidate).load().files):
            return candidate
    raise InvalidInput("is named by no manifest beside it; expected a file that `prepare` wrote", place=path.name)
