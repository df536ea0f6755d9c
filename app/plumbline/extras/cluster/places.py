"""Files and folders, on this file system or where pyarrow reaches: S3, GCS, HDFS."""

import fnmatch
import io
import uuid
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import PARTIAL_SUFFIX, atomic_write
from plumbline.rows.records.data_file import DataFile

_OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})


class FileFacts(NamedTuple):
    """Path or URI of a file with its size in bytes and its time of change in ns, which show a changed file."""

    place: str
    size: int
    modified: int


def is_uri(place: str) -> bool:
    return "://" in place


def data_file(place: str) -> DataFile:
    """Return the file, not opened yet."""
    return _RemoteFile(place) if is_uri(place) else Path(place)


def folder_at(place: str) -> "LocalFolder | RemoteFolder":
    """Return the folder; it is created by the first write.

    Raises:
        InvalidInput: there is no such file system, or pyarrow is missing.
    """
    return RemoteFolder(*_remote(place)) if is_uri(place) else LocalFolder(Path(place).absolute())


def files_in(place: str) -> list[FileFacts]:
    """Return the file, or those of a folder or pattern by name, without names that begin with `.` or `_`.

    Raises:
        InvalidInput: there is none, or its file system cannot be reached.
    """
    found = _remote_files(place) if is_uri(place) else _local_files(Path(place).absolute())
    if not found:
        raise InvalidInput("there is no such file, or none in it; expected files of rows", place=place)
    return found


def _local_files(path: Path) -> list[FileFacts]:
    if path.is_dir():
        paths = [each for each in sorted(path.iterdir()) if _is_data(each.name)]
    elif path.exists():
        paths = [path]
    else:
        paths = [each for each in sorted(path.parent.glob(path.name)) if _is_data(each.name)]
    facts = [(each, each.stat()) for each in paths if each.is_file()]
    return [FileFacts(str(each), stat.st_size, stat.st_mtime_ns) for each, stat in facts]


def _remote_files(place: str) -> list[FileFacts]:
    system, path = _remote(place)
    prefix = place[: len(place) - len(path)] if place.endswith(path) else f"{urlsplit(place).scheme}://"
    inner = PurePosixPath(path)
    has_pattern = any(sign in inner.name for sign in "*?[")
    fs = _pyarrow_fs()
    try:
        info = None if has_pattern else system.get_file_info(path)
        if info is not None and info.type != fs.FileType.Directory:
            found = [info] if info.type == fs.FileType.File else []
        else:
            selector = fs.FileSelector(str(inner.parent) if has_pattern else path, allow_not_found=True)
            found = sorted(system.get_file_info(selector), key=lambda each: str(each.path))
            pattern = inner.name if has_pattern else "*"
            found = [
                each for each in found if fnmatch.fnmatchcase(each.base_name, pattern) and _is_data(each.base_name)
            ]
    except OSError as error:
        raise InvalidInput(f"cannot be reached ({_said(error)})", place=place) from error
    files = [each for each in found if each.type == fs.FileType.File]
    return [FileFacts(f"{prefix}{each.path}", each.size, each.mtime_ns or 0) for each in files]


def _is_data(name: str) -> bool:
    # Spark's _SUCCESS, hidden files, half-copied ones
    return not name.startswith((".", "_")) and not name.endswith(PARTIAL_SUFFIX)


def _remote(place: str) -> tuple[Any, str]:
    if "@" in urlsplit(place).netloc:
        shown = urlsplit(place)._replace(netloc="…").geturl()
        raise InvalidInput("credentials do not belong into a path; set them in the environment", place=shown)
    try:
        system, path = _pyarrow_fs().FileSystem.from_uri(place)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be reached ({_said(error)})", place=place) from error
    return system, path


def _pyarrow_fs() -> Any:
    try:
        import pyarrow.fs  # noqa: PLC0415
    except ImportError:
        raise InvalidInput("a URI needs pyarrow; install it with: pip install 'plumbline-rag[pyarrow]'") from None
    return pyarrow.fs


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0]


class _RemoteFile:
    """`DataFile` that pyarrow opens."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.name = place.rpartition("/")[2]

    def open(self, mode: Literal["rb"], /) -> io.BufferedReader:
        system, path = _remote(self._place)
        return io.BufferedReader(system.open_input_file(path))


class LocalFolder:
    """Folder of atomic files on this machine: one that is there is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> set[str]:
        found = list(self._path.iterdir()) if self._path.is_dir() else []
        return {each.name for each in found if not each.name.endswith(PARTIAL_SUFFIX)}

    def has(self, name: str) -> bool:
        return (self._path / name).is_file()

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        with atomic_write(self._path / name) as file:
            file.write(data)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def folder(self, name: str) -> "LocalFolder":
        return LocalFolder(self._path / name)


class RemoteFolder:
    """Folder on a file system of pyarrow; uploads to an object store are atomic, elsewhere a rename is."""

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path.rstrip("/")

    def names(self) -> set[str]:
        selector = _pyarrow_fs().FileSelector(self._path, allow_not_found=True)
        return {each.base_name for each in self._system.get_file_info(selector) if each.base_name}

    def has(self, name: str) -> bool:
        info = self._system.get_file_info(f"{self._path}/{name}")
        return bool(info.type == _pyarrow_fs().FileType.File)

    def read(self, name: str) -> bytes | None:
        try:
            with self._system.open_input_stream(f"{self._path}/{name}") as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        self._system.create_dir(self._path, recursive=True)
        if self._system.type_name in _OBJECT_STORES:
            self._put(f"{self._path}/{name}", data)
            return
        partial = f"{self._path}/.{name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}"
        self._put(partial, data)
        self._system.move(partial, f"{self._path}/{name}")

    def remove(self, name: str) -> None:
        if self.has(name):
            self._system.delete_file(f"{self._path}/{name}")

    def folder(self, name: str) -> "RemoteFolder":
        return RemoteFolder(self._system, f"{self._path}/{name}")

    def _put(self, path: str, data: bytes) -> None:
        with self._system.open_output_stream(path) as stream:
            stream.write(data)
