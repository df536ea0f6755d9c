"""Vectors for a server, made here by the model that the lab's own dense retriever takes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plumbline.extras.lab.retrievers.distinct_texts import encodable
from plumbline.extras.lab.retrievers.vector_model import VectorSettings, loaded
from plumbline.ground.errors import InvalidInput


class ModelVectors:
    """`elastic_knn.TextVectors` of a sentence-transformers model.

    Raises:
        InvalidInput: the model is not there; says how to get it.
    """

    def __init__(self, settings: VectorSettings) -> None:
        self._model = loaded(settings)

    @property
    def name(self) -> str:
        """The model's."""
        return self._model.name

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row for each text.

        Raises:
            InvalidInput: there is none, or a vector is not finite.
        """
        matrix: NDArray[np.float32] | None = None
        for places, vectors in self._model.of_documents([encodable(text) for text in texts]):
            if matrix is None:
                matrix = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
            matrix[places] = vectors
        if matrix is None or not np.isfinite(matrix).all():
            raise InvalidInput(f"model {self.name!r} gives vectors with numbers that are none")
        return matrix

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row for each text."""
        return np.stack([self._model.of_query(encodable(text)) for text in texts])
