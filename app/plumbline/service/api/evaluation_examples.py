"""Samples that /docs offers and that work when pressed."""

from typing import Any

_CONTEXTS = [
    "The Marlow Bridge was opened in 1931. It is 412 metres long and carries two railway tracks across the Teal.",
    "Since 2008 the bridge has been closed to cars; about 9,000 people cross it on foot or by bicycle every day.",
]

EXAMPLES: dict[str, Any] = {
    "english": {
        "summary": "English: one sentence is supported, one is not",
        "value": {
            "id": "bridge-1",
            "question": "When was the Marlow Bridge opened and what is it used for?",
            "contexts": _CONTEXTS,
            "answer": "The Marlow Bridge was opened in 1931 and carries two railway tracks. "
            "Its chief engineer was awarded a medal by the king.",
        },
    },
    "chinese": {
        "summary": "中文：一句有依据，一句没有",
        "value": {
            "question": "青川水库是什么时候建成的？",
            "contexts": ["青川水库于1987年建成，总库容为3.2亿立方米，主要用于灌溉和防洪。"],
            "answer": "青川水库于1987年建成，主要用于灌溉和防洪。水库每年吸引约五十万名游客前来观光。",
        },
    },
    "lexical": {
        "summary": "Tier lexical alone, with a threshold and UTF-16 offsets",
        "value": {
            "contexts": _CONTEXTS,
            "answer": "About 9,000 people cross the bridge on foot or by bicycle every day.",
            "tiers": ["lexical"],
            "threshold": 0.7,
            "offset_unit": "utf16",
        },
    },
    "abstention": {
        "summary": "An answer that declines: no score, no cost",
        "value": {"contexts": _CONTEXTS, "answer": "I'm sorry, the documents do not mention who designed the bridge."},
    },
    "reference": {
        "summary": "With a reference answer",
        "value": {"contexts": _CONTEXTS, "answer": "In 1931.", "reference": "1931"},
    },
}
