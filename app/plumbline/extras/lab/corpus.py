"""Documents with their fields, the chunks that are indexed, queries and judgments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plumbline.retrieval.run import Qrels

# The field that chunkings cut; every other field of a document (title, author ...) is kept whole in each chunk.
BODY: Final = "text"


@dataclass(frozen=True, slots=True)
class Document:
    """One document: texts by field name, in reading order. A field may be empty, and `text` may be absent."""

    id: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Unit of indexing and retrieval: a part of a document, or all of it.

    `id` is the document's own where documents are left whole, else `<document id>#<n>`, n from 0, also where a document
    gives one chunk; the id rule `strip_chunk` leads back. `start` and `end`: the part's place in the document's `text`,
    in characters.
    """

    id: str
    document_id: str
    fields: Mapping[str, str]
    start: int
    end: int

    @property
    def text(self) -> str:
        """Return all fields that are not empty, a line each, for an encoder."""
        return "\n".join(text for text in self.fields.values() if text)


@dataclass(frozen=True, slots=True)
class Query:
    """A query."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents, queries and judgments; ids are unique, and every judged document is in it or counted.

    `judged_elsewhere`: documents that are judged and not in the corpus; no retriever can find them.
    """

    name: str
    documents: Sequence[Document]
    queries: Sequence[Query]
    qrels: Qrels
    judged_elsewhere: int

    @property
    def unjudged(self) -> int:
        """Count the queries without judgments: they are searched, and no measure counts them."""
        return sum(query.id not in self.qrels for query in self.queries)
