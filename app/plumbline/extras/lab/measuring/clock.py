"""Time one retriever from outside: load, build, then search one query at a time; write what it found as a run.

Seconds are wall time by `time.perf_counter`. A query's time is that of one call of `search`, after one call with the
first query that is not counted, so that what is loaded late is loaded.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from plumbline.extras.lab.corpus import Chunk, Query
from plumbline.extras.lab.measuring.machine import peak_bytes, resident_bytes
from plumbline.extras.lab.results import Built
from plumbline.extras.lab.retriever import Hits, Retriever
from plumbline.extras.lab.run_files import RunWriter, best_first
from plumbline.ground.errors import InvalidInput

# Calls of `search` for one query, each for twice as many chunks, before it is left at the documents that there are.
_MOST_CALLS: Final = 20


class Tell(Protocol):
    """Progress callback."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class RetrieverMeasurement:
    """Measured values. `milliseconds` by query id. `asked_again`: queries whose first call gave too few documents.

    `found_any`: some query has a result. `is_cut`: a document has chunks of its own, and the run of chunks was written
    too.
    """

    built: Built
    milliseconds: Mapping[str, float]
    asked_again: int
    found_any: bool
    is_cut: bool


def measure(
    make: Callable[[], Retriever],
    *,
    chunks: Sequence[Chunk],
    queries: Sequence[Query],
    depth: int,
    name: str,
    index: Path,
    run: Path,
    chunk_run: Path,
    tell: Tell,
) -> RetrieverMeasurement:
    """Build and search a retriever; write its run of documents, and of their best chunks where documents were cut.

    Args:
        make: loads what can be loaded before there are chunks.
        depth: documents for each query.
        index: an empty folder that the index is kept in.

    Raises:
        InvalidInput: the retriever refuses the chunks, gives what cannot be a hit, or the disk is full.
    """
    tell("loading")
    started = time.perf_counter()
    retriever = make()
    load_seconds = time.perf_counter() - started
    try:
        resident = resident_bytes()
        tell("building")
        if callable(watch := getattr(retriever, "watch", None)):
            watch(partial(tell, "building"))
        started = time.perf_counter()
        facts = retriever.build(chunks, index)
        build_seconds = time.perf_counter() - started + facts.reused_seconds
        asked = _TimedRetriever(retriever, {chunk.id: chunk.document_id for chunk in chunks}, depth=depth)
        milliseconds = {}
        # Both are written as it goes, so that what was found takes no memory of the process that is measured
        with RunWriter(run, tag=name) as documents, RunWriter(chunk_run, tag=name) as best_chunks:
            asked.timed(queries[0])
            asked.again = 0
            for done, query in enumerate(queries):
                tell("searching", done, len(queries))
                hits, milliseconds[query.id] = asked.timed(query)
                best = asked.best_chunks(hits)
                ranked = best_first({document: score for document, (_, score) in best.items()}, depth)
                documents.write(query.id, ranked)
                best_chunks.write(query.id, [best[document] for document, _ in ranked])
        if not asked.is_cut:
            chunk_run.unlink()
        tell("searching", len(queries), len(queries))
        peak = peak_bytes()
    finally:
        retriever.close()
    built = Built(
        facts=facts,
        documents=asked.documents,
        build_seconds=build_seconds,
        documents_per_second=asked.documents / build_seconds if build_seconds else 0.0,
        load_seconds=load_seconds,
        peak_bytes=peak,
        resident_bytes=resident,
    )
    return RetrieverMeasurement(built, milliseconds, asked.again, documents.has_results, asked.is_cut)


class _TimedRetriever:
    """A retriever of chunks, searched for documents."""

    def __init__(self, retriever: Retriever, document_of: Mapping[str, str], *, depth: int) -> None:
        self._retriever = retriever
        self._document_of = document_of
        self.depth = depth
        self.documents = len(set(document_of.values()))
        self.is_cut = any(chunk != document for chunk, document in document_of.items())
        self.again = 0
        # So many chunks hold that many documents, if all are cut into as many
        self._first_k = min(len(document_of), math.ceil(depth * len(document_of) / max(self.documents, 1)))

    def timed(self, query: Query) -> tuple[Hits, float]:
        """Return the hits, and the milliseconds of the first call alone."""
        started = time.perf_counter()
        hits = self._retriever.search(query.text, self._first_k)
        milliseconds = 1_000 * (time.perf_counter() - started)
        k = self._first_k
        for call in range(_MOST_CALLS):
            if len(hits) < k or k >= len(self._document_of) or len(self.best_chunks(hits)) >= self.depth:
                break
            self.again += call == 0
            k = min(2 * k, len(self._document_of))
            hits = self._retriever.search(query.text, k)
        return hits, milliseconds

    def best_chunks(self, hits: Hits) -> dict[str, tuple[str, float]]:
        """Return the best chunk of each document, with its score."""
        best: dict[str, tuple[str, float]] = {}
        for chunk_id, score in hits:
            document = self._document_of.get(chunk_id)
            value = float(score)
            if document is None or not math.isfinite(value):
                wrong = "a chunk that was not indexed" if document is None else f"the score {value}"
                raise InvalidInput(f"the retriever gave {wrong}, {chunk_id[:40]!r}")
            if document not in best or value > best[document][1]:
                best[document] = (chunk_id, value)
        return best
