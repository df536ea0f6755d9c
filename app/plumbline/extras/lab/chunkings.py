"""Chunkings: settings that cut a document's text into verbatim chunks, whole, by tokens, sentences or headings."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.corpus import BODY, Chunk, Document
from plumbline.extras.lab.text_lengths import MeasuredText, Pieces, Unit, load_text_measure, pack_runs
from plumbline.judging.text.blocks import TextBlock, split_blocks
from plumbline.judging.text.segmentation import split_sentences

_IN_FRONT: Final = re.compile(r"(?:>[ \t]*)*+#*+[ \t]*+")
_BEHIND: Final = re.compile(r"(?<=\s)#++\Z")


def heading_text(block: str) -> str:
    """Return the text of a heading on one line, without `#`, the line below it or the marks of bold around it."""
    line = block.splitlines()[0]
    inner = _BEHIND.sub("", line[_IN_FRONT.match(line).end() :].rstrip()).strip()  # type: ignore[union-attr]  # fits ""
    for mark in ("**", "__"):
        if inner.startswith(mark):
            inner = inner.removeprefix(mark).replace(mark, "", 1)
    return " ".join(inner.split())


def first_heading(text: str) -> str:
    """Return the heading that a text starts with; empty if it starts otherwise."""
    first = next(split_blocks(text), None)
    return heading_text(text[first.start : first.end]) if first and first.kind == "heading" else ""


_UNDERLINED: Final = re.compile(r"[=-]+\s*\Z")
# Below the six levels of Markdown: a line that is bold from end to end.
_BOLD_LEVEL: Final = 7
_MAX_PLAIN_CHARS: Final = 80
_ENDS_CLOSED: Final = re.compile(r"[.!?。！？…:：;；,，、]\Z")
_HAN_NUMBER: Final = "[零〇一二三四五六七八九十百0-9]{1,6}"
_PART_LINE: Final = re.compile(
    rf"(?:Part|Chapter|Appendix|PART|CHAPTER|APPENDIX)\s+[0-9A-Z]{{1,6}}\b|第{_HAN_NUMBER}[章篇部编]"
)
_SECTION_LINE: Final = re.compile(rf"(?:Section|SECTION)\s+[0-9A-Z]{{1,6}}\b|第{_HAN_NUMBER}节")
_NUMBERED: Final = re.compile(r"[0-9]{1,3}((?:\.[0-9]{1,3}){1,4})\s+[^\W\d_a-z]")


class Section(NamedTuple):
    """text[start:end), from a heading to the next; `path`: the headings above it and its own, joined by ` > `."""

    start: int
    end: int
    path: str
    blocks: tuple[TextBlock, ...]


def split_sections(text: str) -> Iterator[Section]:
    """Yield the sections in order; text before the first heading is a section without a path.

    Headings are Markdown's (`#`, a line below, a bold line) and, in plain text, lines of their own that number
    themselves: `Chapter 3`, `Section B`, `2.1 Methods`, `第三章`, `第二节`. A heading with nothing below it belongs to
    the section that follows.
    """
    levels: list[tuple[int, str]] = []
    blocks: list[TextBlock] = []
    has_text = False
    for block in split_blocks(text):
        level = _heading_level(text, block)
        if level and has_text:
            yield _section(levels, blocks)
            blocks, has_text = [], False
        if level:
            heading = heading_text(text[block.start : block.end])
            levels = [*(each for each in levels if each[0] < level), (level, heading)]
        else:
            has_text = True
        blocks.append(block)
    if blocks:
        yield _section(levels, blocks)


def _section(levels: list[tuple[int, str]], blocks: list[TextBlock]) -> Section:
    path = " > ".join(title for _, title in levels if title)
    return Section(blocks[0].start, blocks[-1].end, path, tuple(blocks))


def _heading_level(text: str, block: TextBlock) -> int:
    """Return the level of a heading, 1 for the highest; 0 if the block is none."""
    if block.kind == "heading":
        heading = text[block.start : block.end]
        marks = len(heading) - len(heading.lstrip("#"))
        lines = heading.splitlines()
        if not marks and len(lines) > 1 and _UNDERLINED.match(lines[-1].strip()):
            return 1 if lines[-1].strip().startswith("=") else 2
        return marks or _BOLD_LEVEL
    line = text[block.start : block.end]
    if block.kind != "prose" or len(line) > _MAX_PLAIN_CHARS or "\n" in line or _ENDS_CLOSED.search(line):
        return 0
    if _PART_LINE.match(line):
        return 1
    if _SECTION_LINE.match(line):
        return 2
    numbered = _NUMBERED.match(line)
    return numbered[1].count(".") + 1 if numbered else 0


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
