"""What every retriever is to the lab: something built of chunks in a folder, and asked one query at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from plumbline.extras.lab.corpus import Chunk

# Chunk ids with their scores, best first; higher is better, finite.
Hits = Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an engine says of its index. Seconds and memory are not in it: the lab takes those from outside.

    `chunks` held. `index_bytes`: what the index takes where it is kept, and `bytes_are` says where and how that was
    taken ("files of the index folder", "store size by the server's statistics"). `engine`: name and version.
    `stated`: parameters that decide the ranking and that the engine fixes or chose, for the report.
    """

    chunks: int
    index_bytes: int
    bytes_are: str
    engine: str
    stated: dict[str, str | int | float]


class Retriever(Protocol):
    """One way to search. The lab calls `build` once, then `search` for each query, and holds the clock to both."""

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Indexes the chunks; what it keeps lies in `folder`, which is there and empty.

        Raises:
            InvalidInput: the settings do not fit the chunks (a field that none has), or a model or server is missing;
                the message says how to get it.
        """
        ...

    def search(self, query: str, k: int) -> Hits:
        """The best k chunks or fewer; everything a user would wait for happens in here, encoding the query included."""
        ...

    def close(self) -> None:
        """Gives back memory, files and connections."""
        ...
