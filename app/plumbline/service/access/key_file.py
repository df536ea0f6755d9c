"""The file of keys: what is kept of each, read whole, written whole under a lock, mode 0600."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from plumbline.ground.errors import ConfigurationError
from plumbline.service.access.key import Limits, Scope

FILE_NAME: Final = "keys.json"
# Each request compares with all of them.
MAX_KEYS: Final = 1_000
_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_HEX_DIGITS: Final = r"^[0-9a-f]{64}$"
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)

KeyName = Annotated[str, StringConstraints(pattern=_NAME_PATTERN)]


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StoredSecret(_Kept):
    """One secret of a key. `until`: of no use from then on; None: as long as its key."""

    digest: str = Field(pattern=_HEX_DIGITS)
    until: AwareDatetime | None = None


class StoredLimits(_Kept):
    """As `Limits`."""

    requests_per_minute: int | None = Field(default=None, ge=0)
    concurrency: int | None = Field(default=None, ge=0)
    tokens_per_day: int | None = Field(default=None, ge=0)
    cost_per_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def as_limits(self) -> Limits:
        """The same, inside."""
        return Limits(self.requests_per_minute, self.concurrency, self.tokens_per_day, self.cost_per_day)


class StoredKey(_Kept):
    """One key. One that is revoked stays, without secrets: its tenant's jobs are still somebody's."""

    name: KeyName
    tenant: str = Field(min_length=1, max_length=128)
    secrets: tuple[StoredSecret, ...] = ()
    scopes: frozenset[Scope] = frozenset({Scope.EVALUATE, Scope.JOBS})
    limits: StoredLimits = StoredLimits()
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None

    def opens_at(self, now: datetime) -> bool:
        """Whether any of its secrets is of use."""
        lives = self.revoked is None and (self.expires is None or now < self.expires)
        return lives and any(each.until is None or now < each.until for each in self.secrets)


class KeyFile(_Kept):
    """All keys, in order of creation, each name once."""

    version: int = Field(default=1, ge=1, le=1)
    keys: tuple[StoredKey, ...] = Field(default=(), max_length=MAX_KEYS)

    def named(self, name: str) -> StoredKey | None:
        """The key of this name."""
        return next((key for key in self.keys if key.name == name), None)

    def with_key(self, key: StoredKey) -> "KeyFile":
        """The file with this key, in place of the one of its name."""
        others = [each for each in self.keys if each.name != key.name]
        place = next((at for at, each in enumerate(self.keys) if each.name == key.name), len(others))
        return KeyFile(keys=(*others[:place], key, *others[place:]))


class Stamp(NamedTuple):
    """What changes when the file does: each write makes a new file, and with it another inode."""

    changed_ns: int
    size: int
    inode: int


def stamp_of(path: Path) -> Stamp | None:
    """The file's stamp; None when there is no file."""
    try:
        found = path.stat()
    except _ABSENT:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    return Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def read_keys(path: Path) -> KeyFile:
    """The keys; none when there is no file.

    Raises:
        ConfigurationError: it cannot be read, or is no such file; nothing of what it holds is repeated.
    """
    try:
        data = path.read_bytes()
    except _ABSENT:
        return KeyFile()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        kept = KeyFile.model_validate_json(data)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise ConfigurationError(f"{path}: is no file of keys{f' (at {place})' if place else ''}") from None
    if len({key.name for key in kept.keys}) < len(kept.keys):
        raise ConfigurationError(f"{path}: two keys have one name")
    return kept


def write_keys(path: Path, keys: KeyFile) -> None:
    """Puts a new file in place of the old one: whoever reads finds one or the other, whole. Only within `locked`."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(keys.model_dump_json(indent=1).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other writers out; makes the folder, mode 0700, where it is missing.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    import fcntl  # noqa: PLC0415 - not on every system

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file beside it: the file of keys is another one after each write.
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{path}: cannot be read: {error.strerror}")
