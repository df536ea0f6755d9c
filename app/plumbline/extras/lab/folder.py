"""Results folder of an experiment: its files, the finished steps, and a lock for one process at a time.

docs/how-to/lab.md lists them.
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from plumbline.extras.lab.results import Built, ExperimentResults, Tuned
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import PARTIAL_SUFFIX, locked, read_file, replace_file, sha256_of
from plumbline.retrieval.inputs import read_run
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.trec import format_run

T = TypeVar("T")
_VERSION: Final = 1
_MARK: Final = "lab.json"
_FOLDERS: Final = ("qrels", "runs", "latency", "steps", "answers", "logs", "work")
_FILES: Final = ("experiment.toml", "results.json", "table.md", "table.csv", "report.html", _MARK)
RESULTS: Final = "results.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished step. `made_of`: digests of its inputs, by the table of the experiment file."""

    made_of: Mapping[str, str]
    run_digest: str
    built: Built | None = None
    tuned: Tuned | None = None
    warnings: tuple[str, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)


class ResultsFolder:
    """Paths of the results; `work` holds indexes while they are measured."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.experiment = root / "experiment.toml"
        self.work = root / "work"

    def run(self, system: str) -> Path:
        return self.root / "runs" / f"{system}.run"

    def chunk_run(self, system: str) -> Path:
        return self.root / "runs" / f"{system}.chunks"

    def qrels(self, corpus: str) -> Path:
        return self.root / "qrels" / f"{corpus}.qrels"

    def latency(self, system: str) -> Path:
        return self.root / "latency" / f"{system}.json"

    def answers(self, system: str) -> Path:
        return self.root / "answers" / f"{system}.jsonl"

    def scores(self, system: str) -> Path:
        return self.root / "answers" / f"{system}.scores.jsonl"

    def log(self, system: str) -> Path:
        return self.root / "logs" / f"{system}.log"

    def step(self, system: str) -> Path:
        return self.root / "steps" / f"{system}.json"

    def outcome(self, system: str) -> Outcome | None:
        """Return the outcome of a system; None if it is not done or its files have changed."""
        path = self.step(system)
        if not path.exists() or not self.run(system).exists() or not self.latency(system).exists():
            return None
        try:
            outcome = msgspec.json.decode(read_file(path), type=Outcome)
        except msgspec.MsgspecError:
            return None
        return outcome if outcome.run_digest == sha256_of(self.run(system)) else None

    def milliseconds(self, system: str) -> dict[str, float]:
        return read_json(self.latency(system), dict[str, float])

    def forget(self, system: str) -> None:
        """Remove the record of a system's step and its answers."""
        for path in (self.step(system), self.answers(system), self.scores(system)):
            path.unlink(missing_ok=True)

    @contextmanager
    def held(self, *, fresh: bool) -> Iterator[None]:
        """Create and lock the folder for this process; with `fresh`, remove earlier results.

        Raises:
            InvalidInput: another process writes to it, it holds something else, or cannot be written.
        """
        is_ours = (self.root / _MARK).exists()
        try:
            if not is_ours and self.root.exists() and any(each.name != "lock" for each in self.root.iterdir()):
                raise InvalidInput("holds something else than a lab's results; name another folder", place=self._place)
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot be created ({error.strerror})", place=self._place) from error
        busy = "another process works on this experiment; wait for it, or name another folder"
        with locked(self.root / "lock", place=self._place, busy=busy):
            self._furnish(fresh=fresh)
            yield

    def _furnish(self, *, fresh: bool) -> None:
        for name in _FOLDERS if fresh else ("work",):
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in _FILES if fresh else ():
            (self.root / name).unlink(missing_ok=True)
        try:
            for name in _FOLDERS:
                (self.root / name).mkdir(exist_ok=True)
            # a process that was killed while it wrote
            for left in self.root.rglob(f"*{PARTIAL_SUFFIX}"):
                left.unlink()
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self._place) from error
        mark = self.root / _MARK
        if mark.exists() and read_json(mark, dict[str, int]).get("version") != _VERSION:
            detail = f"was made by another version of the lab (expected {_VERSION}); --fresh starts over"
            raise InvalidInput(detail, place=self._place)
        write_json(mark, {"version": _VERSION})

    @property
    def _place(self) -> str:
        return self.root.name or str(self.root)


def load_results(folder: Path) -> ExperimentResults:
    """Load the results of an experiment; InvalidInput where there are none, or they are of another version."""
    path = folder / RESULTS
    if not path.exists():
        detail = f"has no {RESULTS}; `plumbline lab run EXPERIMENT.toml` writes it when all is measured"
        raise InvalidInput(detail, place=folder.name or str(folder))
    return read_json(path, ExperimentResults)


def write_json(path: Path, value: object) -> None:
    """Write a small JSON file atomically; InvalidInput where it cannot be written."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n", mode=0o666)


def read_json(path: Path, form: type[T]) -> T:
    """Read a file of `write_json`; InvalidInput where it cannot be read, or holds something else."""
    try:
        return msgspec.json.decode(read_file(path), type=form)
    except msgspec.MsgspecError:
        raise InvalidInput("is not what the lab writes; was it edited? --fresh begins anew", place=path.name) from None


def json_digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


RankedScores = Sequence[tuple[str, float]]


def best_first(score_by_document: Mapping[str, float], depth: int) -> RankedScores:
    """Return the best `depth` documents; of equal scores the later id comes first, as in trec_eval."""
    ranked = sorted(score_by_document.items(), key=lambda each: (each[1], each[0].encode()), reverse=True)
    return ranked[:depth]


def write_run(path: Path, run: Run) -> None:
    """Write a run with scores; a query without documents leaves no line, as in TREC.

    Raises:
        InvalidInput: it cannot be written.
    """
    replace_file(path, "".join(format_run(run)).encode(), mode=0o666)


def load_run(path: Path, *, name: str) -> Run:
    """Load a run under this name, as `plumbline evaluate` reads it; an empty file is a run that found nothing."""
    if path.exists() and not path.stat().st_size:
        return Run(name, {})
    return Run(name, read_run(path, name=path.name).run.results)


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write judgments as a TREC file; InvalidInput where it cannot be written."""
    lines = (f"{query} 0 {document} {grade}\n" for query, judged in qrels.items() for document, grade in judged.items())
    replace_file(path, "".join(lines).encode(), mode=0o666)
