"""Documents as they are."""

from collections.abc import Iterator
from typing import Literal

from plumbline.extras.lab.chunkings.parts import Chunking, Cut
from plumbline.extras.lab.corpus import BODY, Chunk, Document


class WholeChunking(Chunking):
    """Each document is one chunk, under its own id."""

    kind: Literal["whole"]

    def prepare(self) -> Cut:
        """As `Chunking.prepare`, but for the id and for white space, which stays at the ends."""
        return _whole


def _whole(document: Document) -> Iterator[Chunk]:
    text = document.fields.get(BODY, "")
    yield Chunk(document.id, document.id, {**document.fields, BODY: text}, 0, len(text))
