"""What is done to keys by whoever runs the service: made, revoked, given another secret."""

import secrets
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from plumbline.ground.errors import InvalidInput
from plumbline.service.access.key import Scope, digest_of, new_secret
from plumbline.service.access.key_file import (
    MAX_KEYS,
    KeyFile,
    KeyName,
    StoredKey,
    StoredLimits,
    StoredSecret,
    locked,
    read_keys,
)
from plumbline.service.access.key_file import write_keys as _write
from plumbline.service.access.keyring import CONFIGURED_PREFIX

_NAME: Final = TypeAdapter(KeyName)


def create_key(
    path: Path,
    name: str,
    *,
    scopes: Collection[Scope],
    limits: StoredLimits,
    expires_days: float | None = None,
    now: datetime | None = None,
) -> str:
    """The secret of a new key with a tenant of its own; it is kept nowhere.

    Raises:
        InvalidInput: the name cannot be one, or a key has it; or there are too many keys.
        ConfigurationError: the file cannot be read or written.
    """
    _check_name(name)
    now = now or datetime.now(UTC)
    secret = new_secret()
    expires = None if expires_days is None else now + timedelta(days=expires_days)
    with locked(path):
        keys = read_keys(path)
        _check_free(keys, name)
        key = StoredKey(
            name=name,
            # Drawn, and not made of the secret: what opens is in no job, log or cache.
            tenant=f"tenant-{secrets.token_hex(16)}",
            secrets=(_stored(secret),),
            scopes=frozenset(scopes),
            limits=limits,
            created=now,
            expires=expires,
        )
        _write(path, keys.with_key(key))
    return secret


def adopt_key(path: Path, name: str, configured: str, *, now: datetime | None = None) -> None:
    """Writes a key of PLUMBLINE_API_KEYS into the file: the same secret, the same tenant, and from now on revocable.

    Raises:
        InvalidInput, ConfigurationError: as of `create_key`.
    """
    _check_name(name)
    digest = digest_of(configured.encode()).hex()
    with locked(path):
        keys = read_keys(path)
        _check_free(keys, name)
        if any(each.tenant == digest for each in keys.keys):
            raise InvalidInput("this key of PLUMBLINE_API_KEYS is in the file already")
        key = StoredKey(
            name=name,
            tenant=digest,
            secrets=(StoredSecret(digest=digest),),
            scopes=frozenset(Scope),
            created=now or datetime.now(UTC),
        )
        _write(path, keys.with_key(key))


def rotate_key(path: Path, name: str, *, keep_old_hours: float = 0.0, now: datetime | None = None) -> str:
    """Another secret for the same tenant; the old ones are good for so many hours more. Brings back a revoked key.

    Raises:
        InvalidInput: there is no such key, or it has expired.
        ConfigurationError: the file cannot be read or written.
    """
    now = now or datetime.now(UTC)
    secret = new_secret()
    with locked(path):
        keys = read_keys(path)
        key = _found(keys, name)
        if key.expires is not None and key.expires <= now:
            raise InvalidInput(f"the key {name!r} has expired; create another")
        kept = _kept(key.secrets, now, now + timedelta(hours=keep_old_hours)) if keep_old_hours else ()
        rotated = key.model_copy(update={"secrets": (_stored(secret), *kept), "revoked": None})
        _write(path, keys.with_key(rotated))
    return secret


def revoke_key(path: Path, name: str, *, now: datetime | None = None) -> None:
    """The key opens nothing any more; a running service sees it within a second or two.

    Raises:
        InvalidInput: there is no such key.
        ConfigurationError: the file cannot be read or written.
    """
    with locked(path):
        keys = read_keys(path)
        key = _found(keys, name)
        revoked = key.revoked or now or datetime.now(UTC)
        _write(path, keys.with_key(key.model_copy(update={"secrets": (), "revoked": revoked})))


def _kept(old: tuple[StoredSecret, ...], now: datetime, until: datetime) -> tuple[StoredSecret, ...]:
    """Old secrets that are still good, until then at the latest."""
    good = [each for each in old if each.until is None or each.until > now]
    return tuple(each.model_copy(update={"until": min(each.until or until, until)}) for each in good)


def _stored(secret: str) -> StoredSecret:
    return StoredSecret(digest=digest_of(secret.encode()).hex())


def _check_name(name: str) -> None:
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise InvalidInput(
            f"{name[:64]!r} cannot name a key; expected up to 64 letters, digits and ._-, the first a letter or digit"
        ) from None
    if name.startswith(CONFIGURED_PREFIX):
        raise InvalidInput(f"names that begin with {CONFIGURED_PREFIX!r} are those of PLUMBLINE_API_KEYS")


def _check_free(keys: KeyFile, name: str) -> None:
    taken = keys.named(name)
    if taken is not None:
        how = "was revoked" if taken.revoked else "is there"
        raise InvalidInput(f"a key {name!r} {how}; 'plumbline keys rotate {name}' gives it another secret")
    if len(keys.keys) >= MAX_KEYS:
        raise InvalidInput(f"there are {MAX_KEYS} keys, the most that one file holds")


def _found(keys: KeyFile, name: str) -> StoredKey:
    key = keys.named(name)
    if key is None:
        raise InvalidInput(f"there is no key {name[:64]!r}; 'plumbline keys list' names those there are")
    return key
