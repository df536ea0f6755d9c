"""The protocol of the lab's retrievers, and retrievers written by the user."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.ground.errors import InvalidInput

# Chunk ids with their scores, best first; higher is better, finite.
Hits = Sequence[tuple[str, float]]
OBJECT_PATTERN: Final = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """Facts of an index. `engine`: name and version.

    load_seconds, build_seconds: wall time of its making (imports, weights) and of `build`, which the lab fills in.
    """

    chunks: int
    index_bytes: int
    engine: str = ""
    load_seconds: float = 0.0
    build_seconds: float = 0.0


class Retriever(Protocol):
    """Protocol of a retriever. The lab calls `build` once, then `search` for each query, and times both."""

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Index the chunks, with its files in an empty folder; InvalidInput where something is missing."""
        ...

    def search(self, query: str, k: int) -> Hits:
        """Return the best k chunks or fewer; the time of encoding the query belongs here."""
        ...


class OwnRetriever(BaseModel):
    """`kind = "python"`: a class of the user's with the methods of `Retriever`; its module is run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["python"]
    object: str = Field(pattern=OBJECT_PATTERN, description="`module:Class`, called with the options")
    options: dict[str, Any] = Field({}, description="Keyword arguments of the class")

    def make(self) -> Retriever:
        try:
            made = import_object(self.object)(**self.options)
        except TypeError as error:
            raise InvalidInput(f"{self.object} does not take these options: {error}", place="options") from error
        if lacking := [name for name in ("build", "search") if not callable(getattr(made, name, None))]:
            raise InvalidInput(f"{self.object} has no {' and no '.join(lacking)}", place="object")
        return cast("Retriever", made)


def import_object(path: str) -> Any:
    """Import `module:name` from next to the experiment file, or of an installed package; InvalidInput without it."""
    module_name, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        wanted = "expected a module next to the experiment file, or an installed one"
        raise InvalidInput(f"there is no module {error.name!r}; {wanted}", place="object") from error
    except AttributeError as error:
        raise InvalidInput(f"{path}: {error}", place="object") from error


def find_fields(chunks: Sequence[Chunk], named: Iterable[str]) -> list[str]:
    """Return the fields that chunks have, in order; InvalidInput where a named one is not among them."""
    there = list(dict.fromkeys(name for chunk in chunks for name in chunk.fields))
    if absent := [name for name in named if name not in there]:
        raise InvalidInput(f"no document has the field {absent[0]!r}; there are: {', '.join(there) or 'none'}")
    return there


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
