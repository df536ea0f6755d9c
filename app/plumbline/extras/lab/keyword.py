"""BM25 inside the process: on tantivy with one field or several, on bm25s with a k1 and b of one's own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.chunkings import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts, find_fields, folder_bytes
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.words import FUNCTION_CHARACTERS, is_han, split_tokens

if TYPE_CHECKING:
    from tantivy import Query, Schema, Searcher


Language = Literal["auto", "en", "zh", "none"]
Tokenize = Callable[[str], list[str]]

# Lucene's standard tokenizer knows no longer ones either (its default); tantivy drops terms beyond 65,530 bytes.
LONGEST_WORD = 255


def build_tokenizer(language: Language) -> Tokenize:
    """Return a function from a text to its terms, in order, repeats kept.

    A run of Han gives each character and, between two, their pair: `肺癌` is `肺 肺癌 癌`. `en` takes Snowball's stems
    (Porter 2) and drops tantivy's 33 stop words, `zh` drops function characters; `auto` does both, `none` neither.

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
# Fixed in tantivy's source (`src/query/bm25.rs`); bm25s computes others.
K1: Final = 1.2
B: Final = 0.75
_OPTION_KINDS: Final[Mapping[str, tuple[QueryKind, ...]]] = {
    "operator": ("plain", "best_fields", "cross_fields"),
    "tie_breaker": ("best_fields", "cross_fields", "phrase_prefix"),
    "max_expansions": ("phrase_prefix",),
}


class KeywordSettings(BaseModel):
    """`kind = "keyword"`: BM25 in a tantivy index on disk; with another k1 or b by bm25s, in memory.

    The kinds of query are those of Elasticsearch's `multi_match`; `plain` reads all fields as one text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["keyword"] = "keyword"
    query: QueryKind = "plain"
    fields: Mapping[str, Annotated[float, Field(gt=0, le=1000)]] = Field(
        {}, description="Searched fields with their boosts; all alike when empty"
    )
    language: Language = Field("auto", description="Of stems and stop words; for phrase_prefix auto is none")
    operator: Literal["or", "and"] = Field("or", description="or: any term matches; and: every term must")
    tie_breaker: float = Field(0.0, ge=0, le=1, description="Weight of the fields that are not the best one")
    max_expansions: int = Field(50, ge=1, le=1000, description="Completions of the last word of phrase_prefix")
    k1: float = Field(K1, ge=0, le=100, description="Saturation of a term's repetitions")
    b: float = Field(B, ge=0, le=1, description="Weight of a text's length")

    @model_validator(mode="after")
    def _fits_the_query(self) -> Self:
        if self.has_own_parameters and (self.query, self.operator) != ("plain", "or"):
            raise ValueError(f'k1 other than {K1} and b other than {B} are for query "plain" with operator "or"')
        if self.query == "plain" and any(boost != 1 for boost in self.fields.values()):
            raise ValueError('query "plain" reads all fields as one, so that boosts are 1; "best_fields" weighs them')
        for name, kinds in _OPTION_KINDS.items():
            if self.query not in kinds and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} says nothing to query {self.query!r}; it is for {', '.join(kinds)}")
        return self

    @property
    def has_own_parameters(self) -> bool:
        return (self.k1, self.b) != (K1, B)

    def make(self) -> KeywordRetriever | ParametrisedRetriever:
        """Create the retriever; InvalidInput where its engine is not installed."""
        return ParametrisedRetriever(self) if self.has_own_parameters else KeywordRetriever(self)


class _TermRetriever:
    """Base of BM25 retrievers: chunks in the order of their ids, cut into terms."""

    def __init__(self, settings: KeywordSettings, language: Language) -> None:
        self._settings = settings
        self._language = language
        self._terms = build_tokenizer(language)
        self._ids: list[str] = []

    def _boosts(self, chunks: Sequence[Chunk]) -> Mapping[str, float]:
        there = find_fields(chunks, self._settings.fields)
        return dict(self._settings.fields) or dict.fromkeys(there, 1.0)

    def _read(self, chunks: Sequence[Chunk], fields: Sequence[Sequence[str]]) -> Iterator[list[list[str]]]:
        """Yield the terms of each chunk in every group of fields; keep the ids."""
        ordered = sorted(chunks, key=lambda chunk: chunk.id)
        self._ids = [chunk.id for chunk in ordered]
        for chunk in ordered:
            yield [[t for name in group for t in self._terms(chunk.fields.get(name, ""))] for group in fields]

    def _facts(self, folder: Path, package: str, **stated: str | float) -> IndexFacts:
        own = {"k1": self._settings.k1, "b": self._settings.b, "query": self._settings.query}
        return IndexFacts(
            chunks=len(self._ids),
            index_bytes=folder_bytes(folder),
            bytes_are="files of the index folder; texts and ids of the chunks are not in it",
            engine=f"{package} {version(package)}",
            stated={**own, "language": self._language, **stated},
        )


class KeywordRetriever(_TermRetriever):
    """BM25 retriever over one tantivy index; equal scores come in the order of chunk ids."""

    def __init__(self, settings: KeywordSettings) -> None:
        is_phrase = settings.query == "phrase_prefix"
        # A prefix is seldom a prefix of its stem, and a phrase without its stop words is another phrase.
        super().__init__(settings, "none" if is_phrase and settings.language == "auto" else settings.language)
        self._index: tuple[Searcher, Schema] | None = None
        self._boost_by_field: Mapping[str, float] = {}

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Index the chunks in `folder`, in the order of their ids; see `Retriever.build`."""
        boosts = self._boosts(chunks)
        # Fields by the engine's own names: a corpus may call its own anything.
        groups = [list(boosts)] if self._settings.query == "plain" else [[name] for name in boosts]
        names = [f"field{place}" for place in range(len(groups))]
        is_phrase = self._settings.query == "phrase_prefix"
        self._index = build_index(self._read(chunks, groups), names, folder, with_positions=is_phrase)
        self._boost_by_field = {name: boosts[group[0]] for name, group in zip(names, groups, strict=True) if group}
        kinds = {
            name: getattr(self._settings, name) for name, of in _OPTION_KINDS.items() if self._settings.query in of
        }
        fields = ", ".join(f"{name}^{boost:g}" for name, boost in boosts.items())
        return self._facts(folder, "tantivy", fields=fields, segments=self._index[0].num_segments, **kinds)

    def search(self, query: str, k: int) -> Hits:
        """Return the best k chunks, score descending, then id; scores as float32."""
        terms, limit = self._terms(query), min(k, len(self._ids))
        if self._index is None or not terms or limit <= 0:
            return []
        searcher, _ = self._index
        asked = _QueryBuilder(self._settings, self._boost_by_field, self._index).build(terms)
        if asked is None:
            return []
        hits = searcher.search(asked, limit, count=False).hits
        places = searcher.fast_field_values(PLACE, [address for _, address in hits])
        scored = [(float(score), int(place or 0)) for (score, _), place in zip(hits, places, strict=True)]
        scored.sort(key=lambda hit: (-hit[0], hit[1]))
        return [(self._ids[place], score) for score, place in scored]

    def close(self) -> None:
        """Release the index; its files stay."""
        self._index, self._ids = None, []


class _QueryBuilder:
    """Builder of the queries of one index, over fields with their boosts."""

    def __init__(self, settings: KeywordSettings, boosts: Mapping[str, float], index: tuple[Searcher, Schema]) -> None:
        from tantivy import Occur, Query  # noqa: PLC0415 - an extra

        self._settings, self._boosts, self._query = settings, boosts, Query
        self._occur = Occur.Must if settings.operator == "and" else Occur.Should
        self._searcher, self._schema = index

    def build(self, terms: Sequence[str]) -> Query | None:
        """Build the query of the settings' kind; None if no chunk can match it."""
        if self._settings.query == "cross_fields":
            return self._cross_fields(Counter(terms))
        if self._settings.query == "phrase_prefix":
            return self._best(self._phrase_prefix(name, terms) for name in self._boosts)
        # One BM25 for each field: a term that occurs twice counts twice
        counts = Counter(terms)
        return self._best(
            self._joined([self._term(name, term, boost * times) for term, times in counts.items()])
            for name, boost in self._boosts.items()
        )

    def _cross_fields(self, counts: Counter[str]) -> Query | None:
        """Sum each term's best field, with the term's idf in the field where most chunks have it.

        Without that a word that titles seldom hold would count most there. A field's BM25 is its idf times what the
        chunk gives to it, so that a boost replaces its idf by the shared one.
        """
        clauses = []
        for term, times in counts.items():
            held = {name: self._searcher.doc_freq(name, term) for name in self._boosts}
            idf = self._idf(max(held.values(), default=0)) * times
            weights = {name: idf / self._idf(count) * self._boosts[name] for name, count in held.items() if count}
            if found := self._best(self._term(name, term, weight) for name, weight in weights.items()):
                clauses.append(found)
            elif self._settings.operator == "and":
                return None
        return self._joined(clauses) if clauses else None

    def _phrase_prefix(self, name: str, terms: Sequence[str]) -> Query | None:
        """Match the terms as a phrase in one field, completing the last one; score the best completion."""
        *words, prefix = terms
        before = self._phrase(name, words) if words else None
        if before and not self._searcher.search(before, 1).hits:
            return None
        endings = self._searcher.terms_with_prefix(name, prefix, before, self._settings.max_expansions)
        found = self._best(self._phrase(name, [*words, ending]) for ending, _ in endings)
        return self._query.boost_query(found, self._boosts[name]) if found else None

    def _phrase(self, name: str, words: Sequence[str]) -> Query:
        if len(words) == 1:
            return self._term(name, words[0], 1.0)
        return self._query.phrase_query(self._schema, name, list(words))

    def _term(self, name: str, term: str, weight: float) -> Query:
        query = self._query.term_query(self._schema, name, term, index_option="freq")
        return self._query.boost_query(query, weight)

    def _joined(self, clauses: Sequence[Query]) -> Query:
        return self._query.boolean_query([(self._occur, clause) for clause in clauses])

    def _best(self, queries: Iterable[Query | None]) -> Query | None:
        possible = [query for query in queries if query]
        if len(possible) > 1:
            return self._query.disjunction_max_query(possible, self._settings.tie_breaker)
        return possible[0] if possible else None

    def _idf(self, chunks_with_it: int) -> float:
        return math.log(1 + (self._searcher.num_docs - chunks_with_it + 0.5) / (chunks_with_it + 0.5))


class ParametrisedRetriever(_TermRetriever):
    """BM25 with any k1 and b over all fields as one text, on bm25s, with tantivy's terms, ties and factor k1 + 1."""

    def __init__(self, settings: KeywordSettings) -> None:
        if find_spec("bm25s") is None:
            raise InvalidInput('k1 and b need the package bm25s; install it with pip install "plumbline-rag[lab]"')
        super().__init__(settings, settings.language)
        self._engine: Any = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Index the chunks in the order of their ids, and keep the index in `folder`; see `Retriever.build`."""
        import bm25s  # noqa: PLC0415 - an extra

        fields = list(self._boosts(chunks))
        texts = [terms for (terms,) in self._read(chunks, [fields])]
        engine = bm25s.BM25(k1=self._settings.k1, b=self._settings.b, method="lucene", dtype="float64")
        if any(texts):
            engine.index(texts, show_progress=False)
            engine.save(folder, show_progress=False)
            self._engine = engine
        return self._facts(folder, "bm25s", fields=", ".join(fields))

    def search(self, query: str, k: int) -> Hits:
        """Return the best k chunks, score descending, then id."""
        known = [term for term in self._terms(query) if term in self._engine.vocab_dict] if self._engine else []
        if not known or k <= 0:
            return []
        scores = (self._settings.k1 + 1) * self._engine.get_scores(known)
        found = np.flatnonzero(scores)
        order = found[np.argsort(-scores[found], kind="stable")][:k]
        return [(self._ids[place], float(scores[place])) for place in order]

    def close(self) -> None:
        self._engine = None
