"""Admit requests: valid keys, request rates, concurrency and daily budgets of callers. Knows no HTTP."""

import hmac
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from plumbline.ground.errors import (
    BudgetSpent,
    ConcurrencyExceeded,
    ConfigurationError,
    KeyExpired,
    KeyUnknown,
    RateExceeded,
    TooBusy,
)
from plumbline.ground.files import FileStamp, file_stamp
from plumbline.ground.rate_limit import WINDOW_SECONDS, ArrivalTimes, RateLimit
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Usage
from plumbline.models.chat.shared_database import SharedDatabase
from plumbline.service.access.keys import (
    ALL_SCOPES,
    CONFIGURED_PREFIX,
    KEYS_FILE_NAME,
    NO_LIMITS,
    AccessKey,
    KeyFile,
    Limits,
    digest_of,
    read_keys,
    unreadable,
)
from plumbline.service.access.spending import SPENDING_FILE_NAME, Spending

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
        path: of the key file, which need not exist; ConfigurationError if it cannot be read.
        defaults: limits of keys without limits of their own, and of callers without a key.
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


# When one of the requests in flight will end is unknown.
_SOON_SECONDS: Final = 1
# What is left of a second after sums of seconds since the machine's start.
_ROUNDING: Final = 1e-6


class Quota(NamedTuple):
    """One limit of a key and what is left of it, as RateLimit fields have them.

    `unit` is empty for requests; `window_seconds` None without a window; `next_seconds`: until there is one more.
    """

    policy: str
    quota: int
    remaining: int
    unit: str = ""
    window_seconds: int | None = None
    next_seconds: int | None = None


class RequestGate:
    """Limit requests in flight, of all keys and of each, and each key's requests a minute.

    `under_way`: requests in flight; `refused`: count of refused ones by `rate`, `concurrency` and `capacity`.

    Args:
        processes: the bounds of a key on requests in flight are divided by it, rounded up.
        arrivals: of request rates, for other processes too.
    """

    def __init__(
        self,
        *,
        max_requests: int,
        processes: int = 1,
        arrivals: ArrivalTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.under_way = 0
        self.refused: Counter[str] = Counter()
        self._max_requests = max_requests
        self._processes = processes
        self._arrivals = arrivals or ArrivalTimes()
        self._clock = clock
        self._in_flight: Counter[str] = Counter()

    def enter(self, key: AccessKey, quotas: list[Quota]) -> None:
        """Admit a request, until `leave`. The key's quotas are added to `quotas`, those of a refusal too.

        Raises:
            TooBusy: the service has as many requests in flight as it takes.
            RateExceeded, ConcurrencyExceeded: the key has reached a limit of its own.
        """
        if self.under_way >= self._max_requests:
            self.refused["capacity"] += 1
            raise TooBusy(f"{self._max_requests} requests are in flight, the most that are served at once")
        self._check_concurrency(key, quotas)
        self._check_rate(key, quotas)
        self._in_flight[key.tenant] += 1
        self.under_way += 1

    def leave(self, key: AccessKey) -> None:
        """Release a request; once for each `enter` that did not raise."""
        self._in_flight[key.tenant] -= 1
        self.under_way -= 1

    def _check_concurrency(self, key: AccessKey, quotas: list[Quota]) -> None:
        if key.limits.concurrency is None:
            return
        limit = math.ceil(key.limits.concurrency / self._processes)
        left = limit - self._in_flight[key.tenant]
        quotas.append(Quota("concurrency", limit, max(0, left - 1), unit="concurrent-requests"))
        if left <= 0:
            self.refused["concurrency"] += 1
            raise ConcurrencyExceeded(
                f"the key has {limit} request{'' if limit == 1 else 's'} in flight, the most that it may have at once",
                retry_after_seconds=_SOON_SECONDS,
            )

    def _check_rate(self, key: AccessKey, quotas: list[Quota]) -> None:
        per_minute = key.limits.requests_per_minute
        if per_minute is None:
            return
        limit, now = RateLimit.refilling(per_minute), self._clock()

        def admit(arrival: float) -> tuple[float | None, tuple[bool, float]]:
            reserved = limit.reserve(arrival, now)
            if reserved.wait_seconds > _ROUNDING:
                return None, (False, limit.seconds_available(arrival, now))
            return reserved.arrival, (True, limit.seconds_available(reserved.arrival, now))

        is_admitted, room = self._arrivals.update(f"key {key.tenant}", admit)
        remaining = int((room + _ROUNDING) / limit.seconds_per_unit)
        wait = (remaining + 1) * limit.seconds_per_unit - room
        seconds = max(1, math.ceil(wait - _ROUNDING))
        quotas.insert(0, Quota("requests", per_minute, remaining, window_seconds=WINDOW_SECONDS, next_seconds=seconds))
        if not is_admitted:
            self.refused["rate"] += 1
            raise RateExceeded(
                f"the key may make {per_minute} request{'' if per_minute == 1 else 's'} a minute; the next one is free "
                f"in {seconds} s",
                retry_after_seconds=seconds,
            )


class Access:
    """Access control of one process: keys, limits of requests and budgets of spending."""

    def __init__(self, keyring: Keyring, gate: RequestGate, spending: Spending) -> None:
        self.keyring = keyring
        self.gate = gate
        self.spending = spending

    def add_call(self, tenant: str, usage: Usage) -> None:
        """Count a call to a chat model; for callers without a key only if they have a budget."""
        limits = self.keyring.limits_of(tenant)
        if tenant or limits.tokens_per_day is not None or limits.cost_per_day is not None:
            self.spending.add(tenant, usage)

    def check_budget(self, tenant: str) -> None:
        """Raise BudgetSpent if the tenant may not spend more today."""
        self.spending.check(tenant, self.keyring.limits_of(tenant))

    def pause_reason(self, tenant: str) -> str | None:
        """Return why no row of the tenant's jobs may be scored now; None if one may."""
        if self.keyring.is_revoked(tenant):
            return "the key of this job was revoked"
        try:
            self.check_budget(tenant)
        except BudgetSpent as spent:
            return f"{spent}; resume the job then"
        return None


def build_access(settings: Settings, *, processes: int = 1, arrivals: ArrivalTimes | None = None) -> Access:
    """Return the access control that the settings describe, of one of the `processes` that share `arrivals`.

    Raises ConfigurationError if the key file cannot be read.
    """
    keyring = Keyring(
        [key.get_secret_value() for key in settings.api_keys],
        key_path(settings),
        defaults=Limits(
            requests_per_minute=settings.key_requests_per_minute,
            concurrency=settings.key_concurrency,
            tokens_per_day=settings.key_tokens_per_day,
            cost_per_day=settings.key_cost_per_day,
        ),
    )
    gate = RequestGate(max_requests=settings.max_concurrent_requests, processes=processes, arrivals=arrivals)
    return Access(keyring, gate, Spending(spending_path(settings), shared=shared_spending(settings)))


def shared_spending(settings: Settings) -> SharedDatabase | None:
    """Return the database where machines share spending; None for the file of one machine."""
    return None if settings.database_url is None else SharedDatabase(settings.database_url.get_secret_value())


def key_path(settings: Settings) -> Path:
    return settings.keys_file or settings.data_dir / KEYS_FILE_NAME


def spending_path(settings: Settings) -> Path:
    return settings.data_dir / SPENDING_FILE_NAME


@lru_cache
def is_loopback(host: str) -> bool:
    """Return True for `localhost` and loopback addresses, brackets and mapped IPv4 included. Resolves no name."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
