"""BM25 inside the process: on tantivy over all fields as one text or field by field, on bm25s with any k1 and b."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts, find_fields, folder_bytes
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.words import FUNCTION_CHARACTERS, is_han, split_tokens

if TYPE_CHECKING:
    from tantivy import Query

Language = Literal["auto", "en", "zh", "none"]
QueryKind = Literal["plain", "best_fields", "cross_fields", "phrase_prefix"]
Tokenize = Callable[[str], list[str]]

# Lucene's standard tokenizer knows no longer words either (its default); tantivy drops terms beyond 65,530 bytes.
LONGEST_WORD: Final = 255
# Fixed in tantivy's source (`src/query/bm25.rs`); bm25s computes others.
K1: Final = 1.2
B: Final = 0.75
# The field of tantivy that holds a chunk's position in the order of ids.
_POSITION: Final = "position"
# tantivy's most for one writer thread, taken as it fills. One thread and one segment give the same index each time.
_WRITER_BYTES: Final = 4_293_967_294


def build_tokenizer(language: Language) -> Tokenize:
    """Return a function from a text to its terms, in order, repeats kept; InvalidInput without tantivy.

    A run of Han gives each character and, between two, their pair: `肺癌` is `肺 肺癌 癌`. `en` takes Snowball's stems
    (Porter 2) and drops tantivy's 33 stop words, `zh` drops function characters; `auto` does both, `none` neither.
    """
    if find_spec("tantivy") is None:
        how = 'install it with pip install "plumbline-rag[lab]"'
        raise InvalidInput(f"keyword retrievers need the package tantivy; {how}")
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

    words = TextAnalyzerBuilder(Tokenizer.whitespace())
    if language in ("auto", "en"):
        words = words.filter(Filter.stopword("english")).filter(Filter.stemmer("english"))
    analyzer, drops_functions = words.build(), language in ("auto", "zh")

    def tokenize(text: str) -> list[str]:
        found = [term for token in split_tokens(text) for term in _split_terms(token, drops_functions)]
        return list(analyzer.analyze(" ".join(found)))

    return tokenize


def _split_terms(token: str, drops_functions: bool) -> Iterator[str]:
    if not is_han(token):
        yield token.replace("’", "'").removesuffix("'s")[:LONGEST_WORD]
        return
    for place, character in enumerate(token):
        pair = token[place : place + 2]
        if not (drops_functions and character in FUNCTION_CHARACTERS):
            yield character
        if len(pair) > 1 and not (drops_functions and FUNCTION_CHARACTERS.issuperset(pair)):
            yield pair


class KeywordSettings(BaseModel):
    """`kind = "keyword"`: BM25 over all fields as one text, or field by field as Elasticsearch's multi-match."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["keyword"] = "keyword"
    query: QueryKind = "plain"
    fields: Mapping[str, Annotated[float, Field(gt=0, le=1000)]] = Field(
        {}, description="Searched fields with their boosts; all alike when empty"
    )
    language: Language = Field("auto", description="Of stems and stop words")
    tie_breaker: float = Field(0.0, ge=0, le=1, description="Weight of the fields that are not the best one")
    k1: float = Field(K1, ge=0, le=100, description="Saturation of a term's repetitions")
    b: float = Field(B, ge=0, le=1, description="Weight of a text's length")

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if self.query == "plain":
            if self.tie_breaker or any(boost != 1 for boost in self.fields.values()):
                raise ValueError('boosts and tie_breaker are not for query "plain", which reads all fields as one')
        elif self.has_own_parameters:
            raise ValueError(f'k1 other than {K1} and b other than {B} are for query "plain"')
        return self

    @property
    def has_own_parameters(self) -> bool:
        return (self.k1, self.b) != (K1, B)

    def make(self) -> KeywordRetriever:
        return KeywordRetriever(self)


class KeywordRetriever:
    """BM25 retriever; equal scores come in the order of ids.

    On one tantivy index, scores in float32; with other k1 and b on bm25s, with tantivy's terms, ties and factor k1 + 1.
    """

    def __init__(self, settings: KeywordSettings) -> None:
        self._settings = settings
        self._terms = build_tokenizer(settings.language)
        self._ids: list[str] = []
        self._engine: Any = None
        self._schema: Any = None
        self._boost_by_field: Mapping[str, float] = {}

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        there = find_fields(chunks, self._settings.fields)
        boosts = dict(self._settings.fields) or dict.fromkeys(there, 1.0)
        groups = [list(boosts)] if self._settings.query == "plain" else [[name] for name in boosts]
        ordered = sorted(chunks, key=lambda chunk: chunk.id)
        self._ids = [chunk.id for chunk in ordered]
        texts = (
            [[term for name in group for term in self._terms(chunk.fields.get(name, ""))] for group in groups]
            for chunk in ordered
        )
        if self._settings.has_own_parameters:
            package = self._index_in_memory(texts, folder)
        else:
            package = self._index(texts, [boosts[group[0]] for group in groups if group], folder)
        return IndexFacts(len(self._ids), folder_bytes(folder), f"{package} {version(package)}")

    def search(self, query: str, k: int) -> Hits:
        terms, limit = self._terms(query), min(k, len(self._ids))
        if self._engine is None or not terms or limit <= 0:
            return []
        find = self._find_in_memory if self._settings.has_own_parameters else self._find
        return [(self._ids[position], score) for position, score in find(terms, limit)]

    def _index(self, texts: Iterator[list[list[str]]], boosts: Sequence[float], folder: Path) -> str:
        from tantivy import Document, Index, SchemaBuilder, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

        # Fields by names of ours: a corpus may call its own anything.
        self._boost_by_field = {f"field{place}": boost for place, boost in enumerate(boosts)}
        builder = SchemaBuilder()
        builder.add_unsigned_field(_POSITION, fast=True)
        kept = "position" if self._settings.query == "phrase_prefix" else "freq"
        for name in self._boost_by_field:
            builder.add_text_field(name, tokenizer_name="terms", index_option=kept)
        self._schema = builder.build()
        index = Index(self._schema, path=str(folder))
        # A reader that watches for commits may lock a file in the folder after the folder is gone.
        index.config_reader("manual")
        index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        writer = index.writer(_WRITER_BYTES, num_threads=1)
        for position, by_group in enumerate(texts):
            document = Document()
            document.add_unsigned(_POSITION, position)
            for name, terms in zip(self._boost_by_field, by_group, strict=False):
                document.add_text(name, " ".join(terms))
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._engine = index
        return "tantivy"

    def _find(self, terms: Sequence[str], limit: int) -> Sequence[tuple[int, float]]:
        searcher = self._engine.searcher()
        hits = searcher.search(self._query(terms), limit, count=False).hits
        positions = searcher.fast_field_values(_POSITION, [address for _, address in hits])
        scored = [(int(position or 0), float(score)) for (score, _), position in zip(hits, positions, strict=True)]
        return sorted(scored, key=lambda hit: (-hit[1], hit[0]))

    def _query(self, terms: Sequence[str]) -> Query:
        from tantivy import Occur, Query  # noqa: PLC0415 - an extra

        # A term that the query has twice counts twice.
        times, schema, boosts = Counter(terms), self._schema, self._boost_by_field

        def weigh(name: str, term: str) -> Query:
            found = Query.term_query(schema, name, term, index_option="freq")
            return Query.boost_query(found, boosts[name] * times[term])

        def best(parts: Iterable[Query]) -> Query:
            return Query.disjunction_max_query(list(parts), self._settings.tie_breaker)

        def any_of(parts: Iterable[Query]) -> Query:
            return Query.boolean_query([(Occur.Should, part) for part in parts])

        if self._settings.query == "cross_fields":
            return any_of(best(weigh(name, term) for name in boosts) for term in times)
        if self._settings.query == "phrase_prefix":
            phrases = {name: Query.phrase_prefix_query(schema, name, list(terms)) for name in boosts}
            return best(Query.boost_query(phrase, boosts[name]) for name, phrase in phrases.items())
        return best(any_of(weigh(name, term) for term in times) for name in boosts)

    def _index_in_memory(self, texts: Iterator[list[list[str]]], folder: Path) -> str:
        import bm25s  # noqa: PLC0415 - an extra

        joined = [terms for (terms,) in texts]
        if any(joined):
            self._engine = bm25s.BM25(k1=self._settings.k1, b=self._settings.b, method="lucene", dtype="float64")
            self._engine.index(joined, show_progress=False)
            self._engine.save(folder, show_progress=False)
        return "bm25s"

    def _find_in_memory(self, terms: Sequence[str], limit: int) -> Sequence[tuple[int, float]]:
        if not (known := [term for term in terms if term in self._engine.vocab_dict]):
            return []
        scores = (self._settings.k1 + 1) * self._engine.get_scores(known)
        found = np.flatnonzero(scores)
        best = found[np.argsort(-scores[found], kind="stable")][:limit]
        return [(int(position), float(scores[position])) for position in best]
