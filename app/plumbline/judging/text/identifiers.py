"""Identifiers: links, addresses, file names, versions, hashes and codes, which are compared whole."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from plumbline.ground.deadline import within_deadline
from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import nfkc

Kind = Literal["link", "address", "file", "version", "hash", "code"]

_WORDS: Final = Phrases("judging/text/identifiers")
_CANDIDATE: Final = re.compile(_WORDS.pattern("candidate"))
_PATTERNS: Final = re.compile(_WORDS.pattern("forms"))
# Quarters, halves, amounts behind their currency, and words that lead a number: "mid-2020".
_NO_CODE: Final = re.compile(_WORDS.pattern("no_codes"), re.IGNORECASE)
_WEAK: Final = re.compile(r"[a-z]+-?(?!0)\d{1,4}s?")
_TRAILING: Final = ".,;:!?*_`'\"’”…-"
_RUN: Final = re.compile(r"[a-z]+|\d+")
_PLURAL: Final = re.compile(r"(?<=\d)s\Z")
_SEPARATORS: Final = r"[-_ ./#]?"
_MAX_IDENTIFIERS: Final = 200
_BEYOND_LINK: Final = r"/?(?![\w/?=&%#-]|\.\w)"


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name of digits and letters as it is written at [start:end)."""

    text: str
    kind: Kind
    start: int
    end: int


def find_identifiers(text: str) -> Iterator[Identifier]:
    spans = (each.span() for each in _CANDIDATE.finditer(text))
    for match in (match for start, end in spans for match in _PATTERNS.finditer(text, start, end)):
        written = match.group().rstrip(_TRAILING)
        kind = match.lastgroup or "code"
        if kind == "code" and _NO_CODE.fullmatch(written):
            continue
        start = match.start()
        yield Identifier(written, "link" if kind == "host" else kind, start, start + len(written))  # type: ignore[arg-type]


class KnownIdentifiers:
    """Identifiers that texts have: a code however it is parted, all others letter for letter."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._folded: list[str] | None = None

    def find_unknown(self, text: str) -> tuple[str, ...]:
        found = {each.text: each for each in find_identifiers(text)}
        return tuple(name for name, each in list(found.items())[:_MAX_IDENTIFIERS] if not self._has(each))

    def _has(self, identifier: Identifier) -> bool:
        if self._folded is None:
            self._folded = [nfkc(text).lower() for text in self._texts]
        name = written = nfkc(identifier.text).lower()
        if identifier.kind in ("version", "code"):
            # "V 2.1" and "COVID 19" are "v2.1" and "COVID-19".
            runs = _RUN.findall(name.removeprefix("v") if identifier.kind == "version" else _PLURAL.sub("", name))
            whole = (r"\." if identifier.kind == "version" else _SEPARATORS).join(map(re.escape, runs))
            pattern = re.compile(rf"(?<![a-z0-9])v?{whole}s?(?![a-z0-9])")
            if _WEAK.fullmatch(name) and not self._search(re.compile(rf"(?<![a-z0-9]){runs[0]}-?\d")):
                return True
            return self._search(pattern)
        if identifier.kind == "link":
            name = (name.partition("://")[2] or name).removeprefix("www.").rstrip("/")
            if "/" in name:
                return self._search(re.compile(rf"(?<![\w-]){re.escape(name)}{_BEYOND_LINK}"))
            # A host alone is that of a longer link, or the name of who has it: Booking.com.
            is_bare = written == name
            wanted = re.escape(name.rsplit(".", 2)[-2] if is_bare else name)
            return self._search(re.compile(rf"(?<![a-z0-9-]){wanted}(?![a-z0-9-])"))
        return self._search(re.compile(rf"(?<![\w.@-]){re.escape(name)}(?![\w-]|\.\w)", re.ASCII))

    def _search(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(text) for text in within_deadline(self._folded or ()))
