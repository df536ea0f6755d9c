"""API keys and their file: read whole, replaced atomically under a lock, mode 0600; of a secret only its digest."""

import hashlib
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from plumbline.ground.errors import ConfigurationError, InvalidInput
from plumbline.ground.files import atomic_write
from plumbline.ground.files import locked as file_locked

KEYS_FILE_NAME: Final = "keys.json"
# Names of the keys of PLUMBLINE_API_KEYS, by their position.
CONFIGURED_PREFIX: Final = "configured-"
# Secret scanners and people recognize a key by it.
SECRET_PREFIX: Final = "plumbline_"  # noqa: S105
# Each request is compared with all of them.
MAX_KEYS: Final = 1_000
_SECRET_BYTES: Final = 32
# Limits that version 0.2 had and wrote into its files.
_REMOVED_LIMITS: Final = ("requests_per_minute", "tokens_per_day", "cost_per_day")
LIMITS_ADVICE: Final = (
    "rates and budgets of a key are gone; a gateway in front limits them, the options max_cost bound samples and jobs"
)

KeyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_NAME: Final = TypeAdapter(KeyName)


class Scope(StrEnum):
    EVALUATE = "evaluate"
    JOBS = "jobs"
    ADMIN = "admin"


ALL_SCOPES: Final = frozenset(Scope)


class StoredLimits(BaseModel, extra="forbid", frozen=True):
    """Limits of a key as its file has them; those of version 0.2 limit nothing and are not written again.

    `concurrency`: requests in flight. None: the default of the settings; 0: no limit.
    """

    concurrency: int | None = Field(default=None, ge=0)
    requests_per_minute: float | None = Field(default=None, exclude=True)
    tokens_per_day: float | None = Field(default=None, exclude=True)
    cost_per_day: float | None = Field(default=None, exclude=True)


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One caller; its tenant owns jobs, results and verdicts. `concurrency` bounds its requests; None: no bound."""

    name: str
    tenant: str
    scopes: frozenset[Scope] = ALL_SCOPES
    concurrency: int | None = None


class StoredSecret(BaseModel, extra="forbid", frozen=True):
    """One secret of a key, valid until `until`; None: as long as its key."""

    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    until: AwareDatetime | None = None


class StoredKey(BaseModel, extra="forbid", frozen=True):
    """One key. A revoked one stays, without secrets: its tenant still owns jobs."""

    name: KeyName
    tenant: str = Field(min_length=1, max_length=128)
    secrets: tuple[StoredSecret, ...] = ()
    scopes: frozenset[Scope] = frozenset({Scope.EVALUATE, Scope.JOBS})
    limits: StoredLimits = StoredLimits()
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None

    def opens_at(self, now: datetime) -> bool:
        is_valid = self.revoked is None and (self.expires is None or now < self.expires)
        return is_valid and any(each.until is None or now < each.until for each in self.secrets)


class KeyFile(BaseModel, extra="forbid", frozen=True):
    version: int = Field(default=1, ge=1, le=1)
    keys: tuple[StoredKey, ...] = Field(default=(), max_length=MAX_KEYS)

    def find(self, name: str) -> StoredKey | None:
        return next((key for key in self.keys if key.name == name), None)

    def ignored_limits(self) -> list[str]:
        return sorted(name for name in _REMOVED_LIMITS if any(getattr(key.limits, name) for key in self.keys))

    def with_key(self, key: StoredKey) -> "KeyFile":
        others = [each for each in self.keys if each.name != key.name]
        place = next((at for at, each in enumerate(self.keys) if each.name == key.name), len(others))
        return KeyFile(keys=(*others[:place], key, *others[place:]))


def digest_of(secret: bytes) -> bytes:
    """Return the SHA-256 of a secret, which is stored in its place.

    A slow hash guards passwords, which can be guessed. 256 random bits cannot, however fast the hash, and each
    request pays for it.
    """
    return hashlib.sha256(secret).digest()


def read_keys(path: Path) -> KeyFile:
    """Return the keys, none without a file; raise ConfigurationError, which repeats nothing of its content."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return KeyFile()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        stored = KeyFile.model_validate_json(data)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise ConfigurationError(f"{path}: is no file of keys{f' (at {place})' if place else ''}") from None
    if len({key.name for key in stored.keys}) < len(stored.keys):
        raise ConfigurationError(f"{path}: two keys have one name")
    return stored


def unreadable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{path}: cannot be read: {error.strerror}")


def write_keys(path: Path, keys: KeyFile) -> None:
    """Replace the key file atomically; call it with the lock that changes of keys take."""
    try:
        with atomic_write(path, mode=0o600) as file:
            file.write(keys.model_dump_json(indent=1).encode() + b"\n")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error


def create_key(
    path: Path,
    name: str,
    *,
    scopes: Collection[Scope],
    concurrency: int | None = None,
    expires_days: float | None = None,
    now: datetime | None = None,
) -> str:
    """Create a key with a tenant of its own and return its secret, which is not stored.

    Raises (as do the functions below):
        InvalidInput: the name is invalid, taken or unknown, or there are too many keys.
        ConfigurationError: the file cannot be read or written.
    """
    now = now or datetime.now(UTC)
    secret = _new_secret()
    key = StoredKey.model_construct(
        name=name,
        # Random, not derived from the secret: nothing that opens is in a job, log or cache.
        tenant=f"tenant-{secrets.token_hex(16)}",
        secrets=(_digest_secret(secret),),
        scopes=frozenset(scopes),
        limits=StoredLimits(concurrency=concurrency),
        created=now,
        expires=None if expires_days is None else now + timedelta(days=expires_days),
    )
    _add(path, key)
    return secret


def rotate_key(path: Path, name: str, *, keep_old_hours: float = 0.0, now: datetime | None = None) -> str:
    """Replace the secret of a key and return the new one; old ones stay valid for the hours given. Un-revokes a key."""
    now = now or datetime.now(UTC)
    secret, until = _new_secret(), now + timedelta(hours=keep_old_hours)
    with _lock_file(path):
        keys = read_keys(path)
        key = _find_key(keys, name)
        if key.expires is not None and key.expires <= now:
            raise InvalidInput(f"the key {name!r} has expired; create another")
        valid = [each for each in key.secrets if keep_old_hours and (each.until is None or each.until > now)]
        old = (each.model_copy(update={"until": min(each.until or until, until)}) for each in valid)
        rotated = key.model_copy(update={"secrets": (_digest_secret(secret), *old), "revoked": None})
        write_keys(path, keys.with_key(rotated))
    return secret


def revoke_key(path: Path, name: str, *, now: datetime | None = None) -> None:
    """Revoke a key; a running service sees it within two seconds."""
    with _lock_file(path):
        keys = read_keys(path)
        key = _find_key(keys, name)
        revoked = key.revoked or now or datetime.now(UTC)
        write_keys(path, keys.with_key(key.model_copy(update={"secrets": (), "revoked": revoked})))


def _add(path: Path, key: StoredKey) -> None:
    try:
        _NAME.validate_python(key.name)
    except ValidationError:
        raise InvalidInput(
            f"{key.name[:64]!r} cannot name a key; expected up to 64 letters, digits and ._-, the first a letter or "
            "digit"
        ) from None
    if key.name.startswith(CONFIGURED_PREFIX):
        raise InvalidInput(f"names that begin with {CONFIGURED_PREFIX!r} are those of PLUMBLINE_API_KEYS")
    with _lock_file(path):
        keys = read_keys(path)
        taken = keys.find(key.name)
        if taken is not None:
            state = "was revoked" if taken.revoked else "exists"
            raise InvalidInput(f"the key {key.name!r} {state}; 'plumbline keys rotate {key.name}' replaces its secret")
        if len(keys.keys) >= MAX_KEYS:
            raise InvalidInput(f"there are {MAX_KEYS} keys, the most that one file holds")
        write_keys(path, keys.with_key(key))


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Keep other writers out; make the folder, mode 0700, if it is missing."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.touch(mode=0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from error
    with file_locked(lock, place=str(path)):
        yield


def _new_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def _digest_secret(secret: str) -> StoredSecret:
    return StoredSecret(digest=digest_of(secret.encode()).hex())


def _find_key(keys: KeyFile, name: str) -> StoredKey:
    key = keys.find(name)
    if key is None:
        raise InvalidInput(f"there is no key {name[:64]!r}; 'plumbline keys list' shows them")
    return key
