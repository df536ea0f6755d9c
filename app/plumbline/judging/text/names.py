"""Names: those that no context has, in whatever form (Nazis and Nazi, USA spelt out), and two in each other's place."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import STEM, detect_language, has_content, split_words, to_simplified

# A word with a capital inside a sentence; the first word of a sentence has one anyway.
_CAPITAL = "[A-ZÀ-ÖØ-ÞА-ЯЁ]"
_CAPITALISED = re.compile(rf"{_CAPITAL}(?<![^\W_]{_CAPITAL})\w*(?:['’][A-Za-z]+)?")
# German writes every noun with a capital: a name is two of them side by side.
_NAME_PAIR = re.compile(rf"(?<![^\W_])({_CAPITAL}\w{{1,40}}) ({_CAPITAL}\w{{1,40}})")
# Identifiers of programs are names, wherever they stand: load_table, --prune, maxWorkers.
_IDENTIFIER = re.compile(r"(?<![\w-])(?:--[a-z][\w-]{1,60}|[A-Za-z]\w{0,60}_\w{1,60}|[a-z]{2,20}[A-Z]\w{1,60})")
_INNER_CAPITAL = re.compile(r"[A-Z](?<=[a-z][A-Z])")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
# Units behind a number: "900 MPa".
_UNIT = re.compile(r"\d\s?(?P<unit>[kMGT]?(?:Pa|Hz|Wh|VA|W|V|A|J|N|B|bps|eV|bar)|Nm|Ah|Mbit|Gbit)\b")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_SHORTEST_NAME = 2
_PHRASES = Phrases("judging/text/names")
_DATES = _PHRASES.words("dates")
_NO_NAMES = _PHRASES.words("dates", "no_names")
_ENGLISH, _GERMAN = _PHRASES.words("english"), _PHRASES.words("german")
_ACRONYM = re.compile(r"\b[A-Z](?:\.?[A-Z]){1,6}\b")
# "World Health Organization", "Bank of England".
_SPELT_OUT = re.compile(r"\b[A-Z]\w+(?:(?: of| the| for| and| &)? [A-Z]\w+){1,6}")
_INITIAL = re.compile(r"\b[A-Z]")
# Forms of one name begin alike and end in a few letters more: Nazi and Nazism, America and American; not Austrian and
# Australian, Maria and Marie.
_SHORTEST_NAME_WITH_ENDING = 4
_LONGEST_ENDING = 3


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
        if "_" in text or "--" in text or _INNER_CAPITAL.search(text):
            unknown += [match.group() for match in _IDENTIFIER.finditer(text) if not self._has_parts(match.group())]
        if not unknown:
            return ()
        spelt_out = self._spelt_out(text)
        return tuple(name for name in unknown if name not in spelt_out)

    def _is_known(self, name: str) -> bool:
        if name.lower() in self._words and name[1:].islower() and name.isascii() and name.isalpha():
            return True
        parts = split_words(name).every
        if all(part in self._words for part in parts) or parts[0] in _NO_NAMES or not has_content(name):
            return True
        return all(map(self._has_form, parts)) or (name.isupper() and name.lower() in self._initials)

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

    def _spelt_out(self, text: str) -> frozenset[str]:
        """Return the words of names whose initials the texts have as an acronym."""
        return frozenset(
            word
            for match in _SPELT_OUT.finditer(text)
            if "".join(_INITIAL.findall(match.group())) in self._acronyms
            for word in match.group().split()
        )

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


def _stems(word: str) -> Iterator[str]:
    """Yield the word, and it without an ending of up to three letters."""
    for end in range(max(_SHORTEST_NAME_WITH_ENDING, len(word) - _LONGEST_ENDING), len(word) + 1):
        yield word[:end]


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))


_NAME_WORD = r"[A-ZÀ-ÖØ-ÞА-ЯЁ][\w-]*(?:['’][A-Z]\w*)?"
_NAME = re.compile(rf"{_NAME_WORD}(?: (?:(?:of|de|van|von|the) )?{_NAME_WORD}){{0,6}}")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NO_ACT = re.compile(_PHRASES.pattern("no_acts"), re.IGNORECASE)
_PASSIVE = "by"
# Words between two names, words around a verb, and characters of a passage: a longer one is a list or a table.
_MAX_BETWEEN, _REACH, _REACH_OF_BY, _LONGEST = 4, 5, 3, 300


_CLAUSE_END = re.compile("[，。；：！？,;!?]")
_LIGHT_ZH = re.compile(r"[了着过的\s]")
# The order of names says nothing where one side alone has such a word.
_VOICE_ZH = "被由给把对向与和及跟同为是让叫"
_CLAUSE_ZH = range(6, 121)
_NO_NAME_ZH = re.compile(r"[\d不没未无]")
_SHORTEST_RUN, _SHORTEST_NAME_ZH, _LONGEST_RUN, _RUNS = 2, 3, 12, 3
_MAX_CLAUSES = 24
# Least share of the claim's clause in runs that the passage's has: above one half.
_MIN_SHARED = 0.55


def are_swapped(claim: str, passages: Sequence[str]) -> bool:
    """Return True if a passage has two names of the claim around its verb the other way round, and none as it has."""
    passages = [passage for passage in passages if len(passage) <= _LONGEST and "|" not in passage]
    acts = list(_acts_of(claim)) if passages else []
    if passages and not claim.isascii() and detect_language(claim) == "zh":
        known = [clause for passage in passages for clause in _clauses(passage)][:_MAX_CLAUSES]
        return any(_is_turned(clause, known) for clause in _clauses(claim))
    if not acts:
        return False
    said = [[word.casefold() for word in _WORD.findall(passage)] for passage in passages]
    return any(
        any(_acts(words, other, verb, one) for words in said)
        and not any(_acts(words, one, verb, other) for words in said)
        for one, verb, other in acts
    )


def _acts_of(text: str) -> Iterator[tuple[Collection[str], str, Collection[str]]]:
    """Yield who acts, the stem of the verb, and upon whom, of two names with one word of content between them."""
    names = list(_NAME.finditer(text))
    for first, second in pairwise(names):
        between = text[first.end() : second.start()]
        words = between.casefold().split()
        if len(words) > _MAX_BETWEEN or _NO_ACT.search(between):
            continue
        verbs = [word for word in split_words(between).without_stopwords if word != _PASSIVE]
        if len(verbs) != 1:
            continue
        one, other = (set(split_words(name.group()).without_stopwords) for name in (first, second))
        if one and other and not one & other and not (one | other) & _DATES:
            yield ((other, verbs[0][:STEM], one) if _PASSIVE in words else (one, verbs[0][:STEM], other))


def _acts(words: Sequence[str], one: Collection[str], verb: str, other: Collection[str]) -> bool:
    for at, word in enumerate(words):
        if word[:STEM] == verb:
            before, after = set(words[max(0, at - _REACH) : at]), set(words[at + 1 : at + 1 + _REACH])
            if _PASSIVE in words[at + 1 : at + 1 + _REACH_OF_BY]:
                before, after = after, before
            if not before.isdisjoint(one) and not after.isdisjoint(other) and before.isdisjoint(other):
                return after.isdisjoint(one)
    return False


def _clauses(text: str) -> list[str]:
    clauses = _CLAUSE_END.split(_LIGHT_ZH.sub("", to_simplified(text)))
    return [clause for clause in clauses if len(clause) in _CLAUSE_ZH]


def _is_turned(clause: str, known: Sequence[str]) -> bool:
    """Return True if three runs of a clause, two of them as long as names, stand in one of these from last to first."""
    turned = False
    for other in known:
        if clause in other:
            return False
        if any((mark in clause) != (mark in other) for mark in _VOICE_ZH):
            continue
        places = _shared_runs(clause, other)
        if sum(length for _, length in places) < _MIN_SHARED * len(clause):
            continue
        for (first, one), (middle, _), (last, two) in zip(places, places[1:], places[2:], strict=False):
            names = other[first : first + one] + other[last : last + two]
            turned |= first > middle > last and min(one, two) >= _SHORTEST_NAME_ZH and not _NO_NAME_ZH.search(names)
    return turned


def _shared_runs(clause: str, other: str) -> list[tuple[int, int]]:
    """Return place and length in the other clause of the longest runs of this one, in order; none where one repeats."""
    found, at = [], 0
    while at < len(clause) - 1:
        length = _SHORTEST_RUN if clause[at : at + _SHORTEST_RUN] in other else 0
        while 0 < length < min(_LONGEST_RUN, len(clause) - at) and clause[at : at + length + 1] in other:
            length += 1
        if length:
            if other.count(clause[at : at + length]) > 1:
                return []
            found.append((other.find(clause[at : at + length]), length))
        at += length or 1
    return found if len(found) >= _RUNS else []
