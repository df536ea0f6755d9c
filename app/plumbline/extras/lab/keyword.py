"""BM25 inside the process: by bm25s over all fields as one text, by tantivy field by field."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from plumbline.extras.lab.corpus import Chunk, LabTable
from plumbline.extras.lab.retriever import Hits, Retriever, ScoringRetriever
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.words import FUNCTION_CHARACTERS, is_han, split_tokens

Language = Literal["auto", "none"]
Tokenize = Callable[[str], list[str]]

# The field of tantivy that holds a chunk's position in the order of ids.
_POSITION: Final = "position"
# tantivy's most for one writer thread, taken as it fills. One thread and one segment give the same index each time.
_WRITER_BYTES: Final = 4_293_967_294


def build_tokenizer(language: Language) -> Tokenize:
    """Return a function from a text to its terms, in order, repeats kept; InvalidInput without tantivy.

    `auto` takes Snowball's English stems (Porter 2) and drops tantivy's 33 stop words and Chinese function characters.
    """
    try:
        from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra
    except ImportError as error:
        how = 'pip install "plumbline-rag[lab]"'
        raise InvalidInput(f"keyword retrievers need the packages tantivy and bm25s: {how}") from error
    words = TextAnalyzerBuilder(Tokenizer.whitespace())
    if language == "auto":
        words = words.filter(Filter.custom_stopword(sorted(FUNCTION_CHARACTERS)))
        words = words.filter(Filter.stopword("english")).filter(Filter.stemmer("english"))
    analyzer = words.build()
    return lambda text: list(analyzer.analyze(" ".join(_split_terms(text))))


def _split_terms(text: str) -> Iterator[str]:
    """Yield words; a run of Han gives each character and, between two, their pair: `肺癌` is `肺 肺癌 癌`."""
    for token in split_tokens(text):
        if not is_han(token):
            yield token.replace("’", "'").removesuffix("'s")
            continue
        for place, character in enumerate(token):
            yield character
            if place + 1 < len(token):
                yield token[place : place + 2]


class KeywordSettings(LabTable):
    """`kind = "keyword"`: BM25 over all fields as one text, or field by field as Elasticsearch's multi-match."""

    kind: Literal["keyword"] = "keyword"
    query: Literal["plain", "best_fields", "cross_fields", "phrase_prefix"] = "plain"
    fields: Mapping[str, Annotated[float, Field(gt=0, le=1000)]] = Field(
        {}, description="Searched fields with their boosts; all alike when empty"
    )
    language: Language = Field("auto", description="Of stems and stop words")
    tie_breaker: float = Field(0.0, ge=0, le=1, description="Weight of the fields that are not the best one")
    k1: float = Field(1.5, ge=0, le=100, description="Saturation of a term's repetitions")
    b: float = Field(0.75, ge=0, le=1, description="Weight of a text's length")

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        others = {"k1", "b"} if self.query != "plain" else {"fields", "tie_breaker"}
        if wrong := sorted(self.model_fields_set & others):
            raise ValueError(f"{' and '.join(wrong)} cannot stand with query {self.query!r}")
        return self

    def make(self) -> Retriever:
        tokenize = build_tokenizer(self.language)
        return PlainRetriever(self, tokenize) if self.query == "plain" else FieldsRetriever(self, tokenize)


class PlainRetriever(ScoringRetriever):
    """BM25 of bm25s over all fields as one text, with the factor k1 + 1 that it leaves out."""

    indexes_blanks = True

    def __init__(self, settings: KeywordSettings, tokenize: Tokenize) -> None:
        import bm25s  # noqa: PLC0415 - an extra

        self._terms = tokenize
        self._factor = settings.k1 + 1
        self._bm25: Any = bm25s.BM25(k1=settings.k1, b=settings.b, dtype="float64")

    def index(self, texts: Sequence[str], folder: Path) -> None:
        terms = [self._terms(text) for text in texts]
        if not any(terms):
            raise InvalidInput("no chunk has a term")
        self._bm25.index(terms, show_progress=False)
        self._bm25.save(folder, show_progress=False)

    def score(self, query: str) -> Any:
        known = [term for term in self._terms(query) if term in self._bm25.vocab_dict]
        return self._factor * self._bm25.get_scores(known) if known else np.empty(0)


class FieldsRetriever:
    """BM25 of tantivy field by field, scores in float32; equal ones come in the order of ids."""

    def __init__(self, settings: KeywordSettings, tokenize: Tokenize) -> None:
        self._settings, self._terms = settings, tokenize
        self._ids: list[str] = []
        self._index: Any = None
        self._boost_by_field: Mapping[str, float] = {}

    def build(self, chunks: Sequence[Chunk], folder: Path) -> None:
        from tantivy import Document, Index, SchemaBuilder, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415

        there = dict.fromkeys(name for chunk in chunks for name in chunk.fields)
        names = list(self._settings.fields or there)
        if absent := [name for name in names if name not in there]:
            raise InvalidInput(f"no document has the field {absent[0]!r}; there are: {', '.join(there)}")
        # Fields by names of ours: a corpus may call its own anything.
        own_names = {f"field{place}": name for place, name in enumerate(names)}
        self._boost_by_field = {own: self._settings.fields.get(name, 1.0) for own, name in own_names.items()}
        builder = SchemaBuilder()
        builder.add_unsigned_field(_POSITION, fast=True)
        for own in own_names:
            builder.add_text_field(own, tokenizer_name="terms", index_option="position")
        self._index = index = Index(builder.build(), path=str(folder))
        # A reader that watches for commits may lock a file in the folder after the folder is gone.
        index.config_reader("manual")
        index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        writer = index.writer(_WRITER_BYTES, num_threads=1)
        ordered = sorted(chunks, key=lambda chunk: chunk.id)
        self._ids = [chunk.id for chunk in ordered]
        for position, chunk in enumerate(ordered):
            document = Document()
            document.add_unsigned(_POSITION, position)
            for own, name in own_names.items():
                document.add_text(own, " ".join(self._terms(chunk.fields.get(name, ""))))
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()

    def search(self, query: str, k: int) -> Hits:
        if not (terms := self._terms(query)):
            return []
        searcher = self._index.searcher()
        hits = searcher.search(self._query(terms), k, count=False).hits
        positions = searcher.fast_field_values(_POSITION, [address for _, address in hits])
        return [(self._ids[position], float(score)) for (score, _), position in zip(hits, positions, strict=True)]

    def _query(self, terms: Sequence[str]) -> Any:
        from tantivy import Occur, Query  # noqa: PLC0415 - an extra

        # A term that the query has twice counts twice.
        times, schema, boosts = Counter(terms), self._index.schema, self._boost_by_field

        def weigh(name: str, term: str) -> Any:
            found = Query.term_query(schema, name, term, index_option="freq")
            return Query.boost_query(found, boosts[name] * times[term])

        def best(parts: Iterable[Any]) -> Any:
            return Query.disjunction_max_query(list(parts), self._settings.tie_breaker)

        def any_of(parts: Iterable[Any]) -> Any:
            return Query.boolean_query([(Occur.Should, part) for part in parts])

        if self._settings.query == "cross_fields":
            return any_of(best(weigh(name, term) for name in boosts) for term in times)
        if self._settings.query == "phrase_prefix":
            phrases = {name: Query.phrase_prefix_query(schema, name, list(terms)) for name in boosts}
            return best(Query.boost_query(phrase, boosts[name]) for name, phrase in phrases.items())
        return best(any_of(weigh(name, term) for term in times) for name in boosts)
