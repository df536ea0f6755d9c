"""Names in a sentence that other texts do not have, in whatever form: Nazis and Nazi, São and Sao, USA spelt out."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from plumbline.judging.text.words import has_content, split_words

# A word with a capital inside a sentence; the first word of a sentence has one anyway.
_CAPITAL = "[A-ZÀ-ÖØ-ÞА-ЯЁ]"
_CAPITALISED = re.compile(rf"(?<![^\W_]){_CAPITAL}\w*(?:['’][A-Za-z]+)?")
# In German, where every noun has a capital, two side by side.
_NAME_PAIR = re.compile(rf"(?<![^\W_])({_CAPITAL}\w{{1,40}}) ({_CAPITAL}\w{{1,40}})")
# Identifiers of programs are names, wherever they stand: load_table, --prune, maxWorkers.
_IDENTIFIER = re.compile(r"(?<![\w-])(?:--[a-z][\w-]{1,60}|[A-Za-z]\w{0,60}_\w{1,60}|[a-z]{2,20}[A-Z]\w{1,60})")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
# Units behind a number: "900 MPa".
_UNIT = re.compile(r"\d\s?(?P<unit>[kMGT]?(?:Pa|Hz|Wh|VA|W|V|A|J|N|B|bps|eV|bar)|Nm|Ah|Mbit|Gbit)\b")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_SHORTEST_NAME = 2
# Capitalised, and no names: dates are compared as such, titles say nothing of who is meant.
_NO_NAMES = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"}
    | {"december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "monday"}
    | {"januar", "februar", "märz", "mai", "juni", "juli", "oktober", "dezember", "montag", "dienstag", "mittwoch"}
    | {"donnerstag", "freitag", "samstag", "sonntag", "herr", "frau", "sie", "ihnen", "ihr", "ihre", "ihren"}
    | {"tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "mr", "mrs", "ms", "dr", "sr", "jr", "st"}
)
_ACRONYM = re.compile(r"\b[A-Z](?:\.?[A-Z]){1,6}\b")
# "World Health Organization", "Bank of England".
_SPELT_OUT = re.compile(r"\b[A-Z]\w+(?:(?: of| the| for| and| &)? [A-Z]\w+){1,6}")
_INITIAL = re.compile(r"\b[A-Z]")
# Forms of one name begin alike and end in a few letters more: Nazi and Nazism, America and American; not Austrian and
# Australian, Maria and Marie.
_STEM = 5
_SHORTEST_NAME_WITH_ENDING = 4
_LONGEST_ENDING = 3


# Words that most texts of the language have, and that no other language writes alike.
_ENGLISH = frozenset({"the", "of", "and", "is"})
_GERMAN = frozenset(
    {"der", "das", "dem", "und", "ist", "nicht", "eine", "einen", "wird", "wurde", "sich", "auf", "für", "mit", "nach"}
    | {"ab", "bis", "vom", "von", "zum", "zur", "aus", "auch", "werden", "sind", "die", "ein", "im"}
)


class KnownNames:
    """Names that texts have, by the words of all of them and by the texts themselves."""

    def __init__(self, words: Collection[str], texts: Sequence[str]) -> None:
        self._words = words
        self._texts = texts

    def find_unknown(self, text: str) -> tuple[str, ...]:
        """Return the capitalised words and identifiers, the first word apart, that the texts do not have."""
        first = _LETTER_OR_DIGIT.search(text)
        found = dict.fromkeys(match.group() for match in _CAPITALISED.finditer(text, first.start() + 1 if first else 0))
        if found and self._is_german:
            pairs = (match.groups() for match in _NAME_PAIR.finditer(text, first.start() + 1 if first else 0))
            found = dict.fromkeys(name for pair in pairs if not any(map(self._is_known, pair)) for name in pair)
        units = {match["unit"] for match in _UNIT.finditer(text)} if found else ()
        unknown = [
            name for name in found if len(name) >= _SHORTEST_NAME and name not in units and not self._is_known(name)
        ]
        unknown += [match.group() for match in _IDENTIFIER.finditer(text) if not self._has_parts(match.group())]
        if not unknown:
            return ()
        spelt_out = self._spelt_out(text)
        return tuple(name for name in unknown if name not in spelt_out)

    def _is_known(self, name: str) -> bool:
        parts = split_words(name).every
        if all(part in self._words for part in parts) or parts[0] in _NO_NAMES or not has_content(name):
            return True
        return all(map(self._has_form, parts)) or (name.isupper() and name.lower() in self._initials)

    def _has_parts(self, identifier: str) -> bool:
        if all(part.lower() in self._words for part in _PART.findall(identifier)):
            return True
        return identifier.casefold() in self._folded

    def _has_form(self, word: str) -> bool:
        if word in self._words:
            return True
        bare = _without_accents(word)
        if bare in self._bare or (len(bare) >= _SHORTEST_NAME_WITH_ENDING and bare in self._stems):
            return True
        stems = _stems(bare)
        return any(stem in self._stems if len(stem) >= _STEM else stem in self._bare for stem in stems)

    def _spelt_out(self, text: str) -> frozenset[str]:
        """Return the words of names whose initials the texts have as an acronym."""
        return frozenset(
            word
            for match in _SPELT_OUT.finditer(text)
            if "".join(_INITIAL.findall(match.group())) in self._acronyms
            for word in match.group().split()
        )

    @cached_property
    def _folded(self) -> str:
        return "\n".join(self._texts).casefold()

    @cached_property
    def _is_german(self) -> bool:
        """Return True if the texts are German, which writes every noun with a capital."""
        return _ENGLISH.isdisjoint(self._words) and len(_GERMAN.intersection(self._words)) > 1

    @cached_property
    def _bare(self) -> frozenset[str]:
        return frozenset(map(_without_accents, self._words))

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(stem for word in self._bare for stem in _stems(word))

    @cached_property
    def _acronyms(self) -> frozenset[str]:
        return frozenset(found.replace(".", "") for text in self._texts for found in _ACRONYM.findall(text))

    @cached_property
    def _initials(self) -> str:
        return " ".join("".join(_INITIAL.findall(text)) for text in self._texts).lower()


def _stems(word: str) -> Iterator[str]:
    """Yield the word, and it without an ending of up to three letters."""
    for end in range(max(_SHORTEST_NAME_WITH_ENDING, len(word) - _LONGEST_ENDING), len(word) + 1):
        yield word[:end]


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
