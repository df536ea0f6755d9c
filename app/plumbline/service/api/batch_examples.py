"""Batches that /docs offers and that work when pressed."""

from typing import Any

from plumbline.service.api.evaluation_examples import EXAMPLES

_TEXTS = ("question", "contexts", "answer", "reference")


def _sample(name: str) -> dict[str, Any]:
    value = EXAMPLES[name]["value"]
    return {"custom_id": name, **{field: value[field] for field in _TEXTS if field in value}}


BATCH_EXAMPLES: dict[str, Any] = {
    "lines": {
        "summary": "A line for each sample as soon as it is judged, then the summary",
        "value": {"samples": [_sample("english"), _sample("chinese"), _sample("abstention")], "format": "ndjson"},
    },
    "array": {
        "summary": "One array in the order of the samples, with options for all of them",
        "value": {
            "samples": [_sample("english"), _sample("reference")],
            "options": {"tiers": ["lexical"], "threshold": 0.7},
            "format": "array",
        },
    },
    "bad row": {
        "summary": "A sample that does not validate costs no other sample",
        "value": {"samples": [_sample("english"), {"custom_id": "bad", "answer": "No contexts."}], "format": "ndjson"},
    },
}
