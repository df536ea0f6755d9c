"""Valid keys: those of the settings and those of the key file, which is read again when it changes."""

import hmac
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from plumbline.ground.errors import ConfigurationError, KeyExpired, KeyUnknown
from plumbline.ground.files import FileStamp, file_stamp
from plumbline.service.access.keys import (
    ALL_SCOPES,
    CONFIGURED_PREFIX,
    NO_LIMITS,
    AccessKey,
    KeyFile,
    Limits,
    digest_of,
    read_keys,
    unreadable,
)

# Looking at the file takes some microseconds; a revoked key is valid for so long at most.
_LOOK_SECONDS: Final = 1.0

_LOG = structlog.get_logger()


class _Entry(NamedTuple):
    digest: bytes
    key: AccessKey
    until: datetime | None


class Keyring:
    """Keys by their secrets, and limits by their tenants.

    If the file becomes unreadable, the keys stay as they were and that is logged: a typo must neither let everybody in
    nor lock everybody out. If it is removed, its keys are gone, and a key is still needed.

    Args:
        configured: secrets of the settings, valid for every scope; the tenant of each is its digest.
        path: of the key file, which need not exist.
        defaults: limits of keys without limits of their own, and of callers without a key.

    Raises:
        ConfigurationError: the file cannot be read.
    """

    def __init__(
        self,
        configured: Sequence[str],
        path: Path,
        *,
        defaults: Limits = NO_LIMITS,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._configured = configured
        self._path = path
        self._defaults = defaults
        self._monotonic = monotonic
        self._now = now
        self.anonymous = AccessKey("anonymous", "", limits=defaults.over(NO_LIMITS))
        self._had_keys = bool(configured)
        self._complaint = ""
        self._entries: list[_Entry] = []
        self._limits_by_tenant: dict[str, Limits] = {}
        self._revoked_tenants: frozenset[str] = frozenset()
        self._stamp = self._stamp_now()
        self._looked = monotonic()
        self._take(read_keys(path))

    @property
    def is_needed(self) -> bool:
        """Return True if callers need a key: there is one, or there was; revoking the last one opens nothing."""
        self._look()
        return self._had_keys

    def has_open_key(self) -> bool:
        """Return True if any key is valid now."""
        self._look()
        return any(self._is_open(entry) for entry in self._entries)

    def key_of(self, secrets: Sequence[bytes]) -> AccessKey:
        """Return the key of the first valid secret; raise KeyUnknown, or KeyExpired if one was valid."""
        self._look()
        # Digests have one length, and none is skipped: the time taken reveals nothing.
        digests = [digest_of(secret) for secret in secrets]
        found = [entry for sent in digests for entry in self._entries if hmac.compare_digest(sent, entry.digest)]
        if not found:
            raise KeyUnknown("the key that was sent is not one of those configured")
        for entry in found:
            if self._is_open(entry):
                return entry.key
        raise KeyExpired("the key that was sent has expired; ask for another")

    def limits_of(self, tenant: str) -> Limits:
        """Return the limits of the tenant's key; the defaults if it is unknown."""
        self._look()
        return self._limits_by_tenant.get(tenant, self.anonymous.limits)

    def is_revoked(self, tenant: str) -> bool:
        """Return True if the tenant's key was revoked."""
        self._look()
        return tenant in self._revoked_tenants

    def _is_open(self, entry: _Entry) -> bool:
        return entry.until is None or self._now() < entry.until

    def _look(self) -> None:
        if self._monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = self._monotonic()
        stamp = self._stamp
        try:
            # The stamp first: a change in between is read again.
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._take(read_keys(self._path))
                _LOG.info("keys_read", keys=len(self._entries))
            self._complaint = ""
        except ConfigurationError as error:
            if str(error) != self._complaint:
                _LOG.error("keys_unreadable", detail=str(error))
            self._complaint = str(error)
        self._stamp = stamp

    def _stamp_now(self) -> FileStamp | None:
        try:
            return file_stamp(self._path)
        except OSError as error:
            raise unreadable(self._path, error) from error

    def _take(self, file: KeyFile) -> None:
        limits: dict[str, Limits] = {}
        entries: list[_Entry] = []
        for stored in file.keys:
            limits[stored.tenant] = stored.limits.over(self._defaults)
            key = AccessKey(stored.name, stored.tenant, stored.scopes, limits[stored.tenant])
            for secret in stored.secrets:
                ends = [end for end in (stored.expires, secret.until) if end is not None]
                entries.append(_Entry(bytes.fromhex(secret.digest), key, min(ends, default=None)))
        # The file decides about a key of the settings that it has adopted, revoked ones included.
        for number, configured in enumerate(self._configured, start=1):
            digest = digest_of(configured.encode())
            if digest.hex() not in limits:
                name = f"{CONFIGURED_PREFIX}{number}"
                key = AccessKey(name, digest.hex(), ALL_SCOPES, self._defaults.over(NO_LIMITS))
                entries.append(_Entry(digest, key, None))
        self._entries = entries
        self._limits_by_tenant = limits
        self._revoked_tenants = frozenset(key.tenant for key in file.keys if key.revoked is not None)
        self._had_keys = self._had_keys or bool(file.keys)
