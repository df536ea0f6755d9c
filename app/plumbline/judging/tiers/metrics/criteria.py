"""Criteria of a caller's own: one question about the answer with labels and their weights, judged in the same call."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from plumbline.judging.text.verdicts import Evidence, MetricVerdict
from plumbline.judging.tiers.evidence.search import EvidenceSearch
from plumbline.judging.tiers.metrics.metric import Metric
from plumbline.judging.tiers.metrics.probe import UNVERIFIED, WHOLE, Material, Probe, found_quotes
from plumbline.judging.tiers.reply_items import Item

# Of the names of criteria among metrics, so that none can be called as one of ours.
CRITERION = "criterion_"
_PART = "criterion"


def criterion(
    name: str, question: str, labels: Mapping[str, float], quote_from: Literal["answer", "contexts"] | None
) -> Metric:
    """Return the metric `criterion_NAME`: the weight in [0, 1] of the label that the judge gives.

    Args:
        quote_from: texts from which the judge must quote for a label above the lowest; without a quote that is found
            there, the lowest counts.
    """
    lowest = min(labels, key=lambda label: labels[label])

    def prove(verdict: MetricVerdict, item: Item, material: Material) -> MetricVerdict:
        if quote_from is None or verdict.verdict == lowest:
            return verdict
        if quote_from == "contexts":
            evidence = found_quotes(item, material.contexts)
        else:
            found = found_quotes(item, EvidenceSearch((material.case.source.answer,)))
            evidence = tuple(Evidence(None, each.quote, None, None, verified=True) for each in found)
        return replace(verdict, evidence=evidence, flags=() if evidence else (UNVERIFIED,))

    asked = {"list": f"{CRITERION}{name}", "question": question, "labels": list(labels), "quote_from": quote_from}
    probe = Probe(
        name=f"{CRITERION}{name}",
        about="",
        text="",
        verdict=f"label_{name}",
        words=dict.fromkeys(labels, ""),
        members={"quote": {"type": "string"}} if quote_from else {},
        ids=lambda material: WHOLE,
        shows=("question", "answer", "contexts"),
        prove=prove,
        unproven=lowest,
        part=_PART,
        stated=json.dumps({**asked, "member": f"label_{name}"}, ensure_ascii=False),
    )
    return Metric(
        probe.name,
        question,
        "The caller.",
        needs=(),
        probes=(probe,),
        count=lambda reading: next((labels[each.verdict] for each in reading.verdicts[probe.name]), None),
    )
