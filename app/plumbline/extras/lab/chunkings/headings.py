"""Sections by headings, cut further only where they are too long: at paragraphs, then sentences, then words."""

from collections.abc import Iterator
from typing import Literal

from plumbline.extras.lab.chunkings.lengths import Measured, Pieces, measuring, packed
from plumbline.extras.lab.chunkings.outline import Section, sections_of
from plumbline.extras.lab.chunkings.parts import Cut, Part, chunks_of
from plumbline.extras.lab.chunkings.sentences import sentences_in
from plumbline.extras.lab.chunkings.sized import SizedChunking
from plumbline.extras.lab.corpus import BODY


class HeadingsChunking(SizedChunking):
    """A section is a chunk where it fits. Else it is cut between paragraphs, a longer paragraph between sentences, a
    longer sentence between words; as much as fits is one chunk.

    Each chunk has the field `heading`: the headings above it, ` > ` between them; empty above the first.
    """

    kind: Literal["headings"]

    def prepare(self) -> Cut:
        """As `Chunking.prepare`."""
        measured = measuring(self.unit, self.model)
        return lambda document: chunks_of(document, self._parts(measured(document.fields.get(BODY, ""))))

    def _parts(self, measured: Measured) -> Iterator[Part]:
        for section in sections_of(measured.text):
            for start, end in self._fitting(measured, section):
                yield Part(start, end, section.path)

    def _fitting(self, measured: Measured, section: Section) -> Iterator[tuple[int, int]]:
        if measured.length(section.start, section.end) <= self.size:
            yield section.start, section.end
            return
        pieces = Pieces()
        for block in section.blocks:
            length = measured.length(block.start, block.end)
            if length <= self.size:
                pieces.add(block.start, block.end, length)
            else:
                pieces.extend(sentences_in(measured, block.start, block.end, size=self.size))
        for first, after in packed(pieces.lengths, size=self.size):
            yield pieces.starts[first], pieces.ends[after - 1]
