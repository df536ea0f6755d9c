"""One vector for each text, dense or sparse, by sentence-transformers with all of a model's own modules."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.concurrency import Threads
from plumbline.models.encoder.fair_queue import available_cores, single_threaded_algebra
from plumbline.models.encoder.model_files import ModelKind, find_model, model_name, require_kind
from plumbline.models.encoder.torch_model import compute_in_callers_threads, load_sentence_transformer

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Texts of one pass. On a core 2 to 16 take the same time for each.
_TEXTS = {"cpu": 8, "other": 64}
# What a document's prompt is called, by the models that have one.
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")

Batch = tuple[Sequence[int], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class TextPrompts:
    """Texts put before queries and documents; None takes the model's own."""

    query: str | None = None
    document: str | None = None


class TextVectors:
    """A model that makes one vector of each text, with `prompts` in place of its own.

    Equal to the library's `encode_query` and `encode_document` to 1e-5 of a number. A core each has a thread.

    Args:
        requested: path or hub id; None for the built-in one.
        prompts: in place of the model's.
        kind: class of the library; a `SparseEncoder` gives a weight for each token of its vocabulary.

    Raises:
        TierFailure: `not_installed`.
    """

    def __init__(
        self,
        requested: str | None,
        *,
        prompts: TextPrompts | None = None,
        kind: ModelKind = "SentenceTransformer",
    ) -> None:
        files = find_model(requested)
        self.name, self.digest = model_name(requested), files.digest
        require_kind(files, kind)
        self._model = load_sentence_transformer(files, kind)
        is_cpu = self._model.device.type == "cpu"
        if is_cpu:
            compute_in_callers_threads()
            single_threaded_algebra()
        self._threads = available_cores() if is_cpu else 1
        self._batch = _TEXTS["cpu" if is_cpu else "other"]
        self.engine = f"sentence-transformers {version('sentence-transformers')} {self._model.device.type}"
        self.similarity = str(self._model.similarity_fn_name)
        self._prompts = _prompts(self._model.prompts, prompts or TextPrompts())
        self._cut = _CountOfCut(self._model)
        # Of a text; None for all.
        self.most_tokens: int | None = self._cut.most
        # Tokenizers change while they read; passes do not.
        self._model.preprocess = self._cut.counting(self._model.preprocess)
        # What is set up by the first pass is not a query's business.
        self.of_query("warm")

    def of_documents(self, texts: Sequence[str]) -> Iterator[Batch]:
        """Yield the vectors, as places in `texts` with an array of shape (places, d); longer texts come first."""
        self._cut.count = 0
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        batches = [order[start : start + self._batch] for start in range(0, len(order), self._batch)]

        def encode(places: Sequence[int]) -> Batch:
            return places, self._encoded("document", [texts[place] for place in places])

        with Threads(self._threads) as threads:
            under_way: deque[Future[Batch]] = deque()
            for batch in batches:
                under_way.append(threads.submit(encode, batch))
                # No more than is soon taken: what waits takes memory.
                if len(under_way) > 2 * self._threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

    def texts_cut(self) -> int:
        """Return how many texts of the last `of_documents` were truncated."""
        return self._cut.count

    def of_query(self, text: str) -> NDArray[np.float32]:
        """Return the query's vector, shape (d,)."""
        vector: NDArray[np.float32] = self._encoded("query", [text])[0]
        return vector

    def _encoded(self, role: Literal["query", "document"], texts: list[str]) -> NDArray[np.float32]:
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        prompt = self._prompts[role]
        found = encode(texts, batch_size=len(texts), prompt=prompt, show_progress_bar=False, convert_to_tensor=True)
        if found.is_sparse:
            found = found.to_dense()
        vectors: NDArray[np.float32] = found.float().cpu().numpy()
        return vectors


class _CountOfCut:
    """Counter of texts that a model truncates; tokenizes in one thread at a time."""

    def __init__(self, model: "SentenceTransformer") -> None:
        self.most = model.max_seq_length
        self.count = 0
        self._tokenizer: Any = getattr(model[0], "tokenizer", None)
        self._lock = threading.Lock()

    def counting(self, preprocess: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def counted(inputs: Sequence[Any], prompt: str | None = None, **options: Any) -> dict[str, Any]:
            with self._lock:
                features = preprocess(inputs, prompt=prompt, **options)
                self.count += self._cut(inputs, prompt or "", features)
            return features

        return counted

    def _cut(self, texts: Sequence[Any], prompt: str, features: Mapping[str, Any]) -> int:
        mask = features.get("attention_mask")
        if mask is None or self.most is None or self._tokenizer is None:
            return 0
        full = [text for text, read in zip(texts, mask.sum(dim=1).tolist(), strict=True) if read >= self.most]
        if not full:
            return 0
        whole = self._tokenizer([prompt + text for text in full], truncation=False, padding=False, verbose=False)
        return sum(len(tokens) > self.most for tokens in whole["input_ids"])


def _prompts(own: Mapping[str, str | None], asked: TextPrompts) -> dict[Literal["query", "document"], str | None]:
    """Return the prompts of queries and documents; None where the library's choice is right.

    The library takes a model's prompt `document` though it be empty, and `passage` with what is in it stays unread.
    """
    documents = next((own[name] for name in _DOCUMENT_PROMPTS if own.get(name)), None)
    return {
        "query": asked.query,
        "document": documents if asked.document is None else asked.document,
    }
