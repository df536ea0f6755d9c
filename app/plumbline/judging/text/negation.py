"""Negation: a claim that says yes where its evidence says no, or the reverse."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import (
    STEM,
    content_words,
    detect_language,
    has_content,
    split_words,
    to_simplified,
)

_PHRASES = Phrases("judging/text/negation")
_NO_EN = re.compile(rf"\b(?:{_PHRASES.pattern('en.negations')})\b|n['’]t\b")
_NO_NEGATION_EN = re.compile(_PHRASES.pattern("en.no_negations"))
_NEGATIVE_EN = re.compile(rf"\b(?:{_PHRASES.pattern('en.negative')})\b|n['’]t\b")
_NO_ZH = re.compile(_PHRASES.pattern("zh.negations"))
_NO_NEGATION_ZH = re.compile(_PHRASES.pattern("zh.no_negations"))
_NEGATIVE_ZH = re.compile(_PHRASES.pattern("zh.negative"))
# Said of what was done, and left out of what was not.
_ASPECT_ZH = re.compile("[了着过]")
_MIN_COVERAGE = 0.8
# Content words, and Han characters, that may stand between the subject and what is denied of it, the first included.
_GAP_WORDS = 2
_GAP_HAN = 3
_PAIR, _OBJECT_HAN, _REACH_HAN = 2, 3, 4
# "Running" for "runs", "stopped" for "stop".
_ENDING = re.compile(r"(?:([bdgmnprt])\1)?(?:ing|ed)\Z")
_AUXILIARIES = _PHRASES.words("en.auxiliaries")
_PERMISSIONS = _PHRASES.words("en.permissions")
_NT = frozenset({"n't", "n’t"})
_COPULA = re.compile(r"\b(?:is|are|was|were|be)(?: not\b|n['’]t\b)")
_MAX_PLACES = 16
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CLAUSE_END = re.compile(r"[,;:.!?]")
_CLAUSES = re.compile(r"[,;:.!?，；：。！？]\s*|\s(?:and|but|while|that|because)\s")
FEWEST_WORDS, _FEWEST_HAN = 3, 4
# Most texts have none of these, and are spared the patterns above.
_PARTS_EN = _PHRASES.read("en.parts")
_MARKS = (*_PHRASES.read("en.marks"), *"不没未无")
# "Fortunately," says nothing that could be repeated.
_OPENING = re.compile(r"\A\W*\w{2,20}ly, ")
_PARTICLES = _PHRASES.words("zh.particles")
_MODAL_ZH = re.compile(_PHRASES.pattern("zh.modals"))
_NOT_HAN = re.compile("[^\u3400-\u9fff]")
# "It was not Sun" denies that it was he, and nothing of what he did.
_NO_STATEMENT_EN = re.compile(_PHRASES.pattern("en.no_statements"))
_NO_STATEMENT_ZH = re.compile("^(?:并)?不是")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")
_NEGATORS = _PHRASES.words("en.negators")
_FAILURES = _PHRASES.words("en.failures")
_HAN_NEGATORS = _PHRASES.words("zh.negators")
_REVERSING = _PHRASES.words("en.reversing")
_REVERSING_ZH = re.compile(_PHRASES.pattern("zh.reversing"))


@dataclass(frozen=True)
class Clause:
    """A clause by its words and the number of its plain negations; `rest` is its text without them."""

    words: frozenset[str]
    negations: int
    rest: str
    is_chinese: bool

    @cached_property
    def is_negative(self) -> bool:
        """Return True if it has a negative turn besides."""
        return (_NEGATIVE_ZH if self.is_chinese else _NEGATIVE_EN).search(self.rest) is not None


def is_turned(quote: str, passage: str) -> bool:
    """Return True if two almost equal texts differ in a negation or in a word that reverses the sense, as "rose"."""
    return _turns(quote) != _turns(passage)


def differs(claim: str, evidence: str) -> bool:
    """Return True if the claim repeats a sentence's words but for a negation that only one of them has.

    Both sides must be in one language, and four fifths of the claim's content words stand in the evidence. A claim
    that negates is compared with any negative turn of the evidence; a claim that does not, with a plain negation of
    words that it repeats.
    """
    language = detect_language(claim)
    if language != detect_language(evidence) or language == "other":
        return False
    said, given = _OPENING.sub("", to_simplified(claim.casefold())), to_simplified(evidence.casefold())
    negation = _NO_ZH if language == "zh" else _NO_EN
    if not (negation.search(said) or negation.search(given)):
        return False
    if language == "zh":
        said, given = _ASPECT_ZH.sub("", said), _ASPECT_ZH.sub("", given)
    if language == "zh":
        known, words = set(given), list(_NOT_HAN.sub("", _NO_ZH.sub("", said)))
    else:
        known = {_stem(word) for word in _content(given)}
        words = [_stem(word) for word in _content(said) if word not in _NEGATORS | _FAILURES and word[-3:] not in _NT]
    if not words or sum(word in known for word in words) / len(words) < _MIN_COVERAGE:
        return False
    return _differs_zh(said, given) if language == "zh" else _differs_en(said, given)


def negates(text: str) -> bool:
    """Return False if a text has no plain negation in either language, so that it `differs` from none without one."""
    folded = to_simplified(text.casefold())
    if _may_negate(folded) and _NO_EN.search(folded):
        return True
    return not folded.isascii() and _NO_ZH.search(folded) is not None


def is_negative(text: str) -> bool:
    """Return True if a text has any negative turn: a negation, or a word such as "lacks" or 尚未."""
    folded = text.lower()
    return bool(_NEGATIVE_EN.search(folded) or _NEGATIVE_ZH.search(folded))


def is_denied(claim: Iterable[Clause], known: Iterable[Clause]) -> bool:
    """Return True if a clause has the words of known ones, one of the two a negation more, and none agrees; linear."""
    by_words: dict[frozenset[str], list[Clause]] = {}
    for other in known:
        by_words.setdefault(other.words, []).append(other)
    for clause in claim:
        alike = by_words.get(clause.words, [])
        if all((clause.negations + other.negations) % 2 for other in alike) and any(
            abs(clause.negations - other.negations) == 1
            and not (other if clause.negations > other.negations else clause).is_negative
            for other in alike
        ):
            return True
    return False


def may_deny(text: str) -> bool:
    """Return False if a text surely has no plain negation; quick."""
    return any(map(text.__contains__, _MARKS))


def split_clauses(text: str) -> Iterator[Clause]:
    is_zh = detect_language(text) == "zh"
    no, no_negation = (_NO_ZH, _NO_NEGATION_ZH) if is_zh else (_NO_EN, _NO_NEGATION_EN)
    left_out = _NEGATORS | _FAILURES | _PERMISSIONS
    for clause in _CLAUSES.split(to_simplified(text.casefold())):
        parts = no.split(no_negation.sub(" ", clause)) if is_zh or _may_negate(clause) else [clause]
        if is_zh:
            words = frozenset(_NOT_HAN.sub("", _MODAL_ZH.sub("", no.sub("", _ASPECT_ZH.sub("", clause))))) - _PARTICLES
        else:
            said = (word for word in _content(clause) if word not in left_out and word[-3:] not in _NT)
            words = frozenset(map(_stem, said))
        # What is denied stands behind the negation.
        fewest = _FEWEST_HAN if is_zh else FEWEST_WORDS
        if len(words) >= fewest and (is_zh or parts[-1] == clause or has_content(parts[-1])):
            yield Clause(words, len(parts) - 1, " ".join(parts) if len(parts) > 1 else clause, is_zh)


def _may_negate(folded: str) -> bool:
    return any(map(folded.__contains__, _PARTS_EN))


def _differs_en(claim: str, evidence: str) -> bool:
    said, given = _NO_NEGATION_EN.sub(" ", claim), _NO_NEGATION_EN.sub(" ", evidence)
    if negations := list(_NO_EN.finditer(said)):
        return (
            len(negations) == 1
            and not _NEGATIVE_EN.search(evidence)
            and not _NO_STATEMENT_EN.search(said)
            and _states(given, *_around(said, negations[0]), gap=1 if _COPULA.search(said) else _GAP_WORDS)
        )
    if _NEGATIVE_EN.search(claim):
        return False
    # The claim must assert what is negated, of the same subject.
    words = {_stem(word) for word in content_words(claim)}
    for place in islice(_NO_EN.finditer(given), _MAX_PLACES):
        before, after = _around(given, place)
        if after and all(_stem(word) in words for word in after[:2]) and _states(claim, before, after[:2]):
            return True
    return False


def _around(text: str, negation: re.Match[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the content words before a negation, "did" of "didn't" apart, and those after it."""
    before = text[: negation.start()]
    if negation.group().startswith("n"):
        before = before.rstrip(_LETTERS)
    return _content(before), _content(_CLAUSE_END.split(text[negation.end() :], maxsplit=1)[0])


def _states(text: str, before: Sequence[str], after: Sequence[str], *, gap: int = _GAP_WORDS) -> bool:
    """Return True if the text says of what stands before a negation what stands after it, the two side by side."""
    words = [_stem(word) for word in _content(text)]
    after = [_stem(word) for word in after if _stem(word) in words]
    if not after:
        return False
    starts = [at for at, word in enumerate(words) if word == after[0]]
    if before:
        subjects = {at for at, word in enumerate(words) if word == _stem(before[-1])}
        starts = [at for at in starts if any(at - back in subjects for back in range(1, gap + 1))]
    else:
        starts = [at for at in starts if at == 0]
    end = None if before else len(after) + 1
    return any(_follow(words[start:end], after) for start in starts[:_MAX_PLACES])


def _stem(word: str) -> str:
    if len(word) > STEM and word.endswith(("ing", "ed")):
        word = _ENDING.sub(lambda match: match[1] or "", word)
    return word[:STEM].rstrip("se")


def _follow(words: Sequence[str], wanted: Sequence[str]) -> bool:
    rest = iter(words)
    return all(word in rest for word in wanted)


def _differs_zh(claim: str, evidence: str) -> bool:
    said, given = _NO_NEGATION_ZH.sub("", claim), _NO_NEGATION_ZH.sub("", evidence)
    negations = list(_NO_ZH.finditer(said))
    if negations:
        return (
            len(negations) == 1
            and not any(turn in _HAN_NEGATORS or turn not in claim for turn in _NEGATIVE_ZH.findall(given))
            and not _NO_STATEMENT_ZH.search(said)
            and _states_zh(given, said[: negations[0].start()], said[negations[0].end() :])
        )
    if _NEGATIVE_ZH.search(said):
        return False
    places = islice(_NO_ZH.finditer(given), _MAX_PLACES)
    return any(
        _states_zh(claim, given[: place.start()], _NOT_HAN.sub("", given[place.end() :][:_REACH_HAN]), repeated=_PAIR)
        for place in places
    )


def _states_zh(text: str, before: str, after: str, *, repeated: int = _OBJECT_HAN) -> bool:
    """Return True if the text says of what stands before a negation what stands after it, the two side by side.

    Of what stands after it the first `repeated` characters must be there, and more where the text has no subject.
    """
    # Behind a comma the subject is the one before it: 该手机很轻，不支持快充.
    is_elided = before.rstrip().endswith(("，", ","))
    text, before, after = (_NOT_HAN.sub("", part) for part in (text, before, after))
    if len(after) < _PAIR:
        return False
    subject, start = before[-_PAIR:], after[:repeated]
    end = after[-_PAIR:] if repeated == _OBJECT_HAN else start
    at = text.find(start)
    for _ in range(_MAX_PLACES):
        if at < 0:
            return False
        begins = at == 0 or (subject and _MODAL_ZH.fullmatch(text, 0, at))
        is_stated = begins and text.startswith(after[:_REACH_HAN], at)
        if subject and subject in text[max(0, at - _PAIR - _GAP_HAN) : at]:
            is_stated = True
        is_stated = is_stated or (is_elided and at >= _PAIR and before.startswith(text[:at]))
        if is_stated and text.find(end, at) >= 0:
            return True
        at = text.find(start, at + 1)
    return False


def _content(text: str) -> Sequence[str]:
    return [word for word in split_words(text).without_stopwords if word not in _AUXILIARIES]


def _turns(text: str) -> Counter[str]:
    folded = to_simplified(text.casefold())
    counts = Counter(word for word in _WORD.findall(folded) if word in _REVERSING or word in _NEGATORS)
    counts["n't"] += len(re.findall(r"n['’]t\b", folded))
    counts.update(_REVERSING_ZH.findall(folded))
    counts.update(character for character in folded if character in _HAN_NEGATORS)
    return +counts
