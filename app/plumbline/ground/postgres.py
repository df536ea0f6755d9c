"""PostgreSQL connections: connection string from the settings, a schema of our own, errors without a password."""

import importlib.util
from typing import TYPE_CHECKING, Any, Final

from plumbline.ground.errors import ConfigurationError

if TYPE_CHECKING:
    from psycopg import Error

SCHEMA: Final = "plumbline"
_NEEDED: Final = ("psycopg", "psycopg_pool")
# A machine that is gone without a word is noticed after some 15 seconds.
_PATIENCE: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def connection_string(url: str, *, schema: str = SCHEMA, is_durable: bool = True) -> str:
    """Return the connection string: the URL with our schema, timeouts and keepalives.

    `is_durable`: what is committed is on disk; without it the last half second may be lost with the server. Raises
    ConfigurationError if the URL cannot be read, or the extra is not installed.
    """
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigurationError(
            f"PLUMBLINE_DATABASE_URL needs {' and '.join(missing)}; "
            "install them with pip install 'plumbline-rag[postgres]'"
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
    commit = "" if is_durable else " -c synchronous_commit=off"
    options = f"{given.pop('options', '')} -c search_path={schema}{commit}".strip()
    return make_conninfo(**{"application_name": "plumbline", **_PATIENCE, **given, "options": options})


def probe(conninfo: str) -> None:
    """Connect once, blocking; raise ConfigurationError, with the address and no password, if that fails."""
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


def reason_of(error: "Error") -> str:
    """Return the error's class and SQLSTATE, never the server's words, which may quote values."""
    return f"{type(error).__name__} {error.sqlstate}" if error.sqlstate else type(error).__name__
