"""Estimates of metrics by words, for tiers without a judge: right in order more often than not, and not calibrated."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.words import han_share
from plumbline.judging.tiers.evidence.verdict_rules import word_stems

# A question word that the answer lacks, in a passage that has all of the answer's words. Chosen like the next two on
# the question-answering sets of dev: AUROC .95 en and .94 zh against shuffled questions (benchmarks/relevance.py).
_BY_PASSAGE: Final = 0.7
_TYPE_WEIGHT: Final = 0.1
# Of an answer whose words say little: a name, a date.
_SHORT: Final = 80
_SHORT_ZH: Final = 40
_HAN: Final = 0.2
_ASKS_AMOUNT: Final = re.compile(
    r"\b(?:when|how (?:many|much|long|old|tall|far|high|often|big|large)"
    r"|what (?:year|date|time|day|age|number|percentage)|which year)\b"
    r"|多少|几|何时|什么时候|哪一?年|哪天|日期|时间|多[大高长久]|比分|数量|金额",
    re.IGNORECASE,
)
_ASKS_NAME: Final = re.compile(
    r"\b(?:who|whom|whose|where)\b|谁|哪位|哪个(?:人|国家|城市|地方|省)|何人|什么人|姓名|哪里|何处|哪儿|什么地方",
    re.IGNORECASE,
)
_AMOUNT: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million)\b|[一二三四五六七八九十百千万亿]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates in [0, 1] on one sample; None where the texts do not allow one.

    `support`: returns the mean support of a sample's answer by its contexts, as tier lexical gives it.
    """

    case: SegmentedSample
    support: Callable[[SegmentedSample], float | None]

    def answer_relevance(self) -> float | None:
        """Return the share of the question's words that the answer has, or a passage with the answer's words.

        A short answer of the type that the question asks for (an amount, a name) counts more, of another less.
        """
        source = self.case.source
        asked, said = word_stems(source.question), word_stems(source.answer)
        if not asked:
            return None
        weights = dict.fromkeys(asked & said, 1.0)
        for context in source.contexts:
            words = word_stems(context)
            weight = _BY_PASSAGE * len(words & said) / max(1, len(said))
            for word in asked & words:
                weights[word] = max(weights.get(word, 0.0), weight)
        share = sum(weights.values()) / len(asked)
        return min(1.0, max(0.0, share + _TYPE_WEIGHT * _type_match(source.question, source.answer)))

    def context_relevance(self) -> float | None:
        """Return the mean over the contexts of the share of the question's words that each has."""
        asked = word_stems(self.case.source.question)
        contexts = [words for context in self.case.source.contexts if (words := word_stems(context))]
        if not asked or not contexts:
            return None
        return sum(len(asked & words) / len(asked) for words in contexts) / len(contexts)

    def context_recall(self) -> float | None:
        """Return the support of the reference by the contexts."""
        source = self.case.source
        return self._supported(source.reference or "", source.contexts)

    def correctness(self) -> float | None:
        """Return the harmonic mean of the support of the reference by the answer and of the answer by it."""
        source = self.case.source
        recall = self._supported(source.reference or "", (source.answer,))
        precision = self._supported(source.answer, (source.reference or "",))
        if recall is None or precision is None:
            return None
        return 2 * recall * precision / (recall + precision) if recall + precision else 0.0

    def _supported(self, answer: str, contexts: tuple[str, ...]) -> float | None:
        case = segment(Sample(self.case.source.question, contexts, answer))
        return self.support(case) if case.needs_judge else None


def _type_match(question: str, answer: str) -> float:
    """Return a number from -1 to 1: how well a short answer is of the type that is asked for; 0 for a longer one."""
    is_chinese = han_share(answer) > _HAN
    if len(answer) >= (_SHORT_ZH if is_chinese else _SHORT):
        return 0.0
    has_amount = _AMOUNT.search(answer) is not None
    if _ASKS_AMOUNT.search(question):
        return 1.0 if has_amount else -1.0
    if _ASKS_NAME.search(question):
        return -1.0 if any(map(str.isdigit, answer)) else 0.5
    return 0.0
