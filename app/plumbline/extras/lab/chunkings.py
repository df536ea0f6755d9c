"""Chunkings: settings that cut a document's text into verbatim chunks: whole, windows of words, or sentences."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.corpus import BODY, Document
from plumbline.judging.text.segmentation import split_sentences

# A word stands between blanks; in Han and kana, which have no blanks, a character is a word with its punctuation.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORD: Final = re.compile(rf"[{_UNSPACED}][、。，．…！？：；》〉）】」』”’]*+|[^\s{_UNSPACED}]++")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Unit of indexing and retrieval: a document or a part of its text, with the document's other fields whole."""

    id: str
    document_id: str
    fields: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return all fields that are not empty, a line each, for an encoder."""
        return "\n".join(text for text in self.fields.values() if text)


class _Chunking(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = Field(200, ge=1, description="The longest chunk, in words")

    def cut(self, document: Document) -> Iterator[Chunk]:
        """Yield chunks `<document id>#<n>`, n from 0; a document without text is one chunk, found by other fields."""
        text = document.fields.get(BODY, "")
        for number, (start, end) in enumerate(list(self._spans(text)) or [(0, 0)]):
            yield Chunk(f"{document.id}#{number}", document.id, {**document.fields, BODY: text[start:end]})

    def _spans(self, text: str) -> Iterator[Span]:
        raise NotImplementedError


class WholeChunking(BaseModel):
    """Each document is one chunk, under its own id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["whole"]

    def cut(self, document: Document) -> Iterator[Chunk]:
        """Yield the document."""
        yield Chunk(document.id, document.id, {**document.fields, BODY: document.fields.get(BODY, "")})


class TokensChunking(_Chunking):
    """Windows of `size` words with an overlap."""

    kind: Literal["tokens"]
    overlap: int = Field(0, ge=0, description="Words of a chunk that the next one repeats")

    @model_validator(mode="after")
    def _overlap_is_less(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} is not less than size {self.size}")
        return self

    def _spans(self, text: str) -> Iterator[Span]:
        return _windows(_words(text, 0, len(text)), self.size, self.overlap)


class SentencesChunking(_Chunking):
    """Whole sentences, English and Chinese, as many as fit; one that is too long is cut between words."""

    kind: Literal["sentences"]
    overlap: int = Field(0, ge=0, description="Sentences of a chunk that the next one repeats at most")

    def _spans(self, text: str) -> Iterator[Span]:
        spans = [(sentence.start, sentence.end) for sentence in split_sentences(text)]
        pieces = [piece for start, end in spans for piece in _windows(_words(text, start, end), self.size, 0)]
        lengths = [len(_words(text, start, end)) for start, end in pieces]
        first = after = 0
        while after < len(pieces):
            # A repeated sentence gives way where no new one would fit behind it
            while first < after and sum(lengths[first : after + 1]) > self.size:
                first += 1
            after += 1
            while after < len(pieces) and sum(lengths[first : after + 1]) <= self.size:
                after += 1
            yield pieces[first][0], pieces[after - 1][1]
            first = max(first, after - self.overlap)


def _words(text: str, start: int, end: int) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text, start, end)]


def _windows(words: Sequence[Span], size: int, overlap: int) -> Iterator[Span]:
    for first in range(0, max(len(words) - overlap, min(len(words), 1)), size - overlap):
        yield words[first][0], words[min(first + size, len(words)) - 1][1]


AnyChunking = Annotated[WholeChunking | TokensChunking | SentencesChunking, Field(discriminator="kind")]
