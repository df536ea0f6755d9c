"""Owners of leases: processes, each known to be alive by a lock that ends with it; and uploads named after them."""

import hashlib
import os
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import text

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.files import try_lock
from plumbline.ground.store.database import Rest, Transaction
from plumbline.ground.store.postgres import PostgresSchema, abort
from plumbline.ground.texts import CodedText

if TYPE_CHECKING:
    import psycopg

# "PLOW": class of the advisory locks of owners; the next one is that of the process that rescues.
_OWNER_LOCK: Final = 0x504C4F57
# An owner whose connection is gone may be reconnecting, and renews its leases meanwhile.
GRACE_SECONDS: Final = 2.5
_SESSION_SECONDS: Final = 3.0
_LIVING: Final = text(
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = :lock AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_MAY_RESCUE: Final = text("SELECT pg_try_advisory_xact_lock(:lock, hashtext(:schema))")


class Owners(ABC):
    """This process as an owner, and a look at the others. `grace_seconds`: how long a silent owner may be alive."""

    grace_seconds = 0.0

    @abstractmethod
    def name(self) -> str:
        """Return the name under which this process leases chunks. Raises OSError."""

    def hold(self, *, is_checked: bool = False) -> None:  # noqa: B027
        """Take the lock of this process unless it is held (`is_checked`: test that); raise StoreUnavailable."""

    def may_rescue(self, sql: Transaction) -> bool:
        """Return True if this process is the one that looks after dead owners now."""
        return True

    @abstractmethod
    def dead(self, sql: Transaction, names: Iterable[str]) -> set[str]:
        """Return those owners that have ended."""

    def forget(self, name: str) -> None:  # noqa: B027
        """Remove what a dead owner left behind."""

    @abstractmethod
    def close(self) -> None: ...


class FileOwners(Owners):
    """Processes that share a folder on one machine; each holds a file lock that ends with it, killed or not.

    Created lazily: a folder that cannot be written raises OSError from `name`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name: str | None = None
        self._lock: int | None = None

    def name(self) -> str:
        """Return the name of this process, alive from the first call to `close`."""
        if self._name is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{os.getpid()}-{secrets.token_hex(8)}"
            # Locked before it is renamed: no process may take it for dead in between.
            unnamed = self._folder / f".{name}"
            # (Windows renames no open file: there the moment in between remains.)
            path = unnamed if os.name == "posix" else self._folder / name
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try_lock(self._lock)
            path.rename(self._folder / name)
            self._name = name
        return self._name

    def is_alive(self, name: str) -> bool:
        if name == self._name:
            return True
        try:
            descriptor = os.open(self._folder / name, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(descriptor)
        finally:
            os.close(descriptor)

    def dead(self, sql: Transaction, names: Iterable[str]) -> set[str]:
        return {name for name in names if not self.is_alive(name)}

    def forget(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        if self._name is not None and self._lock is not None:
            self.forget(self._name)
            os.close(self._lock)
            self._name = self._lock = None


class SessionOwners(Owners):
    """Processes of several machines; each holds an advisory lock on a connection of its own, which ends with it."""

    def __init__(self, schema: PostgresSchema, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self.grace_seconds = grace_seconds
        self._schema = schema
        self._number = secrets.randbelow(1 << 31)
        self._connection: psycopg.Connection[Any] | None = None
        # When the lock was taken, in monotonic seconds.
        self._since = 0.0
        self._lock = threading.Lock()
        self._rest = Rest()

    def name(self) -> str:
        return str(self._number)

    def hold(self, *, is_checked: bool = False) -> None:
        import psycopg  # noqa: PLC0415

        with self._lock:
            try:
                if self._connection is not None and is_checked:
                    _execute_within_limit(self._connection, "SELECT 1")
            except psycopg.Error:
                self._disconnect()
            if self._connection is None:
                # Callers queue for the lock: each would wait for a silent server anew.
                if not self._rest.may_try():
                    raise StoreUnavailable(CodedText("database_silent"))
                try:
                    self._connect()
                except psycopg.Error as error:
                    self._rest.fail()
                    raise self._schema.unavailable(error) from error
                self._rest.end()

    def may_rescue(self, sql: Transaction) -> bool:
        return bool(sql.execute(_MAY_RESCUE, {"lock": _OWNER_LOCK + 1, "schema": self._schema.schema}).scalar_one())

    def dead(self, sql: Transaction, names: Iterable[str]) -> set[str]:
        # After a failure of the server owners are about to reconnect, as this process has just done.
        if self._connection is None or time.monotonic() - self._since < self.grace_seconds:
            return set()
        return set(names) - {str(number) for number in sql.execute(_LIVING, {"lock": _OWNER_LOCK}).scalars()}

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _connect(self) -> None:
        connection = self._schema.connect()
        try:
            connection.autocommit = True
            while _execute_within_limit(
                connection, "SELECT pg_try_advisory_lock(%s, %s)", _OWNER_LOCK, self._number
            ) != (True,):
                # The server still has our previous session. Chunks leased under that name stay ours by renewal.
                self._number = secrets.randbelow(1 << 31)
        except BaseException:
            connection.close()
            raise
        self._connection, self._since = connection, time.monotonic()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _execute_within_limit(connection: "psycopg.Connection[Any]", query: str, *values: object) -> Any:
    """Return the first row, or close the connection if the server does not answer: then an error is raised."""
    timer = threading.Timer(_SESSION_SECONDS, abort, [connection])
    timer.start()
    try:
        return connection.execute(query.encode(), values).fetchone()
    finally:
        timer.cancel()


# Of an upload whose sender chooses its columns.
_KEPT_SECONDS: Final = 3_600.0
_UPLOAD_NAME: Final = re.compile(r"[0-9]+-[0-9a-f]{16}\.[0-9a-f]{16}")


class Uploads:
    """Uploads in a folder; every method may raise OSError."""

    def __init__(self, folder: Path, owners: FileOwners) -> None:
        self._folder = folder
        self._owners = owners

    def new(self) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f"{self._owners.name()}.{secrets.token_hex(8)}"

    def keep(self, path: Path, tenant: str) -> str:
        """Rename an upload so that `find` returns it for this tenant alone; return its name for that."""
        path.rename(path.with_name(f"{path.name}.{_tenant_mark(tenant)}"))
        return path.name

    def find(self, name: str, tenant: str) -> Path | None:
        path = self._folder / f"{name}.{_tenant_mark(tenant)}"
        return path if _UPLOAD_NAME.fullmatch(name) and path.is_file() else None

    def remove_orphans(self) -> None:
        """Remove the uploads of dead processes, and kept ones after an hour."""
        for upload in self._folder.iterdir() if self._folder.exists() else ():
            owner, *rest = upload.name.split(".")
            with suppress(FileNotFoundError):
                is_old = len(rest) > 1 and time.time() - upload.stat().st_mtime > _KEPT_SECONDS
                if is_old or not self._owners.is_alive(owner):
                    upload.unlink(missing_ok=True)


def _tenant_mark(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()[:16]
