"""Check of a decision model's verdicts in code: the place in the passage that it named, its numbers, names, negations.

Decision models are weak at these (docs/explanation/judge.md); the measures are those of tier lexical.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from plumbline.ground.concurrency import within_deadline
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
# docs/decisions/0018-decision-models.md has the figures.
_FEWEST_SHARED = 2
_LEAST_SHARE = 0.15
# A denied clause shares so many of its words, and such a share of them, with one that says them.
_FEWEST_SAID = 3
_LEAST_SAID = 0.5
_SHOWN = 3


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
        elif far := self._far_numbers(text, features):
            yield "number_not_in_evidence", CodedText("not_near_evidence", names=far[:_SHOWN])
        if features.unknown_names:
            yield "support_doubtful", CodedText("in_no_context", names=features.unknown_names[:_SHOWN])
        if features.measures["negation"] or self._denies_what_is_said(text):
            yield "negation_differs", CodedText("negated_otherwise")

    def _far_numbers(self, text: str, features: Finding) -> tuple[str, ...]:
        """Return the numbers that stand in no sentence on the claim's matter, nor in one beside it."""
        index, wanted = self._sample.index, word_stems(text)
        shared = [len(wanted & stems) for stems in self._stems]
        least = max(_FEWEST_SHARED, _LEAST_SHARE * len(wanted))
        near = [row for row, count in enumerate(shared) if count >= least] or list(features.rows)
        touched = {row + step for row in near for step in (-1, 0, 1) if self._is_beside(row, row + step)}
        lines = [index.lines[row] for row in sorted(touched)]
        return ContextAmounts(lines, lines, self._sample.source.question).find_missing(text, lines)

    def _denies_what_is_said(self, text: str) -> bool:
        """Return True if a clause denies what a context says in half of its words, and none as near denies it, too."""
        for clause in split_clauses(text) if may_deny(text.lower()) else ():
            if clause.negations % 2 == 0:
                continue
            shared = [
                (len(clause.words & other.words), other.negations or other.is_negative) for other in self._clauses
            ]
            said = max((count for count, is_negative in shared if not is_negative), default=0)
            denied = max((count for count, is_negative in shared if is_negative), default=0)
            if said >= max(_FEWEST_SAID, _LEAST_SAID * len(clause.words)) and said > denied:
                return True
        return False

    def _is_beside(self, row: int, other: int) -> bool:
        places = self._sample.index.places
        return 0 <= other < len(places) and places[other][0] == places[row][0]

    def _find_row(self, claim: Claim, text: str, features: Finding) -> int | None:
        """Return the sentence of the named context with most of the claim, where one has any of it; else of all."""
        named = {each.context for each in claim.evidence}
        best = next((row for row in features.rows if self._sample.index.places[row][0] in named), None)
        wanted = word_stems(text)
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
        return [word_stems(text) for text in self._sample.index.texts]
