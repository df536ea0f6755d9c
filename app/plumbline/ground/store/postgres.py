"""PostgreSQL as the database of the store: a schema of our own, for several machines; errors without a password."""

import importlib.util
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from plumbline.ground.errors import ConfigurationError, StoreUnavailable
from plumbline.ground.store.backend import Backend
from plumbline.ground.texts import CodedText

if TYPE_CHECKING:
    import psycopg

SCHEMA: Final = "plumbline"
# "PLJB": class of the advisory locks of those who create or migrate the tables.
_TABLES_LOCK: Final = 0x504C4A42
# A machine that is gone without a word is noticed after some 15 seconds, by the system if not by us.
_PATIENCE: Final = {
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
# The server's limit; `Database` has one on the whole call.
_STATEMENT_MILLISECONDS: Final = 10_000
# A process that is stopped in a transaction holds its locks for so long.
_IDLE_MILLISECONDS: Final = 30_000


class PostgresSchema(Backend):
    """`Backend` on a schema of PostgreSQL; raises ConfigurationError for a wrong URL or without the extra."""

    dialect = "postgresql+psycopg://"
    writers = 4
    readers = 2
    is_server = True

    def __init__(self, url: str, *, schema: str = SCHEMA) -> None:
        self.conninfo = connection_string(url, schema=schema)
        self.schema = schema

    def connect(self) -> "psycopg.Connection[Any]":
        import psycopg  # noqa: PLC0415

        return psycopg.connect(self.conninfo)

    def begin_write(self, connection: Connection, *, is_durable: bool) -> float:
        return self._now(connection)

    def begin_read(self, connection: Connection) -> float:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        return self._now(connection)

    def _now(self, connection: Connection) -> float:
        # Also finds out whether a kept connection still works, before anything is asked of it.
        query = "SELECT extract(epoch FROM now())::double precision"
        return float(connection.exec_driver_sql(query).scalar_one())

    def tables(self, connection: Connection) -> set[str]:
        names = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace(quote_ident(%s))"
        return set(connection.exec_driver_sql(names, (self.schema,)).scalars())

    def lock_tables(self, connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        lock = "SELECT pg_advisory_xact_lock(%s, hashtext(%s))"
        connection.exec_driver_sql(lock, (_TABLES_LOCK, self.schema))
        quoted = connection.dialect.identifier_preparer.quote(self.schema)
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {quoted}")

    def abort(self, raw: "psycopg.Connection[Any]") -> None:
        abort(raw)

    def is_conflict(self, error: DBAPIError) -> bool:
        """Return True for a deadlock, or for a row that another transaction inserted meanwhile."""
        from psycopg import errors  # noqa: PLC0415

        return isinstance(error.orig, errors.DeadlockDetected | errors.SerializationFailure | errors.UniqueViolation)

    def unavailable(self, error: Exception) -> StoreUnavailable:
        return unavailable(error.orig if isinstance(error, DBAPIError) else error)


def connection_string(url: str, *, schema: str = SCHEMA) -> str:
    """Return the connection string: the URL with our schema, timeouts and keepalives."""
    if importlib.util.find_spec("psycopg") is None:
        raise ConfigurationError(
            "PLUMBLINE_DATABASE_URL needs psycopg; install it with pip install 'plumbline-rag[postgres]'"
        )
    import psycopg  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415

    try:
        given: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # What libpq says of it quotes the URL, password and all.
        raise ConfigurationError(
            "PLUMBLINE_DATABASE_URL: not an address of a database; expected postgresql://user:password@host:5432/name"
        ) from None
    ours = {
        "search_path": schema,
        "statement_timeout": _STATEMENT_MILLISECONDS,
        "idle_in_transaction_session_timeout": _IDLE_MILLISECONDS,
    }
    # The caller's options come last, and so decide.
    options = " ".join([*(f"-c {name}={value}" for name, value in ours.items()), given.pop("options", "")]).strip()
    return make_conninfo(**{"application_name": "plumbline", **_PATIENCE, **given, "options": options})


def probe(url: str) -> None:
    """Connect once, blocking; raise ConfigurationError, with the address and no password, if that fails."""
    conninfo = connection_string(url)
    import psycopg  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        psycopg.connect(conninfo).close()
    except psycopg.Error as error:
        given = conninfo_to_dict(conninfo)
        place = f"{given.get('host', 'the local socket')} port {given.get('port', 5432)}"
        words = str(error).strip().splitlines()[0].rpartition(" failed: ")[2]
        if secret := str(given.get("password") or ""):
            words = words.replace(secret, "***")
        raise ConfigurationError(f"PLUMBLINE_DATABASE_URL: cannot reach the database at {place}: {words}") from None


def abort(connection: "psycopg.Connection[Any]") -> None:
    """End what a connection waits for, from another thread: a server that is stopped never closes it."""
    with suppress(OSError, ValueError, Exception):
        descriptor = os.dup(connection.fileno())
        with socket.socket(fileno=descriptor) as ours:
            ours.shutdown(socket.SHUT_RDWR)


def unavailable(error: BaseException | None) -> StoreUnavailable:
    """Log a failure of the database and return its error with the remedy."""
    from psycopg import errors  # noqa: PLC0415

    structlog.get_logger().warning("database_failed", reason=reason_of(error))
    if isinstance(error, errors.DiskFull):
        return StoreUnavailable(CodedText("database_full"))
    if isinstance(error, errors.ReadOnlySqlTransaction | errors.InsufficientPrivilege):
        return StoreUnavailable(CodedText("database_read_only"))
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreUnavailable(CodedText("database_lacks_column"))
    return StoreUnavailable(CodedText("database_unavailable"))


def reason_of(error: BaseException | None) -> str:
    """Return the error's class and SQLSTATE, never the server's words, which may quote values."""
    state = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} {state}" if state else type(error).__name__
