"""A tantivy index on disk: texts into terms, terms into an index, and queries built of terms, in no query language."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.words import FUNCTION_CHARACTERS, is_han, split_tokens

if TYPE_CHECKING:
    from tantivy import Occur, Query, Schema, Searcher


Language = Literal["auto", "en", "zh", "none"]
Tokenize = Callable[[str], list[str]]

# Lucene's standard tokenizer knows no longer ones either (its default); tantivy drops terms beyond 65,530 bytes.
LONGEST_WORD = 255


def build_tokenizer(language: Language) -> Tokenize:
    """Return a function from a text to its terms, in order, repeats kept.

    Text is taken in NFKC and case-folded, without possessives; punctuation parts words, and letters from digits.
    Whatever the language, a run of Han gives each character and, between two, their pair: `肺癌` is `肺 肺癌 癌`,
    so that a single character is found, and a phrase is a run of terms. Words of Latin and other letters stay whole,
    those beyond 255 characters are cut there.

    `en` takes Snowball's English stems (Porter 2) and drops tantivy's 33 English stop words, `zh` drops characters
    that only hold a sentence together, alone or as a pair; `auto` does both, `none` neither. A text of nothing else
    than stop words has no terms.

    Raises:
        InvalidInput: tantivy, which stems and indexes them, is not installed.
    """
    if find_spec("tantivy") is None:
        how = 'install it with pip install "plumbline-rag[lab]"'
        raise InvalidInput(f"keyword retrievers need the package tantivy; {how}")
    drops_functions = language in ("auto", "zh")
    stemmed = _english() if language in ("auto", "en") else None

    def terms(text: str) -> list[str]:
        found = [unit for token in split_tokens(text) for unit in _units(token, drops_functions)]
        return stemmed(found) if stemmed else found

    return terms


def _units(token: str, drops_functions: bool) -> Iterator[str]:
    if not is_han(token):
        yield token.replace("’", "'").removesuffix("'s")[:LONGEST_WORD]
        return
    for place, character in enumerate(token):
        pair = token[place : place + 2]
        if not (drops_functions and character in FUNCTION_CHARACTERS):
            yield character
        if len(pair) > 1 and not (drops_functions and FUNCTION_CHARACTERS.issuperset(pair)):
            yield pair


def _english() -> Callable[[list[str]], list[str]]:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

    # Tokens hold no white space, so that they come back apart as they went in.
    words = TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stopword("english"))
    analyzer = words.filter(Filter.stemmer("english")).build()

    def stemmed(tokens: list[str]) -> list[str]:
        found: list[str] = analyzer.analyze(" ".join(tokens))
        return found

    return stemmed


# The field that holds a text's place in the order in which texts came.
PLACE = "place"
# The most that tantivy lets a thread of its writer gather before it writes a segment. One thread and one segment give
# the same index for the same texts each time; memory is taken as it fills, not beforehand.
_GATHERED_BYTES = 4_293_967_294


def build_index(
    texts: Iterable[Sequence[Sequence[str]]], names: Sequence[str], folder: Path, *, with_positions: bool
) -> tuple[Searcher, Schema]:
    """Create an index of texts in `folder`, each the terms of every field of `names`; committed and read-only.

    Terms hold no white space. `with_positions`: phrases can be asked for, which takes more bytes.
    """
    from tantivy import Document, Index, SchemaBuilder, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

    builder = SchemaBuilder()
    builder.add_unsigned_field(PLACE, fast=True)
    for name in names:
        builder.add_text_field(name, tokenizer_name="terms", index_option="position" if with_positions else "freq")
    schema = builder.build()
    index = Index(schema, path=str(folder))
    # Read again only when asked: a reader that watches for commits may lock a file in the folder half a second later,
    # which may be gone by then or about to go.
    index.config_reader("manual")
    index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())

    writer = index.writer(_GATHERED_BYTES, num_threads=1)
    for place, fields in enumerate(texts):
        document = Document()
        document.add_unsigned(PLACE, place)
        for name, terms in zip(names, fields, strict=True):
            document.add_text(name, " ".join(terms))
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index.searcher(), schema


QueryKind = Literal["plain", "best_fields", "cross_fields", "phrase_prefix"]
Operator = Literal["or", "and"]


@dataclass(frozen=True, slots=True)
class KeywordQueryOptions:
    """Options that join a query's fields and terms; see `KeywordSettings`."""

    kind: QueryKind
    operator: Operator
    tie_breaker: float
    max_expansions: int


class IndexQueries:
    """Query builder of one index. `boosts`: the searched fields, by the engine's names."""

    def __init__(
        self, searcher: Searcher, schema: Schema, boosts: Mapping[str, float], asked: KeywordQueryOptions
    ) -> None:
        from tantivy import Occur, Query  # noqa: PLC0415 - an extra

        self._query = Query
        self._occur: Occur = Occur.Must if asked.operator == "and" else Occur.Should
        self._searcher, self._schema = searcher, schema
        self._boosts, self._asked = boosts, asked

    def of(self, terms: Sequence[str]) -> Query | None:
        """Build the query of the settings' kind; None if no chunk can match it."""
        if self._asked.kind == "cross_fields":
            return self._cross_fields(terms)
        if self._asked.kind == "phrase_prefix":
            return self._best([self._phrase_prefix(name, terms) for name in self._boosts])
        return self._best([self._bag(name, terms) for name in self._boosts])

    def _bag(self, name: str, terms: Sequence[str]) -> Query:
        """Build BM25 over one field: a term that occurs twice counts twice."""
        boost = self._boosts[name]
        return self._joined([self._term(name, term, boost * times) for term, times in Counter(terms).items()])

    def _cross_fields(self, terms: Sequence[str]) -> Query | None:
        """Sum each term's best field; a term's idf is that of the field where most chunks have it.

        Without that a word that titles seldom hold would count most there. A field's BM25 is its idf times what the
        chunk gives to it, so that a boost replaces its idf by the shared one.
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
        """Match the terms as a phrase in one field, completing the last one; score the best completion."""
        *words, prefix = terms
        before = self._phrase(name, words) if words else None
        if before and not self._searcher.search(before, 1).hits:
            return None
        endings = self._searcher.terms_with_prefix(name, prefix, before, self._asked.max_expansions)
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
        """Score each chunk by the best query, plus `tie_breaker` times each other one."""
        possible = [query for query in queries if query]
        if len(possible) > 1:
            return self._query.disjunction_max_query(possible, self._asked.tie_breaker)
        return possible[0] if possible else None

    def _idf(self, chunks_with_it: int) -> float:
        """Return the engine's idf: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        return math.log(1 + (self._searcher.num_docs - chunks_with_it + 0.5) / (chunks_with_it + 0.5))
