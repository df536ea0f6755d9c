"""Operations in which SQLite and PostgreSQL differ, as the store needs them."""

from abc import ABC, abstractmethod
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.tables import METADATA


class Backend(ABC):
    """The differences between the two databases."""

    # SQLAlchemy's name of the database and its driver.
    dialect: str
    # Transactions that write, and that read, at one time.
    writers: int
    readers: int
    # PostgreSQL: transactions that write run concurrently, and lock what they change.
    is_server: bool

    @property
    def exists(self) -> bool:
        return True

    @abstractmethod
    def connect(self) -> Any:
        """Return a new connection of the driver."""

    @abstractmethod
    def begin_write(self, connection: Connection, *, is_durable: bool) -> float:
        """Begin a transaction; return the seconds since 1970 of the clock that all users of the database share."""

    @abstractmethod
    def begin_read(self, connection: Connection) -> float: ...

    @abstractmethod
    def tables(self, connection: Connection) -> set[str]:
        """Return the names of the tables there are. Raises StoreUnavailable: they are of another program."""

    def create(self, connection: Connection) -> None:
        METADATA.create_all(connection, checkfirst=False)

    def lock_tables(self, connection: Connection) -> None:  # noqa: B027
        """Wait for other processes that create or migrate them, and lift the limit on a statement's time."""

    @abstractmethod
    def abort(self, raw: Any) -> None:
        """End what a connection of the driver waits for, from another thread."""

    @abstractmethod
    def unavailable(self, error: Exception) -> StoreUnavailable:
        """Return the error of a failure, with its remedy."""

    def is_conflict(self, error: DBAPIError) -> bool:
        """Return True if the transaction can be run again at once."""
        return False

    def is_reusable(self, raw: Any) -> bool:
        """Return False if a connection serves one transaction only."""
        return True
