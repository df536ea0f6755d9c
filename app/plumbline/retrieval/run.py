"""TREC's words as values: judgments and runs, already read and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# query_id -> doc_id -> relevance: an integer grade; 0 and below is not relevant.
Qrels = Mapping[str, Mapping[str, int]]

# What was retrieved for one query: scores by doc_id (finite), or doc_ids best first.
Results = Mapping[str, float] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Run:
    """What one system retrieved, by query_id."""

    name: str
    results: Mapping[str, Results]
