"""Time one retriever from outside: load, build, then search one query at a time; and name the machine it ran on.

Seconds are wall time by `time.perf_counter`. A query's time is that of one call of `search`, after one call with the
first query that is not counted, so that what is loaded late is loaded.
"""

import gc
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from plumbline.extras.lab.corpus import Chunk, Query
from plumbline.extras.lab.folder import best_first
from plumbline.extras.lab.results import Built
from plumbline.extras.lab.retriever import Hits, Retriever
from plumbline.ground.errors import InvalidInput
from plumbline.ground.version import VERSION
from plumbline.retrieval.run import Run

# Calls of `search` for one query, each for twice as many chunks, before it is left at the documents that there are.
_MOST_CALLS: Final = 20


class Tell(Protocol):
    """Progress callback."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class RetrieverMeasurement:
    """Runs and costs of one retriever; `milliseconds` by query id.

    `chunk_run`: the best chunk of each document of `run`; None where no document was cut.
    """

    run: Run
    chunk_run: Run | None
    built: Built
    milliseconds: Mapping[str, float]
    warnings: tuple[str, ...]


def measure(
    make: Callable[[], Retriever],
    *,
    chunks: Sequence[Chunk],
    queries: Sequence[Query],
    depth: int,
    name: str,
    index: Path,
    tell: Tell,
) -> RetrieverMeasurement:
    """Build and search a retriever.

    Args:
        make: loads what can be loaded before there are chunks.
        depth: documents for each query.
        index: an empty folder that the index is kept in.

    Raises:
        InvalidInput: the retriever refuses the chunks, or gives what cannot be a hit.
    """
    tell("loading")
    started = time.perf_counter()
    retriever = make()
    load_seconds = time.perf_counter() - started
    # Keep what is there already out of the garbage collections that are measured
    gc.collect()
    gc.freeze()
    try:
        tell("building")
        if callable(watch := getattr(retriever, "watch", None)):
            watch(partial(tell, "building"))
        started = time.perf_counter()
        facts = retriever.build(chunks, index)
        build_seconds = time.perf_counter() - started
        asked = _TimedRetriever(retriever, {chunk.id: chunk.document_id for chunk in chunks}, depth=depth)
        asked.timed(queries[0])
        asked.again = 0
        milliseconds, found, found_chunks = {}, {}, {}
        for done, query in enumerate(queries):
            tell("searching", done, len(queries))
            hits, milliseconds[query.id] = asked.timed(query)
            best = asked.best_chunks(hits)
            ranked = best_first({document: score for document, (_, score) in best.items()}, depth)
            found[query.id] = dict(ranked)
            found_chunks[query.id] = dict(best[document] for document, _ in ranked)
        tell("searching", len(queries), len(queries))
    finally:
        retriever.close()
        gc.unfreeze()
    warnings = list(facts.warnings)
    if asked.again:
        share = f"{asked.again} of {len(queries)} queries"
        warnings.append(f"{share} were asked again for more chunks, outside of their times")
    if not any(found.values()):
        warnings.append("nothing was found for any query; it scores 0 wherever it counts")
    return RetrieverMeasurement(
        run=Run(name, found),
        chunk_run=Run(name, found_chunks) if asked.is_cut else None,
        built=Built(
            facts=facts,
            documents=asked.documents,
            build_seconds=build_seconds,
            documents_per_second=asked.documents / build_seconds if build_seconds else 0.0,
            load_seconds=load_seconds,
        ),
        milliseconds=milliseconds,
        warnings=tuple(warnings),
    )


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


_PROCESSORS: Final = Path("/proc/cpuinfo")
# What times depend on; another version of ours does not make them incomparable.
_DECISIVE: Final = ("processor", "cores", "system")


def this_machine() -> dict[str, str]:
    """Return processor, usable cores, system, Python and our version."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processor": named or platform.processor() or "unknown",
        "cores": str(cores),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "plumbline": VERSION,
    }


def is_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return True if times of the two machines are comparable."""
    return all(one.get(key) == other.get(key) for key in _DECISIVE)
