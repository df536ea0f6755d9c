"""What was prepared, and all that it takes to ask the same again and to read the replies: one JSON file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from plumbline.extras.provider_batches.request_files import FileLimits, RequestFile
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file, replace_file, sha256_of
from plumbline.rows.records.columns import ColumnMap

MANIFEST: Final = ".manifest.json"
MANIFEST_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Source:
    """The file of rows. `path` is relative to the manifest's folder."""

    path: str
    sha256: str
    format: str
    columns: ColumnMap


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """The judge that is asked, and the form of the questions; `omitted` fields are not sent."""

    name: str
    provider: str
    base_url: str
    model: str
    context_tokens: int
    max_output_tokens: int
    structure: str
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """One preparation.

    Args:
        plumbline: the version that asked; another one may cut sentences or write prompts otherwise.
        secret: hexadecimal; the marks in the prompts are made with it. Who writes texts to be judged must not know it.
        prompts: digest by label.
        row_limits: what a row may hold.
        url: of each line, and the endpoint of the batches.
        files: the questions; the id of each begins with the number of its row: `ROW-DIGEST`.
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


_DECODER: Final = msgspec.json.Decoder(Manifest)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest on disk; all else of it lies beside it."""

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
        """The manifest.

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
        """Replaces the file as a whole; mode 0600, as the secret is in it."""
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")

    def relative(self, path: Path) -> str:
        """A path as the manifest names it."""
        return Path(os.path.relpath(path.resolve(), self.folder.resolve())).as_posix()

    def source_path(self, manifest: Manifest) -> Path:
        """The file of rows, proven to be the one that was prepared.

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
    """The manifest of files that are to be called as `output`: `requests.jsonl` -> `requests.manifest.json`."""
    return ManifestFile(output.with_name(output.name.removesuffix(".jsonl") + MANIFEST))


def find_manifest(paths: Sequence[Path]) -> ManifestFile:
    """The one manifest that these files belong to: itself, or files of questions beside it.

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
