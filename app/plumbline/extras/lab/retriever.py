"""The protocol of the lab's retrievers, and retrievers written by the user."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np
from pydantic import Field

from plumbline.extras.lab.corpus import Chunk, LabTable

# Chunk ids with their scores, best first; higher is better, finite.
Hits = Sequence[tuple[str, float]]
OBJECT_PATTERN: Final = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


class Retriever(Protocol):
    """Protocol of a retriever. The lab calls `build` once, then `search` for each query, and times both."""

    def build(self, chunks: Sequence[Chunk], folder: Path) -> int | None:
        """Index the chunks and return the bytes of the index, or None where it is in the folder, which is empty."""

    def search(self, query: str, k: int) -> Hits:
        """Return the best k chunks or fewer; the time of encoding the query belongs here."""


class OwnRetriever(LabTable):
    """`kind = "python"`: a class of the user's with the methods of `Retriever`; its module is run."""

    kind: Literal["python"]
    object: str = Field(pattern=OBJECT_PATTERN, description="`module:Class`, called with the options")
    options: dict[str, Any] = Field({}, description="Keyword arguments of the class")

    def make(self) -> Retriever:
        made: Retriever = import_object(self.object)(**self.options)
        return made


def import_object(path: str) -> Any:
    """Import `module:name` from next to the experiment file, or of an installed package."""
    module_name, _, attribute = path.partition(":")
    return getattr(import_module(module_name), attribute)


class ScoringRetriever(ABC):
    """Exact retriever that scores every chunk; equal scores come in the order of ids, and 0 means nothing shared."""

    indexes_blanks = False

    def build(self, chunks: Sequence[Chunk], folder: Path) -> int | None:
        # To a model an empty text is similar to everything.
        texts = {each.id: each.text for each in chunks if self.indexes_blanks or each.text.strip()}
        self._ids = sorted(texts)
        return self.index([texts[chunk_id] for chunk_id in self._ids], folder)

    def search(self, query: str, k: int) -> Hits:
        scores = self.score(query)
        found = np.flatnonzero(scores)
        if k < len(found):
            found = found[scores[found] >= np.partition(scores[found], -k)[-k]]
        best = found[np.argsort(-scores[found], kind="stable")][:k]
        return [(self._ids[place], float(scores[place])) for place in best]

    @abstractmethod
    def index(self, texts: Sequence[str], folder: Path) -> int | None:
        """Index the texts, as `build`."""

    @abstractmethod
    def score(self, query: str) -> Any:
        """Return the score of each text."""
