"""Additions to the OpenAPI document beyond the routes' own types: component schemas, and examples for /docs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from fastapi import FastAPI

# As pydantic fills it in.
SCHEMA_REFERENCE: Final = "#/components/schemas/{model}"


def reference(name: str) -> dict[str, str]:
    """Return a reference to a component schema."""
    return {"$ref": SCHEMA_REFERENCE.format(model=name)}


def header(description: str, example: str | None = None) -> dict[str, Any]:
    """Return the description of a response header that holds a string."""
    shown = {} if example is None else {"example": example}
    return {"description": description, "schema": {"type": "string"}, **shown}


def lines_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a text of which each line is JSON of one of the schemas.

    The text is a string: clients by generators would read it whole as one of them.
    """
    shown = "Each line is one of these, as JSON."
    return {"schema": {"type": "string", "description": shown, "contentSchema": {"oneOf": list(schemas)}}}


def add_schemas(app: FastAPI, make_schemas: Callable[[], Mapping[str, Any]]) -> None:
    """Add component schemas to the document (https://fastapi.tiangolo.com/how-to/extending-openapi/).

    They are made when the document is asked for: making them takes half of the time in which an app is built.
    """
    plain_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain_openapi()
        document.setdefault("components", {}).setdefault("schemas", {}).update(make_schemas())
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def message_schemas(messages: Sequence[type[Any]]) -> dict[str, Any]:
    """Return the schemas of msgspec messages."""
    template = SCHEMA_REFERENCE.replace("model", "name")
    components: dict[str, Any] = msgspec.json.schema_components(messages, ref_template=template)[1]
    return components


def json_content(message: type[Any], examples: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the `content` of a request or a response that holds this message."""
    shown = {"examples": examples} if examples else {}
    return {"application/json": {"schema": reference(message.__name__), **shown}}


_BRIDGE = [
    "The Marlow Bridge was opened in 1931. It is 412 metres long and carries two railway tracks across the Teal.",
    "Since 2008 the bridge has been closed to cars; about 9,000 people cross it on foot or by bicycle every day.",
]

EVALUATION_EXAMPLES: dict[str, Any] = {
    "english": {
        "summary": "English: one sentence is supported, one is not",
        "value": {
            "id": "bridge-1",
            "question": "When was the Marlow Bridge opened and what is it used for?",
            "contexts": _BRIDGE,
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
            "contexts": _BRIDGE,
            "answer": "About 9,000 people cross the bridge on foot or by bicycle every day.",
            "tiers": ["lexical"],
            "threshold": 0.7,
            "offset_unit": "utf16",
        },
    },
    "abstention": {
        "summary": "An answer that declines: no score, no cost",
        "value": {"contexts": _BRIDGE, "answer": "I'm sorry, the documents do not mention who designed the bridge."},
    },
    "reference": {
        "summary": "With a reference answer",
        "value": {"contexts": _BRIDGE, "answer": "In 1931.", "reference": "1931"},
    },
}


def _sample(name: str) -> dict[str, Any]:
    value = EVALUATION_EXAMPLES[name]["value"]
    fields = ("question", "contexts", "answer", "reference")
    return {"custom_id": name, **{field: value[field] for field in fields if field in value}}


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

_QRELS = {"q1": {"d1": 2, "d2": 1, "d3": 0}, "q2": {"d4": 1}}

RETRIEVAL_EXAMPLES: dict[str, Any] = {
    "two_runs": {
        "summary": "Two runs: ranked ids, and scores",
        "value": {
            "qrels": _QRELS,
            "runs": [
                {"name": "keyword", "results": {"q1": ["d1", "d3", "d2"], "q2": ["d9", "d4"]}},
                {"name": "dense", "results": {"q1": {"d2": 0.91, "d1": 0.88}, "q2": {"d4": 0.7, "d9": 0.2}}},
            ],
            "measures": ["ndcg@10", "recall@1,3", "mrr"],
            "per_query": True,
        },
    },
    "llm_ranking": {
        "summary": "The text of an LLM's ranking as a run",
        "value": {
            "qrels": _QRELS,
            "runs": [
                {
                    "name": "reranker",
                    "llm_outputs": {"q1": "1. d2\n2. d1", "q2": "I cannot rank these."},
                    "candidates": {"q1": ["d1", "d2", "d3"], "q2": ["d4", "d9"]},
                }
            ],
            "measures": ["success@1", "mrr"],
        },
    },
}

_RUNS = RETRIEVAL_EXAMPLES["two_runs"]["value"]["runs"]

COMPARISON_EXAMPLES: dict[str, Any] = {
    "markdown": {
        "summary": "Two runs, with a table in Markdown",
        "value": {"qrels": _QRELS, "runs": _RUNS, "measures": ["ndcg@10", "mrr"], "format": "markdown"},
    }
}

FUSION_EXAMPLES: dict[str, Any] = {
    "rrf": {"summary": "Reciprocal rank fusion, measured", "value": {"runs": _RUNS, "method": "rrf", "qrels": _QRELS}},
    "tuned": {
        "summary": "A weighted sum, its weights tuned by two folds",
        "value": {"runs": _RUNS, "method": "wsum", "qrels": _QRELS, "tune": {"measure": "mrr", "folds": 2}},
    },
}

RANKING_EXAMPLES: dict[str, Any] = {
    "numbered": {
        "summary": "A numbered list with a thinking block",
        "value": {
            "outputs": {"q1": "<think>d1 looks good</think>\n1. d2\n2. d1"},
            "candidates": {"q1": ["d1", "d2", "d3"]},
        },
    }
}
