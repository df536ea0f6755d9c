"""Elements of TREC's files, XML or the SGML of old: read by tags alone, without a grammar.

XML parsers refuse these files (no root, a bare `&`, end tags left out), and HTML's rules are others: a title without
its end tag would take the topic's description with it. Nothing is expanded but characters by number and HTML's names
with their semicolon, so no file can grow by being read. One pass, linear in the length of the text.
"""

import html
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from plumbline.ground.errors import InvalidInput

_VALUE: Final = r"\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>/]++)"
# Attributes need values: `x <y and z> w` is text.
_MARK: Final = re.compile(
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
    """One document or topic: the line where it begins, from 1, and its fields in order of their first tags.

    Names are in lower case. What stands in several tags of one name is joined by a line end; what stands outside of
    all tags has the name `""`.
    """

    line: int
    fields: dict[str, str]


def read_elements(text: str, tag: str, known: Collection[str], *, name: str) -> Iterator[Element]:
    """The elements named `tag`, in order; capitals do not count.

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
    while match := _MARK.search(text, position):
        if match.start() > position:
            yield _Token("text", "", _unescaped(text[position : match.start()]), position)
        tag = match["name"]
        if tag is None:
            position = _end_of(text, match, name)
            if match[0].upper() == "<![CDATA[":
                yield _Token("text", "", text[match.end() : position - len("]]>")], match.start())
            continue
        position = match.end()
        yield _Token("end" if match["slash"] else "start", tag.lower(), "", match.start())
        if match["empty"] and not match["slash"]:
            yield _Token("end", tag.lower(), "", match.start())
    if position < len(text):
        yield _Token("text", "", _unescaped(text[position:]), position)


def _end_of(text: str, match: re.Match[str], name: str) -> int:
    """Where a comment, a declaration or the like ends."""
    opening = match[0].upper()
    end = text.find(_ENDS[opening], match.end())
    if end < 0:
        raise InvalidInput(f"{match[0]} is never closed; expected {_ENDS[opening]}", place=_place(text, match, name))
    if opening == "<!DOCTYPE" and "[" in text[match.end() : end]:
        detail = "the document type declares entities, which are not read here; take it out"
        raise InvalidInput(detail, place=_place(text, match, name))
    return end + len(_ENDS[opening])


def _place(text: str, match: re.Match[str], name: str) -> str:
    line = text.count("\n", 0, match.start()) + 1
    return f"{name}:{line}"


def _unescaped(text: str) -> str:
    return _CHARACTER.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def _fields(tokens: list[_Token], known: Collection[str]) -> dict[str, str]:
    parts: dict[str, list[str]] = {}
    closed = _closed_starts(tokens)
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


def _closed_starts(tokens: list[_Token]) -> set[int]:
    """Places of the start tags that an end tag of their name follows before they are opened again."""
    following: dict[str, str] = {}
    closed = set()
    for place in reversed(range(len(tokens))):
        token = tokens[place]
        if token.kind == "start" and following.get(token.name) == "end":
            closed.add(place)
        following[token.name] = token.kind
    return closed
