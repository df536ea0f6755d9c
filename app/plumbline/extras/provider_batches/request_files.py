"""Questions as files of lines, none larger than its provider takes; each file gets its name when all are whole."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Self

from plumbline.ground.errors import InvalidInput

TEST_MODEL: Final = "batch-test-model"
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FileLimits:
    """What one file may hold; `line_bytes` and `file_bytes` with the ends of lines."""

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


def limits_of(provider: str, model: str) -> FileLimits:
    """The limits of a provider's batches, tighter for the model that only tests the way."""
    return _TEST_LIMITS if model == TEST_MODEL else _LIMITS.get(provider, _OTHER_LIMITS)


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A file of questions beside its manifest. `round` counts from 1: later ones ask what earlier replies left open."""

    name: str
    sha256: str
    bytes: int
    requests: int
    round: int = 1


class RequestFiles:
    """Writes lines into `STEM.jsonl`, or `STEM-001.jsonl` and on where one file cannot hold them.

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
        """One line; its end is added here."""
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
        """The files, under their names."""
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
