"""BM25 inside the process: on tantivy over all fields as one text or by the best field, on bm25s with any k1 and b."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    from tantivy import Index, Schema

Language = Literal["auto", "en", "zh", "none"]
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
    """Return a function from a text to its terms, in order, repeats kept; terms hold no white space.

    A run of Han gives each character and, between two, their pair: `肺癌` is `肺 肺癌 癌`. `en` takes Snowball's stems
    (Porter 2) and drops tantivy's 33 stop words, `zh` drops function characters; `auto` does both, `none` neither.

    Raises:
        InvalidInput: tantivy, which stems and indexes them, is not installed.
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
    """`kind = "keyword"`: BM25 over all fields as one text (`plain`), or by the best field (`best_fields`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["keyword"] = "keyword"
    query: Literal["plain", "best_fields"] = "plain"
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
                raise ValueError('boosts and tie_breaker are for query "best_fields"; "plain" reads all fields as one')
        elif self.has_own_parameters:
            raise ValueError(f'k1 other than {K1} and b other than {B} are for query "plain"')
        return self

    @property
    def has_own_parameters(self) -> bool:
        return (self.k1, self.b) != (K1, B)

    def make(self) -> KeywordRetriever | ParametrisedRetriever:
        """Create the retriever; InvalidInput where its engine is not installed."""
        return ParametrisedRetriever(self) if self.has_own_parameters else KeywordRetriever(self)


class _TermRetriever:
    """Base of BM25 retrievers: chunks in the order of their ids, cut into terms."""

    def __init__(self, settings: KeywordSettings) -> None:
        self._settings = settings
        self._terms = build_tokenizer(settings.language)
        self._ids: list[str] = []

    def _boosts(self, chunks: Sequence[Chunk]) -> Mapping[str, float]:
        there = find_fields(chunks, self._settings.fields)
        return dict(self._settings.fields) or dict.fromkeys(there, 1.0)

    def _read(self, chunks: Sequence[Chunk], groups: Sequence[Sequence[str]]) -> Iterator[list[list[str]]]:
        """Yield the terms of each chunk in every group of fields; keep the ids."""
        ordered = sorted(chunks, key=lambda chunk: chunk.id)
        self._ids = [chunk.id for chunk in ordered]
        for chunk in ordered:
            yield [[t for name in group for t in self._terms(chunk.fields.get(name, ""))] for group in groups]

    def _facts(self, folder: Path, package: str, boosts: Mapping[str, float]) -> IndexFacts:
        fields = ", ".join(f"{name}^{boost:g}" for name, boost in boosts.items())
        return IndexFacts(
            chunks=len(self._ids),
            index_bytes=folder_bytes(folder),
            bytes_are="files of the index folder; texts and ids of the chunks are not in it",
            engine=f"{package} {version(package)}",
            stated={**self._settings.model_dump(exclude={"kind", "fields"}), "fields": fields},
        )


class KeywordRetriever(_TermRetriever):
    """BM25 retriever over one tantivy index; equal scores come in the order of chunk ids."""

    _index: tuple[Index, Schema] | None = None
    _boost_by_field: Mapping[str, float]

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Index the chunks in `folder`, in the order of their ids; see `Retriever.build`."""
        from tantivy import Document, Index, SchemaBuilder, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

        boosts = self._boosts(chunks)
        # Fields by names of ours: a corpus may call its own anything.
        groups = [list(boosts)] if self._settings.query == "plain" else [[name] for name in boosts]
        self._boost_by_field = {f"field{place}": boosts[group[0]] for place, group in enumerate(groups) if group}
        builder = SchemaBuilder()
        builder.add_unsigned_field(_POSITION, fast=True)
        for name in self._boost_by_field:
            builder.add_text_field(name, tokenizer_name="terms", index_option="freq")
        schema = builder.build()
        index = Index(schema, path=str(folder))
        # A reader that watches for commits may lock a file in the folder after the folder is gone.
        index.config_reader("manual")
        index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        writer = index.writer(_WRITER_BYTES, num_threads=1)
        for position, texts in enumerate(self._read(chunks, groups)):
            document = Document()
            document.add_unsigned(_POSITION, position)
            for name, terms in zip(self._boost_by_field, texts, strict=False):
                document.add_text(name, " ".join(terms))
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._index = index, schema
        return self._facts(folder, "tantivy", boosts)

    def search(self, query: str, k: int) -> Hits:
        """Return the best k chunks, score descending, then id; scores as float32."""
        from tantivy import Occur, Query  # noqa: PLC0415 - an extra

        terms, limit = Counter(self._terms(query)), min(k, len(self._ids))
        if self._index is None or not terms or limit <= 0:
            return []
        index, schema = self._index
        searcher = index.searcher()

        def weigh(name: str, term: str, weight: float) -> Query:
            return Query.boost_query(Query.term_query(schema, name, term, index_option="freq"), weight)

        by_field = [
            # A term that the query has twice counts twice
            Query.boolean_query([(Occur.Should, weigh(name, term, boost * times)) for term, times in terms.items()])
            for name, boost in self._boost_by_field.items()
        ]
        hits = searcher.search(
            Query.disjunction_max_query(by_field, self._settings.tie_breaker), limit, count=False
        ).hits
        positions = searcher.fast_field_values(_POSITION, [address for _, address in hits])
        scored = [(float(score), int(position or 0)) for (score, _), position in zip(hits, positions, strict=True)]
        scored.sort(key=lambda hit: (-hit[0], hit[1]))
        return [(self._ids[position], score) for score, position in scored]

    def close(self) -> None:
        """Release the index; its files stay."""
        self._index = None


class ParametrisedRetriever(_TermRetriever):
    """BM25 with any k1 and b over all fields as one text, on bm25s, with tantivy's terms, ties and factor k1 + 1."""

    _engine: Any = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Index the chunks in the order of their ids, and keep the index in `folder`; see `Retriever.build`."""
        import bm25s  # noqa: PLC0415 - an extra

        boosts = self._boosts(chunks)
        texts = [terms for (terms,) in self._read(chunks, [list(boosts)])]
        if any(texts):
            self._engine = bm25s.BM25(k1=self._settings.k1, b=self._settings.b, method="lucene", dtype="float64")
            self._engine.index(texts, show_progress=False)
            self._engine.save(folder, show_progress=False)
        return self._facts(folder, "bm25s", boosts)

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
