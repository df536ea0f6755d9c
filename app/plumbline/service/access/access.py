"""Admit requests: valid keys, and requests in flight of each caller and of all. Knows no HTTP."""

import hmac
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from plumbline.ground.errors import ConcurrencyExceeded, ConfigurationError, KeyExpired, KeyUnknown, TooBusy
from plumbline.ground.files import FileStamp, file_stamp
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.ground.work_queue import find_lateness
from plumbline.service.access.keys import (
    ALL_SCOPES,
    CONFIGURED_PREFIX,
    KEYS_FILE_NAME,
    LIMITS_ADVICE,
    AccessKey,
    KeyFile,
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
    """Keys by their secrets: those of the settings, valid for every scope, and those of the file, which need not exist.

    If the file becomes unreadable, the keys stay as they were and that is logged: a typo must neither let everybody in
    nor lock everybody out. If it is removed, its keys are gone, and a key is still needed. `default_concurrency`: of
    keys without a limit of their own, and of callers without a key; None: no limit.
    """

    def __init__(
        self,
        configured: Sequence[str],
        path: Path,
        *,
        default_concurrency: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._configured = configured
        self._path = path
        self._default_concurrency = default_concurrency
        self._monotonic = monotonic
        self._now = now
        self.anonymous = AccessKey("anonymous", "", concurrency=default_concurrency)
        self._had_keys = bool(configured)
        self._complaint = ""
        self._entries: list[_Entry] = []
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
        self._look()
        return any(self._is_open(entry) for entry in self._entries)

    def key_of(self, secrets: Sequence[bytes]) -> AccessKey:
        """Return the key of the first valid secret; raise KeyUnknown, or KeyExpired if one was valid."""
        self._look()
        # Digests have one length, and none is skipped: the time taken reveals nothing.
        digests = [digest_of(secret) for secret in secrets]
        found = [entry for sent in digests for entry in self._entries if hmac.compare_digest(sent, entry.digest)]
        if not found:
            raise KeyUnknown(CodedText("key_unknown"))
        for entry in found:
            if self._is_open(entry):
                return entry.key
        raise KeyExpired(CodedText("key_expired"))

    def pause_reason(self, tenant: str) -> str | None:
        """Return why no row of the tenant's jobs may be scored now; None if one may."""
        self._look()
        return CodedText("key_revoked") if tenant in self._revoked_tenants else None

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
        tenants: set[str] = set()
        entries: list[_Entry] = []
        for stored in file.keys:
            tenants.add(stored.tenant)
            own = stored.limits.concurrency
            concurrency = self._default_concurrency if own is None else own or None
            key = AccessKey(stored.name, stored.tenant, stored.scopes, concurrency)
            for secret in stored.secrets:
                ends = [end for end in (stored.expires, secret.until) if end is not None]
                entries.append(_Entry(bytes.fromhex(secret.digest), key, min(ends, default=None)))
        # The file decides about a key of the settings that version 0.2 moved there, revoked ones included.
        for number, configured in enumerate(self._configured, start=1):
            digest = digest_of(configured.encode())
            if digest.hex() not in tenants:
                name = f"{CONFIGURED_PREFIX}{number}"
                key = AccessKey(name, digest.hex(), ALL_SCOPES, self._default_concurrency)
                entries.append(_Entry(digest, key, None))
        self._entries = entries
        self._revoked_tenants = frozenset(key.tenant for key in file.keys if key.revoked is not None)
        self._had_keys = self._had_keys or bool(file.keys)
        ignored = file.ignored_limits()
        if ignored:
            _LOG.warning("key_limits_ignored", limits=ignored, detail=LIMITS_ADVICE)


# Wrong keys of an address in a minute that are answered at once; each further one is answered after the pause.
_FREE_GUESSES: Final = 20
_GUESS_PAUSE_SECONDS: Final = 1.0
_MINUTE: Final = 60.0
# Addresses that are remembered.
_MAX_ADDRESSES: Final = 10_000


class WrongKeys:
    """Count of wrong keys by address, for a pause before the answer to further ones. A right key never waits."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since = monotonic()
        self._counts: Counter[str] = Counter()

    def pause_seconds(self, address: str) -> float:
        """Count a wrong key of this address; return the seconds to wait before its answer."""
        if self._monotonic() - self._since > _MINUTE or len(self._counts) >= _MAX_ADDRESSES:
            self._since = self._monotonic()
            self._counts.clear()
        self._counts[address] += 1
        return _GUESS_PAUSE_SECONDS if self._counts[address] > _FREE_GUESSES else 0.0


# When one of the requests in flight will end is unknown.
_SOON_SECONDS: Final = 1


# One request about jobs may be in flight for so many evaluations.
_JOB_SHARE: Final = 2
# Bytes of the bodies in flight; a body takes about four times as much while it is read.
_MAX_BODY_BYTES: Final = 2**28


class RequestLoad(NamedTuple):
    """Load of a request: bytes of its body, 0 if unknown; `has_deadline`: an evaluation that must be judged in time."""

    body_bytes: int = 0
    is_about_jobs: bool = False
    has_deadline: bool = False


_NO_BODY: Final = RequestLoad()


class RequestGate:
    """Limit requests in flight, of all keys and of each, and the work that their bodies are.

    Requests about jobs are counted apart, since they may wait for a database: none takes the place of an evaluation.

    `under_way`: requests in flight; `body_bytes`: of their bodies; `refused`: count of refused ones by `concurrency`
    and `capacity`.

    Args:
        deadline_seconds: of an evaluation.
        processes: the bounds of a key are divided by it, rounded up.
    """

    def __init__(self, *, max_requests: int, deadline_seconds: float = math.inf, processes: int = 1) -> None:
        self.under_way = 0
        self.body_bytes = 0
        self.refused: Counter[str] = Counter()
        self._max_requests = max_requests
        self._max_job_requests = max(1, max_requests // _JOB_SHARE)
        self._job_requests = 0
        self._processes = processes
        self._in_flight: Counter[str] = Counter()
        self._deadline_seconds = deadline_seconds
        self._evaluated_bytes = 0
        self._bytes_per_second: Callable[[], float] = lambda: math.inf

    def watch_rate(self, bytes_per_second: Callable[[], float]) -> None:
        """Refuse evaluations from now on whose bodies take too long at this rate."""
        self._bytes_per_second = bytes_per_second

    def enter(self, key: AccessKey, load: RequestLoad = _NO_BODY) -> None:
        """Admit a request, until `leave`; raise TooBusy, or ConcurrencyExceeded at the limit of the key."""
        body_bytes, is_about_jobs, has_deadline = load
        evaluations = self.under_way - self._job_requests
        if is_about_jobs and self._job_requests >= self._max_job_requests:
            self.refused["capacity"] += 1
            raise TooBusy(CodedText("job_requests_in_flight", count=self._max_job_requests))
        if not is_about_jobs and evaluations >= self._max_requests:
            self.refused["capacity"] += 1
            raise TooBusy(CodedText("requests_in_flight", count=self._max_requests))
        if self.body_bytes and self.body_bytes + body_bytes > _MAX_BODY_BYTES:
            self.refused["capacity"] += 1
            raise TooBusy(CodedText("bodies_in_flight", count=self.body_bytes), retry_after_seconds=_SOON_SECONDS)
        seconds = (self._evaluated_bytes + body_bytes) / self._bytes_per_second()
        late = find_lateness(seconds, deadline=self._deadline_seconds)
        if late is not None and has_deadline and self._evaluated_bytes:
            self.refused["capacity"] += 1
            raise late
        limit = math.inf if key.concurrency is None else math.ceil(key.concurrency / self._processes)
        if self._in_flight[key.tenant] >= limit:
            self.refused["concurrency"] += 1
            raise ConcurrencyExceeded(
                CodedText("key_requests_in_flight", count=limit), retry_after_seconds=_SOON_SECONDS
            )
        self._in_flight[key.tenant] += 1
        self.under_way += 1
        self.body_bytes += body_bytes
        self._evaluated_bytes += body_bytes * has_deadline
        self._job_requests += is_about_jobs

    def leave(self, key: AccessKey, load: RequestLoad = _NO_BODY) -> None:
        """Release a request, with the arguments of its `enter`; once for each that did not raise."""
        self._in_flight[key.tenant] -= 1
        self.under_way -= 1
        self.body_bytes -= load.body_bytes
        self._evaluated_bytes -= load.body_bytes * load.has_deadline
        self._job_requests -= load.is_about_jobs


class Access(NamedTuple):
    keyring: Keyring
    gate: RequestGate


def build_access(settings: Settings, *, processes: int = 1) -> Access:
    """Return the access control of one of the processes; raise ConfigurationError if the key file cannot be read."""
    keyring = Keyring(
        [key.get_secret_value() for key in settings.api_keys],
        key_path(settings),
        default_concurrency=settings.key_concurrency,
    )
    gate = RequestGate(
        max_requests=settings.max_concurrent_requests, deadline_seconds=settings.deadline_seconds, processes=processes
    )
    return Access(keyring, gate)


def key_path(settings: Settings) -> Path:
    return settings.keys_file or settings.data_dir / KEYS_FILE_NAME
