"""Names in each other's place: "Huber lent Brandl ten crowns" where a passage says that Brandl lent them to Huber."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from plumbline.judging.text.words import content_words, detect_language, has_content, to_simplified

_PART = r"[A-ZÀ-ÖØ-ÞА-ЯЁ][\w-]*(?:['’][A-Z]\w*)?"
_NAME = re.compile(rf"{_PART}(?: (?:(?:of|de|van|von|the) )?{_PART}){{0,6}}")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Between two names it makes no actor of the first: both act, the relation has no direction, or a clause ends.
_NO_ACT = re.compile(
    r"\b(?:of|and|or|with|between|than|as|like|for|from|who|which|that|whose|is|are|both|vs|versus|not|met|meets|married"
    r"|marries|to)\b|['’]s\b|n['’]t\b|[^\w\s'’.-]",
    re.IGNORECASE,
)
_PASSIVE = "by"
_DATES = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"}
    | {"december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)
# Words between two names, words around a verb, and characters of a passage: a longer one is a list or a table.
_MAX_BETWEEN, _REACH, _REACH_OF_BY, _LONGEST = 4, 5, 3, 300
_STEM = 5

_CLAUSE_END = re.compile("[，。；：！？,;!?]")
_LIGHT_ZH = re.compile(r"[了着过的\s]")
# Where one side alone has such a word, the order of the names says nothing.
_VOICE_ZH = "被由给把对向与和及跟同为是让叫"
_CLAUSE_ZH = range(6, 121)
_NO_NAME_ZH = re.compile(r"[\d不没未无]")
_SHORTEST_RUN, _SHORTEST_NAME, _LONGEST_RUN, _RUNS = 2, 3, 12, 3
_MAX_CLAUSES = 24
# Of the claim's clause, in runs that the passage's has: above one half.
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
        if len(words) > _MAX_BETWEEN or _NO_ACT.search(between) or not has_content(between):
            continue
        verbs = [word for word in content_words(between) if word != _PASSIVE]
        one, other = ({word for word in content_words(name.group()) if has_content(word)} for name in (first, second))
        if len(verbs) == 1 and one and other and not one & other and not (one | other) & _DATES:
            yield (other, verbs[0][:_STEM], one) if _PASSIVE in words else (one, verbs[0][:_STEM], other)


def _acts(words: Sequence[str], one: Collection[str], verb: str, other: Collection[str]) -> bool:
    for at, word in enumerate(words):
        if word[:_STEM] == verb:
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
            turned |= first > middle > last and min(one, two) >= _SHORTEST_NAME and not _NO_NAME_ZH.search(names)
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
