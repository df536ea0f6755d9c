"""SQLite files of ours: recognized by their header, opened with the same pragmas, written in whole transactions."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# To wait for another process's transaction; one takes some milliseconds.
_BUSY_SECONDS: Final = 5.0


class ForeignDatabase(sqlite3.DatabaseError):
    """The file is a database of another program, or of another version."""


@dataclass(frozen=True, slots=True)
class SqliteFormat:
    """Kind of a database file: its header and its tables.

    Args:
        application_id: written into the file's header; a file with another one is not touched.
        schema: statements that end with `;` and a line end.
        added_columns: table and definition of the columns that files of before lack; they get them when opened.
        added_tables: name and statement of tables that they lack.
        journal_bytes: bound of the write-ahead log between checkpoints; None: a rollback journal instead of WAL.
    """

    application_id: int
    schema: str
    version: int = 0
    added_columns: Sequence[tuple[str, str]] = ()
    added_tables: Sequence[tuple[str, str]] = ()
    journal_bytes: int | None = None


def open_database(path: Path | None, form: SqliteFormat, *, busy_seconds: float = _BUSY_SECONDS) -> sqlite3.Connection:
    """Open a database in autocommit mode, and create what is missing: tables, file and folder; None: in memory.

    Modes are 0600 and 0700.
    """
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the mode of the file to its journals. Only a file that is not there yet is opened here: closing
        # it would drop the locks that other connections of this process hold on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(
        path or ":memory:", timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        is_new = _is_empty(connection, form)
        if path is not None and form.journal_bytes is not None:
            path.chmod(0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            # In WAL mode NORMAL survives the end of a process at any moment, and FULL that of the machine.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {form.journal_bytes}")
        if is_new:
            with transaction(connection):
                # Checked again under the lock: another process may have created them meanwhile.
                if _is_empty(connection, form):
                    for statement in form.schema.split(";\n"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {form.application_id}")
                    connection.execute(f"PRAGMA user_version = {form.version}")
        elif any(_lacking(connection, form)):
            with transaction(connection):
                for statement in list(_lacking(connection, form)):
                    connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end, roll back on an error. Locks at once: a lock that follows a read cannot be waited for."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the value of a setting or a count of SQLite's."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def is_damage(error: Exception) -> bool:
    """Return True if the file itself is broken, or none of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    # The lower byte is the kind; the rest says where.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _lacking(connection: sqlite3.Connection, form: SqliteFormat) -> Iterator[str]:
    """Yield the statements that bring a file of before up to date."""
    for table, statement in form.added_tables:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is None:
            yield statement
    for table, definition in form.added_columns:
        names = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        if definition.split()[0] not in names:
            yield f"ALTER TABLE {table} ADD COLUMN {definition}"


def _is_empty(connection: sqlite3.Connection, form: SqliteFormat) -> bool:
    """Return True if there are no tables yet, False if they are of this format."""
    # Counted before the header is read: another process may commit both in between.
    is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    found = pragma(connection, "application_id"), pragma(connection, "user_version")
    if found == (form.application_id, form.version):
        return False
    if not is_empty:
        raise ForeignDatabase("the file is a database of something else, or of another version")
    return True
