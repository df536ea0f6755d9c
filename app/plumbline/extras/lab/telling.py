"""How an experiment tells of its work."""

from typing import Protocol


class Teller(Protocol):
    """Who tells the user. `name`: a system or a corpus; `stage`: what is done with it."""

    def steps(self, total: int) -> None:
        """So many systems there are."""

    def stage(self, name: str, stage: str, done: int = 0, total: int = 0) -> None:
        """How far it is; `total` is 0 where that is not known."""

    def done(self, name: str, *, was_there: bool) -> None:
        """A system is done, now or in an earlier run."""

    def failed(self, name: str, detail: str) -> None:
        """A system is given up, and why."""

    def end(self) -> None:
        """There is nothing more to tell."""
