"""Whole sentences, as many as fit."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from plumbline.extras.lab.chunkings.lengths import Measured, Pieces, measuring, packed
from plumbline.extras.lab.chunkings.parts import Cut, Part, chunks_of
from plumbline.extras.lab.chunkings.sized import SizedChunking
from plumbline.extras.lab.corpus import BODY
from plumbline.judging.text.segmentation import split_sentences


class SentencesChunking(SizedChunking):
    """Split into sentences, English and Chinese; cut one that is too long between words."""

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
