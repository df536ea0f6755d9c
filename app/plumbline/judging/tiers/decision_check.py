"""Check of a decision model's verdicts in code: the place in the passage that it named, its numbers, names, negations.

Decision models are weak at these (docs/explanation/judge.md); the measures are those of tier lexical.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from plumbline.ground.deadline import within_deadline
from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.evidence.verdict_rules import (
    REFUTED,
    UNANSWERED,
    UNANSWERED_QUESTION,
    is_unlike,
    with_flags,
    word_stems,
)
from plumbline.judging.quantities.context_amounts import ContextAmounts
from plumbline.judging.text.negation import Clause, may_deny, split_clauses
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Claim, Evidence, Verdict
from plumbline.judging.tiers.lexical_features import Finding, KnownPassages

# A number stands near a sentence that has so many of the claim's content words, and such a share of them: so another
# number of the contexts is refuted in 41 % of sentences in place of 24, and .5 % more of those that are faithful.
# docs/decisions/0018-decision-models.md has the figures. A short one has half of its own words from the claim.
_FEWEST_SHARED = 2
_LEAST_SHARE = 0.15
_LEAST_OF_ITS_OWN = 0.5
# A denied clause shares so many of its words, and such a share of them, with one that says them.
_FEWEST_SAID = 3
_LEAST_SAID = 0.5
_SHOWN = 3
# A sentence begins with a capital anyway: its first word is taken for a name in front of another one.
_FIRST_OF_NAMES = re.compile(r"([A-Z]\w+) (?=[A-Z])")
_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY = f"({'|'.join(_WEEK)})"
# Opening hours in JSON, counted to 24: "Monday 7:0-17:0"; a day with none is closed. The time of a stamp is no amount.
_OPENING = re.compile(rf"(?<!to |gh )(?<![-–])\b{_DAY} (?!0:0-0:0$)\d{{1,2}}:\d{{1,2}}-\d{{1,2}}:\d{{1,2}}$")
_MACHINE_TIME = re.compile(r"\b(?:\d\d:\d\d:\d\d\b|(?=\d:\d\b))")
_OPENS = re.compile(r"\b(open|operat|hours|closed(?= (?:on )?\w+day))", re.IGNORECASE)
_ALL_WEEK = re.compile(r"\b(?:(?:seven|7) days (?:a|per) week|every ?day|daily)\b")
_FROM_TO = re.compile(rf"\b{_DAY}s?(?: to | through | ?[-–] ?){_DAY}")
_WEEKDAY = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:星期|礼拜|周)[一二三四五六日天](?![次回])")


class DecisionCheck:
    """The contexts of one sample, searched for the places of claims; made in a thread, for one sample's judges."""

    def __init__(self, sample: SegmentedSample, search: EvidenceSearch) -> None:
        self._sample = sample
        self._search = search

    def __call__(self, claims: Sequence[Claim]) -> list[Claim]:
        """Return the claims with the place that code finds for each, those that it refutes flagged, and not supported.

        `claims`: their evidence names the context that the model chose; nothing else is asked of it.
        """
        texts = [self._assertion(claim) for claim in claims]
        measured = self._passages.measure(texts)
        return [self._check(*each) for each in within_deadline(zip(claims, texts, measured, strict=True))]

    def _check(self, claim: Claim, text: str, features: Finding) -> Claim:
        index = self._sample.index
        if UNANSWERED in claim.flags:
            reason = CodedText("decision_not_answered")
            return replace(claim, support=None, reason=reason, flags=(UNANSWERED_QUESTION,))
        copy = next((row for row in features.rows if index.passage(row).contains(text)), None)
        row = self._find_row(claim, text, features) if copy is None else copy
        evidence = () if row is None else (self._evidence(row),)
        claim = replace(claim, evidence=evidence)
        if claim.verdict is not Verdict.SUPPORTED:
            # A sentence that stands in a context word for word is not wrong.
            is_copied = copy is not None and not features.unknown_numbers
            return with_flags(claim, "accusation_doubtful", REFUTED) if is_copied else claim
        doubts = dict(self._doubts(text, features)) if copy is None or features.unknown_numbers else {}
        if evidence and all(map(self._search.stands_in_instruction, evidence)):
            doubts["evidence_is_instruction"] = CodedText("evidence_instructs")
        if not doubts:
            is_alike = row is not None and not is_unlike(text, [index.texts[row]])
            return claim if is_alike else with_flags(claim, "support_doubtful")
        flagged = with_flags(claim, *doubts, REFUTED)
        return replace(flagged, verdict=Verdict.NOT_MENTIONED, reason=join_texts(list(doubts.values())))

    def _doubts(self, text: str, features: Finding) -> Iterator[tuple[str, CodedText]]:
        if features.unknown_numbers:
            yield "number_not_in_contexts", CodedText("in_no_context", names=features.unknown_numbers[:_SHOWN])
        elif far := (*self._far_numbers(text, features), *self._days_with_other_hours(text)):
            yield "number_not_in_evidence", CodedText("not_near_evidence", names=far[:_SHOWN])
        if names := (*self._unknown_first_name(text), *features.unknown_names, *self._unknown_days(text)):
            yield "support_doubtful", CodedText("in_no_context", names=names[:_SHOWN])
        if features.measures["negation"] or self._denies_what_is_said(text):
            yield "negation_differs", CodedText("negated_otherwise")

    def _far_numbers(self, text: str, features: Finding) -> tuple[str, ...]:
        """Return the numbers that stand in no sentence on the claim's matter, nor in one beside it."""
        index, wanted = self._sample.index, _singular_stems(text)
        least = max(_FEWEST_SHARED, _LEAST_SHARE * len(wanted))
        shared = [(len(wanted & stems), _LEAST_OF_ITS_OWN * len(stems)) for stems in self._stems]
        hours = [row for row, each in enumerate(index.texts) if _OPENING.search(each)] if _OPENS.search(text) else []
        near = [row for row, (count, own) in enumerate(shared) if count >= min(least, own) > 0] + hours or features.rows
        contexts = [None, *(context for context, _ in index.places), None]
        touched = {row + step for row in near for step in (-1, 0, 1) if contexts[row + 1 + step] == contexts[row + 1]}
        lines = [_MACHINE_TIME.sub("0", index.lines[row]) for row in sorted(touched)]
        return ContextAmounts(lines, lines, self._sample.source.question).find_missing(text, lines)

    def _days_with_other_hours(self, text: str) -> Iterator[str]:
        """Yield the days that the sentence calls open, or closed, against the opening hours of structured contexts."""
        days_open = {found[1] for line in self._sample.index.structured if (found := _OPENING.search(line))}
        parts = _OPENS.split(text.partition("except")[0])[1:] if days_open else []
        for word, part in zip(parts[::2], parts[1::2], strict=True):
            spans = [(_WEEK.index(first), _WEEK.index(last)) for first, last in _FROM_TO.findall(part)]
            within = {_WEEK[at % 7] for first, last in spans for at in range(first, first + (last - first) % 7 + 1)}
            said = set(_WEEK) if _ALL_WEEK.search(part) else within.union(re.findall(_DAY, part))
            yield from sorted(said & days_open if word.lower() == "closed" else said - days_open, key=_WEEK.index)

    def _unknown_first_name(self, text: str) -> tuple[str, ...]:
        """Return the first word if a name follows it and no context has it: "David" of "David Clarkson joined"."""
        found = _FIRST_OF_NAMES.match(text)
        known = (self._passages.names, self._passages.asked_names)
        return (found[1],) if found and all(each.find_unknown(f"a {found[1]}") for each in known) else ()

    def _unknown_days(self, text: str) -> Iterator[str]:
        """Yield the days of the week that neither a context nor the question names, in whatever form."""
        days = dict.fromkeys(_WEEKDAY.findall(text))
        said = "\n".join((self._sample.source.question, *self._sample.source.contexts)).lower() if days else ""
        for day in days:
            english = rf"\b{day[:3].lower()}(?:r?s|{day[3:]}s?)?\b"
            chinese = f"(?:星期|礼拜|周){'[日天]' if day[-1] in '日天' else day[-1]}"
            if not re.search(english if day.isascii() else chinese, said):
                yield day

    def _denies_what_is_said(self, text: str) -> bool:
        """Return True if a clause denies what a context says in half of its words, and none as near denies it, too."""
        for clause in split_clauses(text) if may_deny(text.lower()) else ():
            if clause.negations % 2 == 0:
                continue
            most = {False: 0, True: 0}
            for other in self._clauses:
                is_negative = bool(other.negations or other.is_negative)
                most[is_negative] = max(most[is_negative], len(clause.words & other.words))
            if most[False] >= max(_FEWEST_SAID, _LEAST_SAID * len(clause.words)) and most[False] > most[True]:
                return True
        return False

    def _find_row(self, claim: Claim, text: str, features: Finding) -> int | None:
        """Return the sentence of the named context with most of the claim, where one has any of it; else of all."""
        named = {each.context for each in claim.evidence}
        best = next((row for row in features.rows if self._sample.index.places[row][0] in named), None)
        wanted = _singular_stems(text)
        rows = [row for row, (context, _) in enumerate(self._sample.index.places) if context in named]
        if best is None and rows:
            best = max(rows, key=lambda row: len(wanted & self._stems[row]))
            best = best if wanted & self._stems[best] else None
        return next(iter(features.rows), None) if best is None else best

    def _evidence(self, row: int) -> Evidence:
        context, found = self._sample.index.places[row]
        return Evidence(context, found.text, found.start, found.end, verified=True, kind="located")

    def _assertion(self, claim: Claim) -> str:
        at = self._assertions.get(claim.sentence)
        is_whole = claim.text == self._sample.sentences[claim.sentence].text
        return at if is_whole and at is not None else self._sample.without_marks(claim.text)

    @cached_property
    def _passages(self) -> KnownPassages:
        return KnownPassages(self._sample)

    @cached_property
    def _assertions(self) -> dict[int, str]:
        return dict(zip(self._sample.checkable, self._sample.assertions, strict=True))

    @cached_property
    def _clauses(self) -> list[Clause]:
        return [clause for text in self._sample.index.texts for clause in split_clauses(text)]

    @cached_property
    def _stems(self) -> list[frozenset[str]]:
        return [_singular_stems(text) for text in self._sample.index.texts]


def _singular_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's words; "star" and "stars" have one."""
    return frozenset(stem.removesuffix("s") for stem in word_stems(text))
