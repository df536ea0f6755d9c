"""Negation: a claim that says yes where its evidence says no, or the reverse."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import STEM, detect_language, has_content, split_words, to_simplified

_PHRASES = Phrases("judging/text/negation")
_NO_EN = re.compile(rf"\b(?:{_PHRASES.pattern('en.negations')})\b|n['’]t\b")
_NO_NEGATION_EN = re.compile(_PHRASES.pattern("en.no_negations"))
_NEGATIVE_EN = re.compile(rf"\b(?:{_PHRASES.pattern('en.negative')})\b|n['’]t\b")
_NO_ZH = re.compile(_PHRASES.pattern("zh.negations"))
_NO_NEGATION_ZH = re.compile(_PHRASES.pattern("zh.no_negations"))
_NEGATIVE_ZH = re.compile(_PHRASES.pattern("zh.negative"))
# Said of what was done, and left out of what was not.
_ASPECT_ZH = re.compile("[了着过]")
# Share of a clause's words that another has which it may go against, and clauses that are compared.
_MIN_COVERAGE, _MAX_KNOWN = 0.75, 500
# "Running" for "runs", "stopped" for "stop".
_ENDING = re.compile(r"(?:([bdgmnprt])\1)?(?:ing|ed)\Z")
_AUXILIARIES = _PHRASES.words("en.auxiliaries")
_PERMISSIONS = _PHRASES.words("en.permissions")
_NT = frozenset({"n't", "n’t"})
_CLAUSES = re.compile(r"[,;:.!?，；：。！？]\s*|\s(?:and|but|while|that|because)\s")
# "Do not take it if you are ill" does not deny that you are ill.
_CONDITION = re.compile(r"\b(?:if|when|unless)\s(.+)")
FEWEST_WORDS, _FEWEST_HAN = 2, 4
# Most texts have none of these, and are spared the patterns above.
_PARTS_EN = _PHRASES.read("en.parts")
_MARKS = (*_PHRASES.read("en.marks"), *"不没未无")
_PARTICLES = _PHRASES.words("zh.particles")
_MODAL_ZH = re.compile(_PHRASES.pattern("zh.modals"))
_NOT_HAN = re.compile("[^\u3400-\u9fff]")
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


def is_negative(text: str) -> bool:
    """Return True if a text has any negative turn: a negation, or a word such as "lacks" or 尚未."""
    folded = text.lower()
    return bool(_NEGATIVE_EN.search(folded) or _NEGATIVE_ZH.search(folded))


def differs(claim: str, evidence: str) -> bool:
    """Return True if a clause of the claim repeats one of the evidence but for a negation."""
    return is_denied(split_clauses(claim), split_clauses(evidence))


def is_denied(claim: Iterable[Clause], known: Iterable[Clause]) -> bool:
    """Return True if a clause has its words but for one in four in a known one, one of the two a negation more.

    None as near to it agrees.
    A negative turn, such as "lacks", may stand for the negation.
    """
    others = list(islice(known, _MAX_KNOWN))
    for clause in claim:
        size = len(clause.words)
        numbers = {word for word in clause.words if word.isdigit()}
        alike = (other for other in others if len(other.words) == size and numbers <= other.words)
        shared = [(len(clause.words & other.words), other) for other in alike]
        most = max((count for count, _ in shared), default=0)
        if not most or most < _MIN_COVERAGE * size:
            continue
        nearest = [other for count, other in shared if count == most]
        if all((clause.negations + other.negations) % 2 for other in nearest) and any(
            abs(clause.negations - other.negations) == 1
            and not (other if clause.negations > other.negations else clause).is_negative
            for other in nearest
        ):
            return True
    return False


def may_deny(text: str) -> bool:
    """Return False if a text surely has no plain negation; quick."""
    return any(map(text.__contains__, _MARKS))


def split_clauses(text: str) -> Iterator[Clause]:
    is_zh = detect_language(text) == "zh"
    no, no_negation = (_NO_ZH, _NO_NEGATION_ZH) if is_zh else (_NO_EN, _NO_NEGATION_EN)
    left_out = _NEGATORS | _FAILURES | _PERMISSIONS | _AUXILIARIES
    clauses = _CLAUSES.split(to_simplified(text.casefold()))
    for clause in (*clauses, *(condition for each in clauses for condition in _CONDITION.findall(each))):
        parts = (
            no.split(no_negation.sub(" ", clause)) if is_zh or any(map(clause.__contains__, _PARTS_EN)) else [clause]
        )
        if is_zh:
            words = frozenset(_NOT_HAN.sub("", _MODAL_ZH.sub("", no.sub("", _ASPECT_ZH.sub("", clause))))) - _PARTICLES
        else:
            said = split_words(clause).without_stopwords
            words = frozenset(_stem(word) for word in said if word not in left_out and word[-3:] not in _NT)
        # What is denied stands behind the negation.
        fewest = _FEWEST_HAN if is_zh else FEWEST_WORDS
        if len(words) >= fewest and (is_zh or parts[-1] == clause or has_content(parts[-1])):
            yield Clause(words, len(parts) - 1, " ".join(parts) if is_zh or len(parts) > 1 else clause, is_zh)


def _stem(word: str) -> str:
    if len(word) > STEM and word.endswith(("ing", "ed")):
        word = _ENDING.sub(lambda match: match[1] or "", word)
    return word[:STEM].rstrip("se")


def _turns(text: str) -> Counter[str]:
    folded = to_simplified(text.casefold())
    counts = Counter(word for word in _WORD.findall(folded) if word in _REVERSING or word in _NEGATORS)
    counts["n't"] += len(re.findall(r"n['’]t\b", folded))
    counts.update(_REVERSING_ZH.findall(folded))
    counts.update(character for character in folded if character in _HAN_NEGATORS)
    return +counts
