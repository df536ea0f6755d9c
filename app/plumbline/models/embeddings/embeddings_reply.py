"""Parsing of the replies of embeddings APIs: as many unit vectors as texts, in their order, or a failure."""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from plumbline.ground.errors import FailureReason
from plumbline.models.chat.call_failures import CallFailure, embedded_failure
from plumbline.models.chat.completions import ReportedUsage, TokenCounts, object_or_none
from plumbline.models.chat.endpoints import Endpoint

_NUMBER_BYTES: Final = 4


class _Item(BaseModel):
    embedding: list[float] | str
    index: int | None = None


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")
    data: list[_Item] | None = None
    usage: Annotated[ReportedUsage | None, BeforeValidator(object_or_none)] = None
    error: object = None


@dataclass(frozen=True, slots=True)
class EmbeddingsReply:
    """A reply, with the number of vectors that it must have and their dimensions, None if any will do."""

    body: _Body
    wanted: int
    dimensions: int | None

    @property
    def tokens(self) -> TokenCounts:
        return self.body.usage.tokens if self.body.usage else TokenCounts()

    @property
    def is_truncated(self) -> bool:
        return False

    def reply(self, endpoint: Endpoint) -> NDArray[np.float32]:
        """Return one vector of length 1 for each text, in the texts' order: shape (texts, d).

        Raises:
            CallFailure: their number, order, dimensions or values are wrong, or it is an error sent as a reply.
        """
        data = self.body.data
        if not data and self.body.error:
            raise embedded_failure(self.body.error, endpoint)
        if data is None:
            raise _invalid("is not a list of embeddings")
        if len(data) != self.wanted:
            raise _invalid(f"has {len(data)} vectors for {self.wanted} texts")
        item_by_number = {place if item.index is None else item.index: item for place, item in enumerate(data)}
        if set(item_by_number) != set(range(self.wanted)):
            raise _invalid("numbers its vectors otherwise than the texts")
        found = [_numbers(item_by_number[number].embedding) for number in range(self.wanted)]
        if len(sizes := {len(vector) for vector in found}) != 1:
            raise _invalid("has vectors of several dimensions")
        (size,) = sizes
        if not size or (self.dimensions and size != self.dimensions):
            raise _invalid(f"has vectors of {size} dimensions, expected {self.dimensions or 'one or more'}")
        vectors = np.stack(found)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise _invalid("has vectors that are no numbers, or all zeros")
        return np.asarray(vectors / lengths, dtype=np.float32)


def parse_embeddings(body: bytes, *, wanted: int, dimensions: int | None) -> EmbeddingsReply:
    """Parse a reply's body.

    Args:
        wanted: number of texts that were sent.
        dimensions: of each vector; None if any will do.

    Raises:
        CallFailure: it is no list of embeddings.
    """
    try:
        return EmbeddingsReply(_Body.model_validate_json(body), wanted, dimensions)
    except ValidationError as error:
        raise _invalid("is not a list of embeddings") from error


def _numbers(embedding: list[float] | str) -> NDArray[np.float64]:
    """Return a vector from a list, or from the base64 of its numbers (float32, little-endian)."""
    if not isinstance(embedding, str):
        return np.array(embedding, dtype=np.float64)
    try:
        data = base64.b64decode(embedding, validate=True)
    except binascii.Error as error:
        raise _invalid("has a vector that is no base64") from error
    if len(data) % _NUMBER_BYTES:
        raise _invalid("has a vector that is cut")
    return np.frombuffer(data, dtype="<f4").astype(np.float64)


def _invalid(what: str) -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, f"the embeddings API's reply {what}")
