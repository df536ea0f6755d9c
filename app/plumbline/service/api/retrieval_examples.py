"""Retrieval requests that /docs offers and that work when pressed."""

from typing import Any

_QRELS = {"q1": {"d1": 2, "d2": 1, "d3": 0}, "q2": {"d4": 1}}

EVALUATION_EXAMPLES: dict[str, Any] = {
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

_RUNS = EVALUATION_EXAMPLES["two_runs"]["value"]["runs"]

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
