"""What is asked of a keyword index: queries built of terms, in no query language that a text could speak."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tantivy import Occur, Query, Schema, Searcher

QueryKind = Literal["plain", "best_fields", "cross_fields", "phrase_prefix"]
Operator = Literal["or", "and"]


@dataclass(frozen=True, slots=True)
class Asked:
    """How a query's fields and terms are joined, as the settings of `plumbline.extras.lab.retrievers.keyword` say."""

    kind: QueryKind
    operator: Operator
    tie_breaker: float
    max_expansions: int


class IndexQueries:
    """Queries to one index. Terms not empty; `boosts`: the fields that are searched, by the engine's names."""

    def __init__(self, searcher: Searcher, schema: Schema, boosts: Mapping[str, float], asked: Asked) -> None:
        from tantivy import Occur, Query  # noqa: PLC0415 - an extra

        self._query = Query
        self._occur: Occur = Occur.Must if asked.operator == "and" else Occur.Should
        self._searcher, self._schema = searcher, schema
        self._boosts, self._asked = boosts, asked

    def of(self, terms: Sequence[str]) -> Query | None:
        """The query of the settings' kind; None where no chunk can answer it."""
        if self._asked.kind == "cross_fields":
            return self._cross_fields(terms)
        if self._asked.kind == "phrase_prefix":
            return self._best([self._phrase_prefix(name, terms) for name in self._boosts])
        return self._best([self._bag(name, terms) for name in self._boosts])

    def _bag(self, name: str, terms: Sequence[str]) -> Query:
        """BM25 over one field: a term that is asked twice counts twice."""
        boost = self._boosts[name]
        return self._joined([self._term(name, term, boost * times) for term, times in Counter(terms).items()])

    def _cross_fields(self, terms: Sequence[str]) -> Query | None:
        """Each term's best field, added up; a term is as rare in all fields as in the one that most chunks have it in.

        Without that a word that titles seldom hold would count most there. A field's BM25 is its idf times what the
        chunk gives to it, so that a boost puts the shared idf in the place of its own.
        """
        clauses = []
        for term, times in Counter(terms).items():
            held = {name: self._searcher.doc_freq(name, term) for name in self._boosts}
            widest = max(held.values(), default=0)
            if not widest and self._asked.operator == "and":
                return None
            shared = {name: times * self._idf(widest) / self._idf(count) for name, count in held.items() if count}
            fields = [self._term(name, term, weight * self._boosts[name]) for name, weight in shared.items()]
            if best := self._best(fields):
                clauses.append(best)
        return self._joined(clauses) if clauses else None

    def _phrase_prefix(self, name: str, terms: Sequence[str]) -> Query | None:
        """The terms in a row in one field, the last one begun: its completions there, the best one's BM25."""
        *words, begun = terms
        before = self._phrase(name, words) if words else None
        if before and not self._searcher.search(before, 1).hits:
            return None
        endings = self._searcher.terms_with_prefix(name, begun, before, self._asked.max_expansions)
        found = self._best([self._phrase(name, [*words, ending]) for ending, _ in endings])
        return self._query.boost_query(found, self._boosts[name]) if found else None

    def _phrase(self, name: str, words: Sequence[str]) -> Query:
        if len(words) == 1:
            return self._term(name, words[0], 1.0)
        return self._query.phrase_query(self._schema, name, list(words))

    def _term(self, name: str, term: str, weight: float) -> Query:
        query = self._query.term_query(self._schema, name, term, index_option="freq")
        return query if weight == 1 else self._query.boost_query(query, weight)

    def _joined(self, clauses: Sequence[Query]) -> Query:
        return self._query.boolean_query([(self._occur, clause) for clause in clauses])

    def _best(self, queries: Sequence[Query | None]) -> Query | None:
        """The best of them for each chunk, and `tie_breaker` times each other one."""
        possible = [query for query in queries if query]
        if len(possible) > 1:
            return self._query.disjunction_max_query(possible, self._asked.tie_breaker)
        return possible[0] if possible else None

    def _idf(self, chunks_with_it: int) -> float:
        """As the engine's: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        return math.log(1 + (self._searcher.num_docs - chunks_with_it + 0.5) / (chunks_with_it + 0.5))
