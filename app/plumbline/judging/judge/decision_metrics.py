"""Metrics and criteria as questions to a decision model: what is asked for each, and the verdicts that answers give."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from plumbline.judging.judge.context_windows import Window
from plumbline.judging.judge.evidence.search import EvidenceSearch
from plumbline.judging.judge.probes import PASSAGES, QUESTION_PARTS, Material, Probe
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import MetricAnswers, MetricVerdict

# What a question is about: the name of its probe, and the id there.
MetricKey = tuple[str, str]
# Instructions, and what each value means.
MetricQuestion = tuple[str, Mapping[str, str]]
# Reason of a metric that takes quotes, or texts to compare, which such a model cannot give.
NOT_ASKED: Final = "not_by_decision_model"


def metric_questions(
    probes: Sequence[Probe], sample: SegmentedSample, parts: Mapping[str, str]
) -> dict[MetricKey, MetricQuestion]:
    """Return the questions for those probes that a choice can answer: relevance, and criteria without quotes.

    Args:
        parts: texts of the prompt, by the names of probes and of their values.
    """
    material = Material(sample, EvidenceSearch(()))
    found: dict[MetricKey, MetricQuestion] = {}
    for probe in probes:
        if probe.stated and not probe.members:
            asked = f"{parts['criterion']} {json.dumps(json.loads(probe.stated)['question'], ensure_ascii=False)}"
            found[probe.name, ""] = asked, dict.fromkeys(probe.words, "")
        elif probe.name in (QUESTION_PARTS.name, PASSAGES.name):
            values = {value: parts[value] for value in probe.words}
            for each in probe.ids(material):
                found[probe.name, each] = f"{parts[probe.name]} c{each}".removesuffix(" c"), values
    return found


def questions_shown(asked: Mapping[MetricKey, MetricQuestion], window: Window) -> dict[MetricKey, MetricQuestion]:
    """Return the questions that a window can answer: all but those on contexts that are not in it."""
    shown = {str(piece.number) for piece in window}
    return {key: question for key, question in asked.items() if key[0] != PASSAGES.name or key[1] in shown}


def metric_answers(
    probes: Sequence[Probe],
    sample: SegmentedSample,
    asked: Mapping[MetricKey, MetricQuestion],
    chances: Mapping[MetricKey, Mapping[str, float]],
) -> MetricAnswers:
    """Return the likeliest verdict on each question, by probe, where all questions of a probe have an answer."""
    verdicts: dict[str, tuple[MetricVerdict, ...]] = {}
    failures: dict[str, str] = {}
    for probe in probes:
        keys = [key for key in asked if key[0] == probe.name]
        if not keys or any(key not in chances for key in keys):
            failures[probe.name] = "invalid_reply" if keys else NOT_ASKED
            continue
        text = sample.source.question if probe.name == QUESTION_PARTS.name else ""
        likeliest = {key[1]: max(chances[key], key=chances[key].__getitem__) for key in keys}
        verdicts[probe.name] = tuple(MetricVerdict(probe.name, *each, text) for each in likeliest.items())
    return MetricAnswers(verdicts, failures)
