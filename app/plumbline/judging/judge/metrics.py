"""Metrics by name: definition, the probes that each needs, its value counted from their verdicts, and its estimate.

A metric is one entry of `METRICS`; what a judge is asked for it is a `Probe`. Estimates go by words, for tiers without
a judge: right in order more often than not, and not calibrated.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, Literal

from plumbline.ground.deadline import within_deadline
from plumbline.ground.errors import InvalidInput
from plumbline.ground.phrases import load_data
from plumbline.judging.judge.evidence.verdict_rules import word_stems
from plumbline.judging.judge.probes import (
    CLAIMS_BY_REFERENCE,
    PASSAGES,
    QUESTION_PARTS,
    REFERENCE_IN_ANSWER,
    REFERENCE_IN_CONTEXTS,
    Material,
    Probe,
    prove_by_contexts,
    prove_by_text,
)
from plumbline.judging.judge.reply_items import Item
from plumbline.judging.text.reference import MOST_CHARACTERS, bleu, chrf, gleu, token_set_f1
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.verdicts import Claim, MetricAnswers, MetricVerdict, Verdict
from plumbline.judging.text.words import has_content, split_characters

# A question word that the answer lacks, in a passage that has all of the answer's words. Chosen on the
# question-answering sets of dev, against shuffled questions.
_BY_PASSAGE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Estimator:
    """Estimates in [0, 1] on one sample; None where the texts do not allow one.

    `lexical_support`: returns the mean support of a sample's answer by its contexts, as tier lexical gives it.
    """

    case: SegmentedSample
    lexical_support: Callable[[SegmentedSample], float | None]

    def answer_relevance(self) -> float | None:
        """Return the share of the question's words that the answer has, or a passage with the answer's words."""
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
        return sum(weights.values()) / len(asked)

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
        return self._support_by(source.reference or "", source.contexts)

    def correctness(self) -> float | None:
        """Return the harmonic mean of the support of the reference by the answer and of the answer by it."""
        source = self.case.source
        recall = self._support_by(source.reference or "", (source.answer,))
        precision = self._support_by(source.answer, (source.reference or "",))
        return _harmonic_mean(recall, precision)

    def _support_by(self, answer: str, contexts: tuple[str, ...]) -> float | None:
        case = segment(Sample(self.case.source.question, contexts, answer))
        return self.lexical_support(case) if case.needs_judge else None


_NAME: Final = re.compile(r"([a-z][a-z0-9_]*)(?:@([1-9][0-9]{0,2}))?")


class MetricStatus(StrEnum):
    """Status of a metric's value: `uncalibrated` is an estimate by similarity, the last two have no value."""

    JUDGED = "judged"
    UNCALIBRATED = "uncalibrated"
    NOT_JUDGED = "not_judged"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class MetricResult:
    """The value of one metric in [0, 1], None where its status says so; `reason` names why, `parts` what it is from."""

    name: str
    value: float | None
    status: MetricStatus
    reason: str | None = None
    parts: Mapping[str, float | None] | None = None
    verdicts: tuple[MetricVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """Verdicts by probe and the claims of the answer, from which a metric of this depth is counted."""

    verdicts: Mapping[str, tuple[MetricVerdict, ...]]
    claims: Sequence[Claim] = ()
    depth: int | None = None

    def share(self, probe: Probe, *verdicts: str) -> float | None:
        """Return the share of the probe's verdicts that are among these; None if there are none."""
        return _mean([float(each.verdict in verdicts) for each in self.verdicts[probe.name]])


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Args:
        count: returns the value, None where nothing can be counted.
        estimate: returns the estimate of a tier without a judge; None: such a tier cannot tell.
        split: returns the numbers that the value is made of, by name.
        needs: what a sample must have: `question`, `contexts`, `reference`.
        compare: returns the value from the words of answer and reference, neither empty, whatever the tier.
        depth: `k` of a metric over the first k passages; None for all.
    """

    name: str
    definition: str = ""
    source: str = ""
    needs: Sequence[str] = ()
    probes: tuple[Probe, ...] = ()
    count: Callable[[Reading], float | None] = lambda reading: None
    split: Callable[[Reading], dict[str, float | None]] | None = None
    estimate: Callable[[Estimator], float | None] | None = None
    has_depth: bool = False
    # Of every result, which it repeats.
    score: str | None = None
    compare: Callable[[Sequence[str], Sequence[str]], float] | None = None
    depth: int | None = None

    def lacks(self, spoken: Container[str]) -> str | None:
        """Return why it cannot be judged on a sample with these `non_empty_fields`: `no_question`, ...; else None."""
        return next((f"no_{need}" for need in self.needs if need not in spoken), None)

    def compare_words(self, sample: Sample) -> MetricResult:
        """Return the result of `compare` on the answer of a sample, Chinese by character; no judge is asked."""
        reference = sample.reference or ""
        if max(len(sample.answer), len(reference)) > MOST_CHARACTERS:
            return MetricResult(self.name, None, MetricStatus.NOT_JUDGED, "too_long")
        said, wanted = split_characters(sample.answer), split_characters(reference)
        if not said or not wanted or self.compare is None:
            reason = "nothing_to_count" if wanted else "no_reference"
            return MetricResult(self.name, None, MetricStatus.NOT_APPLICABLE, reason)
        return MetricResult(self.name, self.compare(said, wanted), MetricStatus.JUDGED)

    def result(
        self, spoken: Container[str], answers: MetricAnswers, *, claims: Sequence[Claim], otherwise: str
    ) -> MetricResult:
        """Return the result on a sample with these `non_empty_fields` from its probes.

        `otherwise`: the reason where a tier was not asked them.
        """
        if (lack := self.lacks(spoken)) is not None:
            return MetricResult(self.name, None, MetricStatus.NOT_APPLICABLE, lack)
        verdicts = tuple(each for probe in self.probes for each in answers.verdicts.get(probe.name, ()))
        if all(probe.name in answers.verdicts for probe in self.probes):
            reading = Reading(answers.verdicts, claims, self.depth)
            value = self.count(reading)
            reason = None if value is not None else "nothing_to_count"
            status = MetricStatus.JUDGED if value is not None else MetricStatus.NOT_APPLICABLE
            parts = self.split(reading) if self.split and value is not None else None
            return MetricResult(self.name, value, status, reason, parts, verdicts)
        if (estimate := answers.estimates.get(self.name)) is not None:
            return MetricResult(self.name, estimate, MetricStatus.UNCALIBRATED)
        failed = next((answers.failures[each.name] for each in self.probes if each.name in answers.failures), otherwise)
        return MetricResult(self.name, None, MetricStatus.NOT_JUDGED, failed, verdicts=verdicts)


def non_empty_fields(sample: Sample) -> frozenset[str]:
    """Return which of `question`, `contexts` and `reference` say something: what metrics need."""
    texts = {"question": (sample.question,), "contexts": sample.contexts, "reference": (sample.reference or "",)}
    return frozenset(name for name, said in texts.items() if any(map(has_content, said)))


def probes_for(metrics: Sequence[Metric], sample: Sample) -> tuple[Probe, ...]:
    """Return the probes that these metrics need on a sample, each once."""
    spoken = non_empty_fields(sample) if metrics else frozenset()
    able = (metric for metric in metrics if metric.lacks(spoken) is None)
    return tuple({probe.name: probe for metric in able for probe in metric.probes}.values())


def estimate_metrics(metrics: Iterable[Metric], estimator: Estimator) -> MetricAnswers:
    """Return the estimates of the metrics that need no judge. Raises TierFailure `timeout`."""
    spoken = non_empty_fields(estimator.case.source)
    able = (metric for metric in metrics if metric.estimate and metric.lacks(spoken) is None)
    estimates = {metric.name: metric.estimate(estimator) for metric in within_deadline(able) if metric.estimate}
    return MetricAnswers(estimates={name: value for name, value in estimates.items() if value is not None})


_ANSWERED: Final = {"fully": 1.0, "partly": 0.5, "evaded": 0.0, "no": 0.0}


def _context_precision(reading: Reading) -> float:
    """Return the mean precision at the ranks of relevant passages; a passage without a word has its rank all the same.

    The divisor is the number of relevant passages among the first `depth`, as ragas has it, not of all there are.
    """
    ranks = sorted(int(each.id) for each in reading.verdicts[PASSAGES.name] if each.verdict == "relevant")
    hits = [count / rank for count, rank in enumerate(ranks, 1) if reading.depth is None or rank <= reading.depth]
    return _mean(hits) or 0.0


def _harmonic_mean(recall: float | None, precision: float | None) -> float | None:
    if recall is None or precision is None:
        return None
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _noise_sensitivity(reading: Reading) -> float | None:
    verdicts = reading.verdicts[CLAIMS_BY_REFERENCE.name]
    backed = {claim.id for claim in reading.claims if claim.verdict is Verdict.SUPPORTED}
    return _mean([float(each.verdict != "stated" and each.id in backed) for each in verdicts])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


METRICS: Final[Mapping[str, Metric]] = {
    metric.name: replace(metric, **load_data("judging/judge/metrics")[metric.name])
    for metric in (
        Metric("faithfulness"),
        Metric("context_utilization"),
        Metric(
            "answer_relevance",
            probes=(QUESTION_PARTS,),
            count=lambda reading: _mean([_ANSWERED[each.verdict] for each in reading.verdicts[QUESTION_PARTS.name]]),
            estimate=Estimator.answer_relevance,
        ),
        Metric(
            "context_relevance",
            probes=(PASSAGES,),
            count=lambda reading: reading.share(PASSAGES, "relevant"),
            estimate=Estimator.context_relevance,
        ),
        Metric("context_precision", probes=(PASSAGES,), count=_context_precision),
        Metric(
            "context_recall",
            probes=(REFERENCE_IN_CONTEXTS,),
            count=lambda reading: reading.share(REFERENCE_IN_CONTEXTS, "found"),
            estimate=Estimator.context_recall,
        ),
        Metric(
            "correctness",
            probes=(REFERENCE_IN_ANSWER, CLAIMS_BY_REFERENCE),
            count=lambda reading: _harmonic_mean(
                reading.share(REFERENCE_IN_ANSWER, "stated"), reading.share(CLAIMS_BY_REFERENCE, "stated")
            ),
            estimate=Estimator.correctness,
            split=lambda reading: {
                "recall": reading.share(REFERENCE_IN_ANSWER, "stated"),
                "precision": reading.share(CLAIMS_BY_REFERENCE, "stated"),
                "contradicted": reading.share(CLAIMS_BY_REFERENCE, "contradicted"),
            },
        ),
        Metric("noise_sensitivity", probes=(CLAIMS_BY_REFERENCE,), count=_noise_sensitivity),
        Metric("bleu", compare=bleu),
        Metric("chrf", compare=chrf),
        Metric("gleu", compare=gleu),
        Metric("token_set_f1", compare=token_set_f1),
    )
}


def find_metrics(names: Sequence[str], *, place: str = "") -> tuple[Metric, ...]:
    """Return the metrics of these names, each once; `context_precision@3` has depth 3.

    Raises InvalidInput: a name is unknown, or has an `@k` without a ranking.
    """
    found: dict[str, Metric] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        metric = METRICS.get(match[1]) if match else None
        if metric is None or match is None or (match[2] and not metric.has_depth):
            near = get_close_matches(name, METRICS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(METRICS)}"
            raise InvalidInput(f"unknown metric {name[:64]!r}; {hint}", place=f"{place}/metrics")
        found[name] = replace(metric, name=name, depth=int(match[2])) if match[2] else metric
    return tuple(found.values())


# Of the names of criteria among metrics, so that none can be called as one of ours.
CRITERION = "criterion_"


def criterion(
    name: str, question: str, labels: Mapping[str, float], quote_from: Literal["answer", "contexts"] | None
) -> Metric:
    """Return the metric `criterion_NAME`: the weight in [0, 1] of the label that the judge gives.

    `quote_from`: texts from which the judge must quote for a label above the lowest; without a quote that is found
    there, the lowest counts.
    """
    lowest = min(labels, key=lambda label: labels[label])

    def prove(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
        if quote_from is None or verdict.verdict == lowest:
            return verdict
        if quote_from == "contexts":
            return prove_by_contexts(verdict, item, material.contexts)
        return prove_by_text(verdict, item, material.case.source.answer)

    member = f"label_{name}"
    asked = {"list": f"{CRITERION}{name}", "question": question, "labels": list(labels), "quote_from": quote_from}
    probe = Probe(
        name=f"{CRITERION}{name}",
        verdict=member,
        words=dict.fromkeys(labels, ""),
        members={"quote": {"type": "string"}} if quote_from else {},
        shows=("question", "answer", "contexts"),
        prove=prove,
        unproven=lowest,
        part="criterion",
        stated=json.dumps({**asked, "member": member}, ensure_ascii=False),
    )
    return Metric(
        probe.name,
        question,
        "The caller.",
        probes=(probe,),
        count=lambda reading: next((labels[each.verdict] for each in reading.verdicts[probe.name]), None),
    )
