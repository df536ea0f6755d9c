"""What each tenant has spent, day by day, in a small SQLite file: several processes of one machine add to it."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from plumbline.ground.sqlite import SqliteFormat, open_database, transaction
from plumbline.judging.ports.exchange import Usage

FILE_NAME: Final = "spending.sqlite"
_KEPT_DAYS: Final = 40
# "PLSP". No WAL: a change has to show in the file's time of change, see `stamp_of`.
_FORMAT: Final = SqliteFormat(
    0x504C5350,
    """
CREATE TABLE spent (
    tenant TEXT NOT NULL, day TEXT NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL, unpriced INTEGER NOT NULL,
    PRIMARY KEY (day, tenant)) WITHOUT ROWID
""",
)
_ADD: Final = """
INSERT INTO spent (tenant, day, tokens, cost, unpriced) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (day, tenant) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost,
    unpriced = unpriced + excluded.unpriced
"""


class Spent(NamedTuple):
    """Tokens as providers counted them, money in the currency of the price table, calls whose price is not known."""

    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def plus(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.unpriced + other.unpriced)


def spent_of(usage: Usage) -> Spent:
    """What counts of a usage."""
    return Spent(usage.prompt_tokens + usage.completion_tokens, usage.cost or 0.0, int(usage.cost is None))


class Stamp(NamedTuple):
    """What changes when somebody adds to the file."""

    changed_ns: int
    size: int


def stamp_of(path: Path) -> Stamp | None:
    """The file's stamp; None where there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stamp(found.st_mtime_ns, found.st_size)


def read_day(path: Path, day: str) -> dict[str, Spent]:
    """What was spent on the day, by tenant; blocks.

    Raises:
        OSError, sqlite3.Error: the file is there and cannot be read.
    """
    if stamp_of(path) is None:
        return {}
    with closing(open_database(path, _FORMAT)) as database:
        return _day(database, day)


def add_to_day(path: Path, day: str, more: Mapping[str, Spent]) -> dict[str, Spent]:
    """Adds to the day, and returns all that was spent on it by anybody; blocks. Makes folder and file, mode 0600.

    Raises:
        OSError, sqlite3.Error: the file cannot be written; nothing was added.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with closing(open_database(path, _FORMAT)) as database, transaction(database):
        database.executemany(_ADD, [(tenant, day, *spent) for tenant, spent in more.items()])
        database.execute("DELETE FROM spent WHERE day < date(?, ?)", (day, f"-{_KEPT_DAYS} days"))
        return _day(database, day)


def _day(database: sqlite3.Connection, day: str) -> dict[str, Spent]:
    rows = database.execute("SELECT tenant, tokens, cost, unpriced FROM spent WHERE day = ?", (day,))
    return {tenant: Spent(*spent) for tenant, *spent in rows}
