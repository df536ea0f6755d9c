"""An SQLite file of ours: told from others by its header, tuned for a cache, written to in whole transactions."""

import sqlite3

# Written into the file's header: a database of somebody else's is left alone. "PLVC".
_APPLICATION_ID = 0x504C5643
_SCHEMA = """
CREATE TABLE verdicts (key TEXT PRIMARY KEY, stored REAL NOT NULL, used REAL NOT NULL, value BLOB NOT NULL);
CREATE INDEX verdicts_stored ON verdicts (stored);
CREATE INDEX verdicts_used ON verdicts (used);
"""
_JOURNAL_BYTES = 4 * 1024 * 1024


class ForeignDatabase(sqlite3.Error):
    """The file is a database, and not one of ours."""


class Transaction:
    """Commits at its end, rolls back on an error. Locks at once: a lock taken after a read cannot be waited for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def claim(connection: sqlite3.Connection) -> None:
    """Makes an empty file ours.

    Raises:
        sqlite3.Error: it is a database of somebody else, or none.
    """
    if pragma(connection, "application_id") == _APPLICATION_ID:
        return
    with Transaction(connection):
        # Asked again with the lock: another process may have made it meanwhile.
        if pragma(connection, "application_id") == _APPLICATION_ID:
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise ForeignDatabase("the file is a database of something else")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        for statement in _SCHEMA.strip().splitlines():
            connection.execute(statement)


def tune(connection: sqlite3.Connection) -> None:
    """Sets what a cache can afford."""
    connection.execute("PRAGMA journal_mode = WAL")
    # In WAL mode a loss of power may take the last entries, never the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The value of a setting or a count of SQLite's."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def is_damage(error: Exception) -> bool:
    """Whether the file itself is broken, or none of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    # The lower byte is the kind; the rest says where.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
