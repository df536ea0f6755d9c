"""Runs and judgments as TREC files: written atomically, scores with full precision."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write, replace_file
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.text_file import ReadLimits
from plumbline.retrieval.trec import read_qrels, read_run

# Files of our own on the user's machine: a bound against a bomb, not against size.
_LIMITS: Final = ReadLimits(max_bytes=8_000_000_000, max_rows=200_000_000)
RankedScores = Sequence[tuple[str, float]]


class RunWriter:
    """Context manager that writes a run query by query, atomically; InvalidInput where it cannot be written."""

    def __init__(self, path: Path, *, tag: str) -> None:
        self._path, self._tag = path, tag
        self.has_results = False
        self._atomic = atomic_write(path)

    def __enter__(self) -> Self:
        try:
            self._file = self._atomic.__enter__()
        except OSError as error:
            raise self._unwritten(error) from error
        return self

    def write(self, query_id: str, ranked: RankedScores) -> None:
        """Write the documents of a query, best first; a query without any leaves no line, as in TREC."""
        self.has_results |= bool(ranked)
        lines = (f"{query_id} Q0 {doc} {rank} {score!r} {self._tag}\n" for rank, (doc, score) in enumerate(ranked, 1))
        try:
            self._file.write("".join(lines).encode())
        except OSError as error:
            raise self._unwritten(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._atomic.__exit__(kind, error, trace)
        except OSError as failure:
            raise self._unwritten(failure) from failure

    def _unwritten(self, error: OSError) -> InvalidInput:
        return InvalidInput(f"cannot be written ({error.strerror})", place=self._path.name)


def best_first(score_by_document: Mapping[str, float], depth: int) -> RankedScores:
    """Return the best `depth` documents; of equal scores the later id comes first, as in trec_eval."""
    ranked = sorted(score_by_document.items(), key=lambda each: (each[1], each[0].encode()), reverse=True)
    return ranked[:depth]


def write_run(path: Path, run: Run) -> None:
    """Write a run with scores; InvalidInput where it cannot be written."""
    with RunWriter(path, tag=run.name) as writer:
        for query_id, results in run.results.items():
            if isinstance(results, Mapping):
                writer.write(query_id, list(results.items()))


def load_run(path: Path, *, name: str) -> Run:
    """Load a run under this name, as `plumbline evaluate` reads it; an empty file is a run that found nothing."""
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                return Run(name, {})
            return Run(name, read_run(file, name=path.name, limits=_LIMITS).results)
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def load_qrels(path: Path) -> Qrels:
    """Load judgments as `plumbline evaluate` reads them."""
    try:
        with path.open("rb") as file:
            return read_qrels(file, name=path.name, limits=_LIMITS)
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write judgments as a TREC file; InvalidInput where it cannot be written."""
    lines = (f"{query} 0 {document} {grade}\n" for query, judged in qrels.items() for document, grade in judged.items())
    replace_file(path, "".join(lines).encode(), mode=0o666)
