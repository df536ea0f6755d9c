"""Windows of a fixed size over the words or tokens of a text."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from plumbline.extras.lab.chunkings.lengths import Measured, measuring, packed
from plumbline.extras.lab.chunkings.parts import Cut, Part, chunks_of
from plumbline.extras.lab.chunkings.sized import SizedChunking
from plumbline.extras.lab.corpus import BODY


class TokensChunking(SizedChunking):
    """As many words as fit, then on from `overlap` before their end; a word is cut only where it alone is too long."""

    kind: Literal["tokens"]
    overlap: int = Field(default=0, ge=0, description="How much of a chunk the next one repeats at most, in units.")

    @model_validator(mode="after")
    def _overlap_is_less(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} is not less than size {self.size}")
        return self

    def prepare(self) -> Cut:
        """As `Chunking.prepare`."""
        measured = measuring(self.unit, self.model)
        return lambda document: chunks_of(document, self._parts(measured(document.fields.get(BODY, ""))))

    def _parts(self, measured: Measured) -> Iterator[Part]:
        words = measured.words(0, len(measured.text), size=self.size)
        for first, after in packed(words.lengths, size=self.size, overlap=self.overlap):
            yield Part(words.starts[first], words.ends[after - 1])
