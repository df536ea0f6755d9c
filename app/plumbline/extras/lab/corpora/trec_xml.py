"""TREC's documents and topics, as XML or the SGML of old, with judgments in TREC's four columns."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from plumbline.extras.lab.corpora.files import Paths, file_text, found_files, judgments
from plumbline.extras.lab.corpora.gathering import CorpusSettings, PlacedDocument, PlacedQuery
from plumbline.extras.lab.corpora.trec_markup import read_elements
from plumbline.extras.lab.corpus import BODY, Corpus, Document, Query
from plumbline.ground.errors import InvalidInput

_TOPIC: Final = "top"
_NUMBER: Final = "num"
# Fields that begin where one without an end tag stands before them; `field_tags` adds to them.
_DOCUMENT_FIELDS: Final = {"title", "headline", "author", "byline", "bib", "date", "dateline", "text"}
_TOPIC_FIELDS: Final = frozenset({_NUMBER, "dom", "title", "desc", "smry", "narr", "con", "fac", "def"})
# What the topics of TREC 1 to 8 have in front of each field.
_LABEL: Final = re.compile(r"\A(?:Number|Domain|Topic|Description|Summary|Narrative|Concept\(s\)|Factor\(s\)):\s*+")


class TrecXmlCorpus(CorpusSettings):
    """`<doc>` and `<top>` elements; names of tags in any case.

    Fields are the tags right below `<doc>`. The text is that of `text_tags`, or what stands in no tag.
    """

    kind: Literal["trec_xml"]
    documents: Paths = Field(description="File or files of documents, or patterns.")
    queries: Paths = Field(description="File or files of topics.")
    qrels: str = Field(description="Judgments: lines of `query_id 0 doc_id relevance`.")
    query_ids: Literal["num", "position"] = Field(
        default="num", description="A query's id: its <num>, or its place among the topics, from 1 (Cranfield)."
    )
    query_tags: tuple[str, ...] = Field(
        default=("title",), min_length=1, description="What is asked: these fields of a topic, one after the other."
    )
    document_tag: str = Field(default="doc", description="What a document is called.")
    id_tag: str = Field(default="docno", description="Where a document's id stands.")
    text_tags: tuple[str, ...] = Field(
        default=(BODY,), min_length=1, description="What of a document is its text, joined by a line end."
    )
    field_tags: tuple[str, ...] | None = Field(
        default=None, description="The other tags that are fields of a document; left out: all of them."
    )

    def read(self, name: str, base: Path) -> Corpus:
        """The corpus; paths are relative to `base`.

        Raises:
            InvalidInput: a file, an element or an id is wrong; names file and line.
        """
        return self.gathered(name, self._documents(base), self._queries(base), judgments(self.qrels, base))

    def _documents(self, base: Path) -> Iterator[PlacedDocument]:
        id_tag, texts = self.id_tag.lower(), [tag.lower() for tag in self.text_tags]
        named = None if self.field_tags is None else [tag.lower() for tag in self.field_tags]
        known = {id_tag, *texts, *(_DOCUMENT_FIELDS if named is None else named)}
        for path in found_files(self.documents, base):
            for element in read_elements(file_text(path), self.document_tag, known, name=path.name):
                place = f"{path.name}:{element.line}"
                own_id = _required(element.fields, id_tag, place)
                kept = element.fields if named is None else {tag: element.fields.get(tag, "") for tag in named}
                fields = {tag: text for tag, text in kept.items() if tag not in (id_tag, BODY, "", *texts)}
                body = [element.fields[tag] for tag in ("", *texts) if element.fields.get(tag)]
                yield place, Document(own_id, fields | {BODY: "\n".join(body)})

    def _queries(self, base: Path) -> Iterator[PlacedQuery]:
        position = 0
        tags = [tag.lower() for tag in self.query_tags]
        for path in found_files(self.queries, base):
            for element in read_elements(file_text(path), _TOPIC, _TOPIC_FIELDS | set(tags), name=path.name):
                position += 1
                place = f"{path.name}:{element.line}"
                is_numbered = self.query_ids == _NUMBER
                own_id = _required(element.fields, _NUMBER, place) if is_numbered else str(position)
                texts = [_LABEL.sub("", element.fields.get(tag, "")) for tag in tags]
                yield place, Query(own_id, "\n".join(texts))


def _required(fields: Mapping[str, str], tag: str, place: str) -> str:
    text = _LABEL.sub("", fields.get(tag, ""))
    if not text:
        raise InvalidInput(
            f"has no <{tag}>; there are {', '.join(map('<{}>'.format, filter(None, fields)))}", place=place
        )
    return text
