"""Chunkings: settings that cut a document's text into verbatim chunks, whole, by tokens, sentences or headings."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.corpus import BODY, Chunk, Document
from plumbline.extras.lab.outline import Section, split_sections
from plumbline.extras.lab.text_lengths import MeasuredText, Pieces, Unit, load_text_measure, pack_runs
from plumbline.judging.text.segmentation import split_sentences

# A document cut into chunks, in order of their places.
Cut = Callable[[Document], Iterator[Chunk]]

# The field of a chunk that says under which headings it stands.
HEADING: Final = "heading"


class TextPart(NamedTuple):
    """text[start:end); `heading` is None for chunkings without headings."""

    start: int
    end: int
    heading: str | None = None


class Chunking(BaseModel):
    """Settings of a chunking; `prepare` loads its model once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def prepare(self) -> Cut:
        """Return a function that cuts one document.

        It gives chunks `<document id>#<n>`, n from 0. Each text is a stretch of the document's text without white space
        at its ends, all that is no white space is in one, and a document without text is one chunk without text, so
        that its other fields are found.

        Raises:
            InvalidInput: what the settings name is not there.
        """
        raise NotImplementedError


def _build_chunks(document: Document, parts: Iterable[TextPart]) -> Iterator[Chunk]:
    text = document.fields.get(BODY, "")
    for number, part in enumerate(list(parts) or [TextPart(0, 0)]):
        fields = {name: value for name, value in document.fields.items() if name != BODY}
        if part.heading is not None:
            fields[HEADING] = " > ".join(filter(None, (fields.get(HEADING), part.heading)))
        fields[BODY] = text[part.start : part.end]
        yield Chunk(f"{document.id}#{number}", document.id, fields, part.start, part.end)


class SizedChunking(Chunking):
    """Chunks of at most `size`."""

    size: int = Field(default=200, ge=1, description="The longest chunk, in units.")
    unit: Unit = Field(
        default="words",
        description="Words (between blanks, or one Chinese or Japanese character), or a model's tokens.",
    )
    model: str | None = Field(
        default=None, description="Model of the tokens: a folder or hub id; default: the built-in embedding model's."
    )

    def prepare(self) -> Cut:
        measure = load_text_measure(self.unit, self.model)
        return lambda document: _build_chunks(document, self._parts(measure(document.fields.get(BODY, ""))))

    def _parts(self, measured: MeasuredText) -> Iterator[TextPart]:
        raise NotImplementedError


class WholeChunking(Chunking):
    """Each document is one chunk, under its own id."""

    kind: Literal["whole"]

    def prepare(self) -> Cut:
        """Return the function; ids and white space at the ends stay as they are."""

        def whole(document: Document) -> Iterator[Chunk]:
            text = document.fields.get(BODY, "")
            yield Chunk(document.id, document.id, {**document.fields, BODY: text}, 0, len(text))

        return whole


class TokensChunking(SizedChunking):
    """Windows of as many words as fit, with an overlap; a word is cut only if it alone is too long."""

    kind: Literal["tokens"]
    overlap: int = Field(default=0, ge=0, description="How much of a chunk the next one repeats at most, in units.")

    @model_validator(mode="after")
    def _overlap_is_less(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} is not less than size {self.size}")
        return self

    def _parts(self, measured: MeasuredText) -> Iterator[TextPart]:
        words = measured.words(0, len(measured.text), size=self.size)
        for first, after in pack_runs(words.lengths, size=self.size, overlap=self.overlap):
            yield TextPart(words.starts[first], words.ends[after - 1])


class SentencesChunking(SizedChunking):
    """Whole sentences, English and Chinese, as many as fit; one that is too long is cut between words."""

    kind: Literal["sentences"]
    overlap: int = Field(default=0, ge=0, description="How many sentences of a chunk the next one repeats at most.")

    def _parts(self, measured: MeasuredText) -> Iterator[TextPart]:
        found = _split_sentences(measured, 0, len(measured.text), size=self.size)
        for first, after in pack_runs(found.lengths, size=self.size, overlap=self.overlap, counts_pieces=True):
            yield TextPart(found.starts[first], found.ends[after - 1])


def _split_sentences(measured: MeasuredText, start: int, end: int, *, size: int) -> Pieces:
    # a sentence that is too long gives its longest runs of words
    pieces = Pieces()
    for sentence in split_sentences(measured.text[start:end]):
        begin, stop = start + sentence.start, start + sentence.end
        length = measured.length(begin, stop)
        if length <= size:
            pieces.add(begin, stop, length)
            continue
        words = measured.words(begin, stop, size=size)
        for first, after in pack_runs(words.lengths, size=size):
            pieces.add(words.starts[first], words.ends[after - 1], sum(words.lengths[first:after]))
    return pieces


class HeadingsChunking(SizedChunking):
    """Sections, cut if they are too long: between paragraphs, then sentences, then words; as much as fits is one chunk.

    Each chunk has the field `heading`: the headings above it, ` > ` between them; empty above the first.
    """

    kind: Literal["headings"]

    def _parts(self, measured: MeasuredText) -> Iterator[TextPart]:
        for section in split_sections(measured.text):
            for start, end in self._fitting(measured, section):
                yield TextPart(start, end, section.path)

    def _fitting(self, measured: MeasuredText, section: Section) -> Iterator[tuple[int, int]]:
        if measured.length(section.start, section.end) <= self.size:
            yield section.start, section.end
            return
        pieces = Pieces()
        for block in section.blocks:
            length = measured.length(block.start, block.end)
            if length <= self.size:
                pieces.add(block.start, block.end, length)
            else:
                pieces.extend(_split_sentences(measured, block.start, block.end, size=self.size))
        for first, after in pack_runs(pieces.lengths, size=self.size):
            yield pieces.starts[first], pieces.ends[after - 1]


AnyChunking = Annotated[
    WholeChunking | TokensChunking | SentencesChunking | HeadingsChunking, Field(discriminator="kind")
]
