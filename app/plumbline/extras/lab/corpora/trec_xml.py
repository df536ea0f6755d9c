"""TREC's documents and topics, XML or the SGML of old: read by tags alone, without a grammar.

XML parsers refuse these files (no root, a bare `&`, end tags left out), and HTML's rules are others: a title without
its end tag would take the topic's description with it. Nothing is expanded but characters by number and HTML's names
with their semicolon, so no file can grow by being read. One pass, linear in the length of the text.
"""

import html
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field

from plumbline.extras.lab.corpora.gathering import (
    CorpusSettings,
    Paths,
    PlacedDocument,
    PlacedQuery,
    find_files,
    read_file_text,
)
from plumbline.extras.lab.corpus import BODY, Corpus, Document, Query
from plumbline.extras.lab.run_files import load_qrels
from plumbline.ground.errors import InvalidInput

_VALUE: Final = r"\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>/]++)"
# Attributes need values: `x <y and z> w` is text.
_TAG: Final = re.compile(
    rf"<(?P<slash>/?)(?P<name>[A-Za-z][\w.:-]*+)(?>(?:\s++[A-Za-z_][\w.:-]*+{_VALUE})*)\s*+(?P<empty>/?)>"
    r"|<!--|<!\[CDATA\[|<!DOCTYPE(?=[\s>])|<\?",
    re.IGNORECASE,
)
_ENDS: Final = {"<!--": "-->", "<![CDATA[": "]]>", "<?": ">", "<!DOCTYPE": ">"}
_CHARACTER: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Tags inside of a field that part words; others, as <b>, do not.
_PARTING: Final = frozenset({"p", "br", "hr", "li", "tr", "td", "th", "div", *(f"h{level}" for level in range(1, 7))})


class _Token(NamedTuple):
    kind: Literal["start", "end", "text"]
    name: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Element:
    """One document or topic: the line where it starts, from 1, and its fields in order of their first tags.

    Names are in lower case. What stands in several tags of one name is joined by a line end; what stands outside of
    all tags has the name `""`.
    """

    line: int
    fields: dict[str, str]


def read_elements(text: str, tag: str, known: Collection[str], *, name: str) -> Iterator[Element]:
    """Yield the elements named `tag`, in order; case is ignored.

    A field runs to its end tag, and tags inside of it are dropped. One that has no end tag runs to the next tag that is
    `known`, or to the element's end. Elements may have no end tags, all of them or none.

    Raises:
        InvalidInput: there is none; the last one is never closed and others are; a comment is never closed; the
            document type declares entities.
    """
    tag = tag.lower()
    tokens: list[_Token] | None = None
    line, counted, is_closed, has_any = 1, 0, False, False
    for token in _tokens(text, name):
        is_mark = token.kind != "text" and token.name == tag
        if is_mark and tokens is not None:
            yield Element(line, _fields(tokens, known))
            is_closed = is_closed or token.kind == "end"
            tokens = None
        if is_mark and token.kind == "start":
            line, counted = line + text.count("\n", counted, token.at), token.at
            tokens, has_any = [], True
        elif tokens is not None:
            tokens.append(token)
    if tokens is not None:
        if is_closed:
            detail = f"this <{tag}> is never closed, as others are; was the copy cut off?"
            raise InvalidInput(detail, place=f"{name}:{line}")
        yield Element(line, _fields(tokens, known))
    if not has_any:
        raise InvalidInput(f"holds no <{tag}>", place=name)


def _tokens(text: str, name: str) -> Iterator[_Token]:
    position = 0
    while match := _TAG.search(text, position):
        if match.start() > position:
            yield _Token("text", "", _unescaped(text[position : match.start()]), position)
        tag = match["name"]
        if tag is None:
            position = _find_end(text, match, name)
            if match[0].upper() == "<![CDATA[":
                yield _Token("text", "", text[match.end() : position - len("]]>")], match.start())
            continue
        position = match.end()
        yield _Token("end" if match["slash"] else "start", tag.lower(), "", match.start())
        if match["empty"] and not match["slash"]:
            yield _Token("end", tag.lower(), "", match.start())
    if position < len(text):
        yield _Token("text", "", _unescaped(text[position:]), position)


def _find_end(text: str, match: re.Match[str], name: str) -> int:
    """Return the end of a comment, a declaration or the like."""
    opening = match[0].upper()
    end = text.find(_ENDS[opening], match.end())
    detail = None
    if end < 0:
        detail = f"{match[0]} is never closed; expected {_ENDS[opening]}"
    elif opening == "<!DOCTYPE" and "[" in text[match.end() : end]:
        detail = "the document type declares entities, which are not read here; take it out"
    if detail is not None:
        line = text.count("\n", 0, match.start()) + 1
        raise InvalidInput(detail, place=f"{name}:{line}")
    return end + len(_ENDS[opening])


def _unescaped(text: str) -> str:
    return _CHARACTER.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def _fields(tokens: list[_Token], known: Collection[str]) -> dict[str, str]:
    parts: dict[str, list[str]] = {}
    # Places of start tags whose end tag comes before the next start tag of the same name.
    following: dict[str, str] = {}
    closed = set()
    for place, token in reversed([*enumerate(tokens)]):
        if token.kind == "start" and following.get(token.name) == "end":
            closed.add(place)
        following[token.name] = token.kind
    field, has_end = "", False
    for place, token in enumerate(tokens):
        is_inside = bool(field) and (has_end or token.name not in known)
        if token.kind == "text":
            parts.setdefault(field, []).append(token.text)
        elif token.kind == "start" and not is_inside:
            field, has_end = token.name, place in closed
            parts.setdefault(field, []).append("\n")
        elif token.kind == "end" and token.name == field:
            field = ""
        elif token.name in _PARTING:
            parts.setdefault(field, []).append("\n")
    texts = {field: "".join(pieces).strip() for field, pieces in parts.items()}
    return {field: text for field, text in texts.items() if field or text}


_TOPIC: Final = "top"
_NUMBER: Final = "num"
# Their start tags end a field without an end tag; `field_tags` adds to them.
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
        """Read the corpus; paths are relative to `base`. InvalidInput names file and line of what is wrong."""
        return self.gather(name, self._documents(base), self._queries(base), load_qrels(base / self.qrels))

    def _documents(self, base: Path) -> Iterator[PlacedDocument]:
        id_tag, texts = self.id_tag.lower(), [tag.lower() for tag in self.text_tags]
        named = None if self.field_tags is None else [tag.lower() for tag in self.field_tags]
        known = {id_tag, *texts, *(_DOCUMENT_FIELDS if named is None else named)}
        for path in find_files(self.documents, base):
            for element in read_elements(read_file_text(path), self.document_tag, known, name=path.name):
                place = f"{path.name}:{element.line}"
                own_id = _required(element.fields, id_tag, place)
                kept = element.fields if named is None else {tag: element.fields.get(tag, "") for tag in named}
                fields = {tag: text for tag, text in kept.items() if tag not in (id_tag, BODY, "", *texts)}
                body = [element.fields[tag] for tag in ("", *texts) if element.fields.get(tag)]
                yield place, Document(own_id, fields | {BODY: "\n".join(body)})

    def _queries(self, base: Path) -> Iterator[PlacedQuery]:
        position = 0
        tags = [tag.lower() for tag in self.query_tags]
        for path in find_files(self.queries, base):
            for element in read_elements(read_file_text(path), _TOPIC, _TOPIC_FIELDS | set(tags), name=path.name):
                position += 1
                place = f"{path.name}:{element.line}"
                is_numbered = self.query_ids == _NUMBER
                own_id = _required(element.fields, _NUMBER, place) if is_numbered else str(position)
                texts = [_LABEL.sub("", element.fields.get(tag, "")) for tag in tags]
                yield place, Query(own_id, "\n".join(texts))


def _required(fields: Mapping[str, str], tag: str, place: str) -> str:
    text = _LABEL.sub("", fields.get(tag, ""))
    if not text:
        there = ", ".join(f"<{name}>" for name in fields if name)
        raise InvalidInput(f"has no <{tag}>; there are {there}", place=place)
    return text
