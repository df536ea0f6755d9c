"""What every chunking makes: verbatim parts of a document's text, as chunks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from plumbline.extras.lab.corpus import BODY, Chunk, Document

# A document cut into chunks, in order of their places.
Cut = Callable[[Document], Iterator[Chunk]]

# The field of a chunk that says under which headings it stands.
HEADING: Final = "heading"


class Part(NamedTuple):
    """text[start:end); `heading` is None where the chunking knows of no headings."""

    start: int
    end: int
    heading: str | None = None


class Chunking(BaseModel):
    """The settings of a chunking; `prepare` loads what it needs once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def prepare(self) -> Cut:
        """The function that cuts one document.

        It gives chunks `<document id>#<n>`, n from 0. Each text is a stretch of the document's text without white space
        at its ends, all that is no white space is in one, and a document without text is one chunk without text, so
        that its other fields are found.

        Raises:
            InvalidInput: what the settings name is not there.
        """
        raise NotImplementedError


def chunks_of(document: Document, parts: Iterable[Part]) -> Iterator[Chunk]:
    """A chunk for each part; one that is empty where there is none."""
    text = document.fields.get(BODY, "")
    number = -1
    for number, part in enumerate(parts):
        yield _chunk(document, number, text, part)
    if number < 0:
        yield _chunk(document, 0, text, Part(0, 0))


def _chunk(document: Document, number: int, text: str, part: Part) -> Chunk:
    fields = {name: value for name, value in document.fields.items() if name != BODY}
    if part.heading is not None:
        fields[HEADING] = " > ".join(filter(None, (fields.get(HEADING), part.heading)))
    fields[BODY] = text[part.start : part.end]
    return Chunk(f"{document.id}#{number}", document.id, fields, part.start, part.end)
