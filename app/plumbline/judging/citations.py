"""Citations: does the passage that a mark names support what it stands behind? Decided in code, in every tier.

Citation recall and precision after Gao et al., "Enabling Large Language Models to Generate Text with Citations" (2023).
"""

from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from plumbline.judging.judge.evidence.verdict_rules import word_stems
from plumbline.judging.text.citation_marks import CitationMark, cited_statements, find_marks
from plumbline.judging.text.segmented_sample import SegmentedSample, restrict_to_contexts
from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.calibration import SUPPORTED_FROM, VERBATIM_SUPPORT, Calibration, CalibrationTable
from plumbline.judging.tiers.lexical import MODEL, is_in_one_script
from plumbline.judging.tiers.lexical_features import KnownPassages
from plumbline.judging.tiers.tier import TierName

# A passage with so much less support than another one is not the one that was meant.
_CLEARLY_LESS = 0.25
# A passage that adds so much to the support by the others is needed in addition to them.
_CLEARLY_MORE = 0.1
# Passages that are tried in place of a cited one, those with most of the words first.
_MOST_OTHERS = 8
# Characters compared for one answer, about a second of work.
_MOST_CHARACTERS = 1_000_000


class CitationVerdict(StrEnum):
    SUPPORTED = "supported"
    # It supports a part of the statement, or the whole together with other passages cited there.
    PARTIAL = "partial"
    # Another context supports it.
    WRONG_PASSAGE = "wrong_passage"
    NOT_SUPPORTED = "not_supported"
    NO_SUCH_PASSAGE = "no_such_passage"


@dataclass(frozen=True, slots=True)
class Citation:
    """A mark with its verdict. `sentence`: position of its sentence; `better_context`: for `wrong_passage`."""

    mark: CitationMark
    sentence: int
    verdict: CitationVerdict
    better_context: int | None = None


@dataclass(frozen=True, slots=True)
class Citations:
    """The citations of an answer that has any.

    `recall` = sentences fully supported by the passages that they cite / sentences that assert; `precision` = citations
    that are sufficient, or needed with others / citations. Both in [0, 1]; None for none of them. `uncited`:
    positions of the sentences that assert and cite nothing. Lists of sources are in no count.
    """

    citations: tuple[Citation, ...]
    recall: float | None
    precision: float | None
    uncited: tuple[int, ...]


class TooManyCitations(Exception):
    """Judging all citations would take longer than a sample may."""


def judge_citations(
    case: SegmentedSample,
    claims: Sequence[Claim],
    *,
    tier: TierName | None,
    calibrations: CalibrationTable,
    base: int | None = None,
) -> Citations | None:
    """Return the verdicts on the citation marks of an answer; None if it has no mark.

    Tier llm: the claims of the sentence count, each supported by the passages that the judge quoted for it, and by a
    cited one whose wording covers it as well. Other tiers: the wording of the statement before the mark, against the
    passage alone; where the whole sentence is the statement, the tier's verdict on it comes first.

    `base`: number of the first context in marks; None as for `find_marks`. Raises TooManyCitations for so many marks,
    or so long contexts, that the work would not be linear.
    """
    found = case.marks if base is None else find_marks(case.source, case.sentences, base=base)
    marks_by_sentence = found.by_sentence
    if not marks_by_sentence:
        return None
    wording = _Wording(case, calibrations.find(tier=TierName.LEXICAL, model=MODEL, language=case.language))
    claims_by_sentence: dict[int, list[Claim]] = {}
    for claim in claims:
        if claim.is_checkable and claim.sentence not in found.listed:
            claims_by_sentence.setdefault(claim.sentence, []).append(claim)
    citations: list[Citation] = []
    recalled = 0
    for position, marks in sorted(marks_by_sentence.items()):
        spoken = claims_by_sentence.get(position)
        if spoken is None:
            # A remark needs no source; a mark without a passage is reported all the same.
            missing = (mark for mark in marks if mark.context is None)
            citations += [Citation(mark, position, CitationVerdict.NO_SUCH_PASSAGE) for mark in missing]
            continue
        sentence = _CitedSentence(case, position, marks, spoken, wording, has_kinds=tier is TierName.LLM)
        citations += sentence.citations()
        recalled += sentence.is_fully_supported()
    sound = sum(each.verdict in (CitationVerdict.SUPPORTED, CitationVerdict.PARTIAL) for each in citations)
    return Citations(
        citations=tuple(citations),
        recall=recalled / len(claims_by_sentence) if claims_by_sentence else None,
        precision=sound / len(citations) if citations else None,
        uncited=tuple(sorted(claims_by_sentence.keys() - marks_by_sentence.keys())),
    )


class _Wording:
    """Support of a text by some of the contexts alone, by their wording."""

    def __init__(self, case: SegmentedSample, calibration: Calibration) -> None:
        self._case = case
        self._calibration = calibration
        self._passages: dict[tuple[int, ...], KnownPassages] = {}
        self._supports: dict[tuple[str, tuple[int, ...]], float] = {}
        self._read = 0
        self.can_compare = is_in_one_script(case)

    def support(self, text: str, contexts: Iterable[int]) -> float:
        """Return the support in [0, 1] of a text by these contexts together; 0 for none, or in another script."""
        chosen = tuple(sorted(set(contexts)))
        if not chosen or not self.can_compare:
            return 0.0
        if (text, chosen) not in self._supports:
            self._count(len(text) + sum(len(self._case.source.contexts[index]) for index in chosen))
            if chosen not in self._passages:
                self._passages[chosen] = KnownPassages(restrict_to_contexts(self._case, chosen))
            passages = self._passages[chosen]
            (features,) = passages.measure([text])
            is_copy = features.is_whole and any(passages.index.passage(row).contains(text) for row in features.rows)
            support = VERBATIM_SUPPORT if is_copy else self._calibration.support(features.measures)
            self._supports[text, chosen] = support
        return self._supports[text, chosen]

    def best_other(self, text: str, cited: Container[int]) -> tuple[int | None, float]:
        """Return the context that is not cited and supports the text most, with its support; None without any."""
        wanted = frozenset(content_words(text))
        shares: dict[int, int] = {}
        self._count(len(self._case.index.places))
        for (context, _), words in zip(self._case.index.places, self._case.index.words, strict=True):
            if context not in cited and (count := len(wanted.intersection(words.content))):
                shares[context] = max(shares.get(context, 0), count)
        likeliest = sorted(shares, key=lambda context: (-shares[context], context))[:_MOST_OTHERS]
        supports = [(self.support(text, (context,)), -context) for context in likeliest]
        support, negative = max(supports, default=(0.0, 1))
        return (None if negative > 0 else -negative), support

    def _count(self, characters: int) -> None:
        self._read += characters
        if self._read > _MOST_CHARACTERS:
            raise TooManyCitations


class _CitedSentence:
    def __init__(
        self,
        case: SegmentedSample,
        position: int,
        marks: Sequence[CitationMark],
        claims: Sequence[Claim],
        wording: _Wording,
        *,
        has_kinds: bool,
    ) -> None:
        self._position = position
        self._claims = claims
        self._wording = wording
        self._has_kinds = has_kinds
        self._cited = frozenset(mark.context for mark in marks if mark.context is not None)
        self._statements = cited_statements(case.sentences[position], marks)
        self._assertion = case.assertions[case.checkable.index(position)]

    def citations(self) -> list[Citation]:
        found: list[Citation] = []
        for number, statement in enumerate(self._statements):
            cited = frozenset(mark.context for mark in statement.marks if mark.context is not None)
            parts = self._parts(number)
            for mark in statement.marks:
                verdict, better = CitationVerdict.NO_SUCH_PASSAGE, None
                if mark.context is not None:
                    verdict, better = self._verdict(parts, mark.context, cited)
                found.append(Citation(mark, self._position, verdict, better))
        return found

    def is_fully_supported(self) -> bool:
        if self._has_kinds:
            return all(self._supports(claim, self._cited) for claim in self._claims)
        return self._supports(self._assertion, self._cited)

    def _parts(self, number: int) -> Sequence[Claim | str]:
        """Return what a statement asserts: the judge's claims in it, or its words."""
        if not self._has_kinds:
            return [self._assertion if len(self._statements) == 1 else self._statements[number].text]
        if len(self._statements) == 1:
            return self._claims
        return self._claims_by_statement.get(number, self._claims)

    @cached_property
    def _claims_by_statement(self) -> dict[int, list[Claim]]:
        """Return the claims by the statement that has most of their words."""
        stems = [word_stems(statement.text) for statement in self._statements]
        found: dict[int, list[Claim]] = {}
        for claim in self._claims:
            wanted = word_stems(claim.text)
            shares = [len(wanted & each) for each in stems]
            most = max(shares)
            for number, share in enumerate(shares):
                if share == most:
                    found.setdefault(number, []).append(claim)
        return found

    def _verdict(
        self, parts: Sequence[Claim | str], context: int, cited: frozenset[int]
    ) -> tuple[CitationVerdict, int | None]:
        alone = [self._supports(part, {context}) for part in parts]
        if all(alone):
            return CitationVerdict.SUPPORTED, None
        others = cited - {context}
        is_needed = bool(others) and any(self._adds(part, cited, others) for part in parts)
        claims = (part for part in parts if isinstance(part, Claim) and part.verdict is Verdict.PARTIAL)
        if any(alone) or is_needed or any(context in _quoted_contexts(claim) for claim in claims):
            return CitationVerdict.PARTIAL, None
        better = next((found for part in parts if (found := self._better(part, cited)) is not None), None)
        return (CitationVerdict.NOT_SUPPORTED if better is None else CitationVerdict.WRONG_PASSAGE), better

    def _supports(self, part: Claim | str, contexts: Collection[int]) -> bool:
        if not contexts:
            return False
        if isinstance(part, Claim):
            if part.verdict is not Verdict.SUPPORTED:
                return False
            quoted = _quoted_contexts(part)
            is_quoted = quoted.issubset(contexts) if "derived" in part.flags else bool(quoted.intersection(contexts))
            return (bool(quoted) and is_quoted) or self._is_as_good(part.text, contexts)
        is_whole = part == self._assertion
        (claim,) = self._claims[:1]
        if is_whole and claim.verdict is not Verdict.SUPPORTED:
            return False
        # The tier may have found the sentence there by more than its wording.
        is_found = is_whole and bool(_quoted_contexts(claim).intersection(contexts))
        least = 0.0 if is_found else SUPPORTED_FROM
        return self._is_as_good(part, contexts, least=least, besides=self._cited)

    def _is_as_good(
        self,
        text: str,
        contexts: Collection[int],
        *,
        least: float = SUPPORTED_FROM,
        besides: frozenset[int] = frozenset(),
    ) -> bool:
        """Return True if passages support a text by their wording, and none but those `besides` clearly better."""
        support = self._wording.support(text, contexts)
        others = self._wording.best_other(text, besides.union(contexts))[1]
        return support >= least and others < support + _CLEARLY_LESS

    def _adds(self, part: Claim | str, cited: frozenset[int], others: frozenset[int]) -> bool:
        """Return True if passages support a part together, and the others of them alone do not, or clearly less."""
        if not self._supports(part, cited):
            return False
        if not self._supports(part, others):
            return True
        text = part.text if isinstance(part, Claim) else part
        return self._wording.support(text, cited) >= self._wording.support(text, others) + _CLEARLY_MORE

    def _better(self, part: Claim | str, cited: Container[int]) -> int | None:
        if isinstance(part, Claim):
            return min(_quoted_contexts(part), default=None) if part.verdict is Verdict.SUPPORTED else None
        (claim,) = self._claims[:1]
        if part == self._assertion and claim.verdict is not Verdict.SUPPORTED:
            return None
        context, support = self._wording.best_other(part, cited)
        if support >= SUPPORTED_FROM:
            return context
        return min(_quoted_contexts(claim), default=None) if part == self._assertion else None


def _quoted_contexts(claim: Claim) -> frozenset[int]:
    return frozenset(each.context for each in claim.evidence if each.verified and each.context is not None)
