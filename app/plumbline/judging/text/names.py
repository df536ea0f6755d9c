"""Names that no context has, in whatever form: Nazis and Nazi, USA spelt out, Oregon for OR."""

import re
import unicodedata
from collections.abc import Collection, Container, Iterator, Sequence
from functools import cached_property

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import (
    COMMON_CHARACTERS,
    EVERYDAY_CHARACTERS,
    FUNCTION_CHARACTERS,
    STEM,
    has_content,
    is_han,
    split_tokens,
    split_words,
)

# A word with a capital inside a sentence; the first word of a sentence has one anyway.
_CAPITAL = "[A-ZÀ-ÖØ-ÞА-ЯЁ]"
_CAPITALISED = re.compile(rf"{_CAPITAL}(?<![^\W_]{_CAPITAL})\w*(?:['’][A-Za-z]+)?")
# The first word behind a full stop or a colon, before one without a capital: "STA: Perform all checks".
_LEADING = re.compile(
    rf"(?P<before>\w{{0,12}})[.:!?;]['\"”’)]? +[\"“'(]?(?P<name>{_CAPITAL}\w*)(?=,? [^\W\d_A-ZÀ-ÖØ-ÞА-ЯЁ])"
)
_FIRST = re.compile(r"[\W_]*(?:[^\W_](?:['’](?=[A-Z]))?)?")
_COMPOUND = re.compile(rf"(?<![\w-]){_CAPITAL}\w{{0,20}}(?:-\w{{1,20}}){{1,3}}")
# German writes every noun with a capital: a name is two of them side by side.
_NAME_PAIR = re.compile(rf"(?<![^\W_])({_CAPITAL}\w{{1,40}}) (?=({_CAPITAL}\w{{1,40}}))")
# Identifiers of programs are names, wherever they stand: load_table, --prune, maxWorkers.
_IDENTIFIER = re.compile(r"(?<![\w-])(?:--[a-z][\w-]{1,60}|[A-Za-z]\w{0,60}_\w{1,60}|[a-z]{2,20}[A-Z]\w{1,60})")
_INNER_CAPITAL = re.compile(r"[A-Z](?<=[a-z][A-Z])")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_CONTRACTION = re.compile(r"['’](?:m|d|ll|re|ve|t|s)\Z", re.IGNORECASE)
_SHORTEST_NAME = 2
_PHRASES = Phrases("judging/text/names")
# Units and currencies, which are compared with their number: "900 MPa", "USD 5".
_UNIT = re.compile(_PHRASES.pattern("units"))
_NO_NAMES, _TITLES = _PHRASES.words("dates", "no_names"), _PHRASES.words("titles")
_ENGLISH, _GERMAN = _PHRASES.words("english"), _PHRASES.words("german")
_GROUPS_BY_WORDING: dict[str, set[int]] = {}
for _group, _wordings in enumerate(_PHRASES.read("same")):
    for _wording in _wordings.split(", "):
        _GROUPS_BY_WORDING.setdefault(_wording, set()).add(_group)
_SAME = re.compile(
    rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(_GROUPS_BY_WORDING, key=len, reverse=True)))})(?!\w)"
)
_ACRONYM = re.compile(r"\b[A-Z](?:\.?[A-Z]){1,6}\b")
# "Cardiothoracic ratio (CTR)": where an answer spells out what it abbreviates, its words are compared.
_OWN_ACRONYM = re.compile(
    r"(?P<words>(?<![\w'’-])(?:[\w'’-]{1,30} ){1,8})\((?:the )?[\"“]?(?P<name>[A-Z][A-Za-z]{0,5}[A-Z])s?[\"”]?\)"
)
# "World Health Organization", "Bank of England".
_SPELT_OUT = re.compile(r"\b(?!The )[A-Z]\w+(?:(?: of| of the| the| for| and| &)? [A-Z]\w+){1,6}")
_INITIAL = re.compile(r"\b[A-Z](?:[A-Z]+\b)?")
# Forms of one name begin alike and end in a few letters more: Nazi and Nazism, America and American; not Austrian and
# Australian, Maria and Marie.
_SHORTEST_NAME_WITH_ENDING = 4
_LONGEST_ENDING = 3


class KnownNames:
    """Names that texts have, by the words of all of them and by the texts themselves.

    `answer`: an abbreviation that it explains itself is no name of its own.
    """

    def __init__(self, words: Collection[str], texts: Sequence[str], *, answer: str = "") -> None:
        self._words = words
        self._texts = texts
        self._own = frozenset(
            match["name"] for match in _OWN_ACRONYM.finditer(answer) if _abbreviates(match["name"], match["words"])
        )

    def find_unknown(self, text: str) -> tuple[str, ...]:
        """Return the capitalised words and identifiers, the first word apart, that the texts do not have."""
        start = _FIRST.match(text).end()  # type: ignore[union-attr]
        found = dict.fromkeys(match.group() for match in _CAPITALISED.finditer(text, start))
        if found and self._is_german:
            pairs = (match.groups() for match in _NAME_PAIR.finditer(text, start))
            found = dict.fromkeys(name for pair in pairs if not any(map(self._is_known, pair)) for name in pair)
        unknown = [name for name in found if len(name) >= _SHORTEST_NAME and not self._is_known(name)]
        if "_" in text or "--" in text or _INNER_CAPITAL.search(text):
            unknown += [match.group() for match in _IDENTIFIER.finditer(text) if not self._has_parts(match.group())]
        if not unknown:
            return ()
        cleared = {match.group() for match in _UNIT.finditer(text)} | self._in_other_words(text)
        cleared |= {each["name"] for each in _LEADING.finditer(text) if each["before"].lower() not in _TITLES}
        return tuple(name for name in unknown if _bare_name(name) not in cleared)

    def _is_known(self, name: str) -> bool:
        name = _bare_name(name)
        if name in self._own or name.lower() in self._words or (name.isupper() and f"{name.lower()}s" in self._words):
            return True
        parts = split_words(name).every
        if not parts or all(part in self._words for part in parts) or parts[0] in _NO_NAMES or not has_content(name):
            return True
        if all(map(self._has_form, parts)) or (name.isupper() and name.lower() in self._initials):
            return True
        # "Playstation" for "PlayStation", whose words were parted
        return len(name) > STEM and re.search(rf"\b{re.escape(name.casefold())}\b", self._folded_texts) is not None

    def _has_parts(self, identifier: str) -> bool:
        if all(part.lower() in self._words for part in _PART.findall(identifier)):
            return True
        return identifier.casefold() in self._folded_texts

    def _has_form(self, word: str) -> bool:
        if word in self._words:
            return True
        bare = _without_accents(word)
        if bare in self._bare or (len(bare) >= _SHORTEST_NAME_WITH_ENDING and bare in self._stems):
            return True
        stems = _stems(bare)
        return any(stem in self._stems if len(stem) >= STEM else stem in self._bare for stem in stems)

    def _in_other_words(self, text: str) -> set[str]:
        """Return the words of names that the texts have as an acronym, or in another wording of the list."""
        names = [
            match.group()
            for match in _SPELT_OUT.finditer(text)
            if "".join(_INITIAL.findall(match.group())) in self._acronyms
        ]
        wordings = (match.group() for match in _SAME.finditer(text))
        names += [each for each in wordings if not self._groups.isdisjoint(_GROUPS_BY_WORDING[each])]
        # "Wi-Fi" for "wifi"
        names += [each for each in _COMPOUND.findall(text) if each.replace("-", "").lower() in self._words]
        return {word for name in names for word in (name, *re.split("[ -]", name))}

    @cached_property
    def _folded_texts(self) -> str:
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

    @cached_property
    def _groups(self) -> frozenset[int]:
        found = (match.group() for text in self._texts for match in _SAME.finditer(text))
        return frozenset(group for wording in found for group in _GROUPS_BY_WORDING[wording])


def _bare_name(name: str) -> str:
    """Return a name without what is contracted with it, and an acronym without the ending of its plural."""
    bare = _CONTRACTION.sub("", name)
    return bare[:-1] if bare[-1:] == "s" and bare[-2:-1].isupper() else bare


def _abbreviates(name: str, words: str) -> bool:
    """Return True if the letters of an abbreviation stand in these words in order, the first one as an initial."""
    folded = words.lower()
    for word in re.finditer(rf"\b{name[0].lower()}", folded):
        rest = iter(folded[word.start() :])
        if all(letter in rest for letter in name.lower()):
            return True
    return False


def _stems(word: str) -> Iterator[str]:
    """Yield the word, and it without an ending of up to three letters."""
    for end in range(max(_SHORTEST_NAME_WITH_ENDING, len(word) - _LONGEST_ENDING), len(word) + 1):
        yield word[:end]


def _without_accents(word: str) -> str:
    """Return a word without accents."""
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))


_EVERYDAY = COMMON_CHARACTERS | FUNCTION_CHARACTERS | EVERYDAY_CHARACTERS
_ENDS_OF_NAME = "".join(sorted(_EVERYDAY))
# So many uncommon characters make a name, where no word at its ends is known or common: on dev all answers with one are
# unfaithful; with two, and common characters at the ends, 17 of 135 were not.
_UNCOMMON_IN_NAME = 3
# A negation, a pronoun or a preposition ends a name.
_PARTING = frozenset("不没未无非别您你我他她它们由以与和及于在是为的")
_NAMED_HAN = re.compile(_PHRASES.pattern("zh.names").replace("(?P<name>", "("))


def find_unknown_han(text: str, known: Container[str], told: str) -> tuple[str, ...]:
    """Return the Chinese names that are not in the texts: runs of uncommon characters, and those that words introduce.

    `known`: the characters of these texts; `told`: the texts.
    """
    found: list[str] = []
    for match in _NAMED_HAN.finditer(text):
        name = next(filter(None, match.groups()))
        if name not in told and any(unit not in known and unit not in _EVERYDAY for unit in name):
            found.append(name)
    for token in filter(is_han, split_tokens(text)):
        marked = "".join(" " if unit in known or unit in _PARTING else unit for unit in token)
        words = (run.strip(_ENDS_OF_NAME) for run in marked.split())
        found += (
            run
            for run in words
            if sum(unit not in _EVERYDAY for unit in run) >= _UNCOMMON_IN_NAME and not any(map(run.__contains__, found))
        )
    return tuple(dict.fromkeys(found))
