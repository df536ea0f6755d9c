"""Whole sentences, as many as fit."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from app.generation.segmentation import split_sentences
from app.lab.chunkings.lengths import Measured, Pieces, measuring, packed
from app.lab.chunkings.parts import Cut, Part, chunks_of
from app.lab.chunkings.sized import SizedChunking
from app.lab.corpus import BODY


class SentencesChunking(SizedChunking):
    """Sentences as `app.generation.segmentation` finds them, English and Chinese; one that is too long is cut between
    words."""

    kind: Literal["sentences"]
    overlap: int = Field(default=0, ge=0, description="How many sentences of a chunk the next one repeats at most.")

    def prepare(self) -> Cut:
        """As `Chunking.prepare`."""
        measured = measuring(self.unit, self.model)
        return lambda document: chunks_of(document, self._parts(measured(document.fields.get(BODY, ""))))

    def _parts(self, measured: Measured) -> Iterator[Part]:
        found = sentences_in(measured, 0, len(measured.text), size=self.size)
        for first, after in packed(found.lengths, size=self.size, overlap=self.overlap, counts_pieces=True):
            yield Part(found.starts[first], found.ends[after - 1])


def sentences_in(measured: Measured, start: int, end: int, *, size: int) -> Pieces:
    """The sentences of a stretch; in place of one that is too long its longest runs of words."""
    pieces = Pieces()
    for sentence in split_sentences(measured.text[start:end]):
        begin, stop = start + sentence.start, start + sentence.end
        length = measured.length(begin, stop)
        if length <= size:
            pieces.add(begin, stop, length)
            continue
        words = measured.words(begin, stop, size=size)
        for first, after in packed(words.lengths, size=size):
            pieces.add(words.starts[first], words.ends[after - 1], sum(words.lengths[first:after]))
    return pieces
