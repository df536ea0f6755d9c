"""What the SQL of a store runs on: one transaction of a database, and the little in which the databases differ."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Rows(Protocol):
    """What a statement has found or done."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Sql(Protocol):
    """One transaction. `?` stands for a value.

    The three endings of a SELECT keep the rows found as they are until the transaction ends: from everybody, from who
    would change them, or from everybody and without those that somebody else keeps so. They are empty where
    transactions that write follow one another anyway.
    """

    @property
    def for_update(self) -> str: ...

    @property
    def for_share(self) -> str: ...

    @property
    def skip_locked(self) -> str: ...

    def now(self) -> float:
        """Seconds since 1970, by the clock that all who share the database go by."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Rows: ...

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None: ...


class Database(Protocol):
    """Runs functions within transactions. Both raise StoreUnavailable, and have changed nothing then."""

    async def write(self, work: Callable[[Sql], T], *, is_durable: bool = False) -> T:
        """What `work` returns, once it is committed. `is_durable`: survives a loss of power too."""

    async def read(self, work: Callable[[Sql], T]) -> T:
        """What `work` returns, seeing one state of the database."""

    async def close(self) -> None: ...
