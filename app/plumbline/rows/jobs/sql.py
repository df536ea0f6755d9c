"""Seam between the SQL of the stores and their databases: a transaction, and the few differences between them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Sql(Protocol):
    """One transaction. `?` is a placeholder.

    The three suffixes lock the rows that a SELECT returns until the transaction ends. They are empty where write
    transactions are serial anyway.
    """

    @property
    def for_update(self) -> str: ...

    @property
    def for_share(self) -> str: ...

    @property
    def skip_locked(self) -> str: ...

    def now(self) -> float:
        """Return seconds since 1970 by the clock that all users of the database share."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Return the rows of the statement, as a cursor of the database does."""

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None: ...


class Database(Protocol):
    """Runner of functions within transactions. Both raise StoreUnavailable, and then have changed nothing."""

    async def write(self, work: Callable[[Sql], T], *, is_durable: bool = False) -> T:
        """Run `work` and commit. `is_durable`: survive a power failure too."""

    async def read(self, work: Callable[[Sql], T]) -> T:
        """Run `work` on one snapshot of the database."""

    async def close(self) -> None: ...
