"""The folder of an experiment's results: what lies where, what is done, and that one process at a time writes to it.

experiment.toml          the file it was made from
qrels/CORPUS.qrels       judgments; `plumbline evaluate qrels/C.qrels runs/C.*.run` gives the table's numbers again
runs/SYSTEM.run          best documents; SYSTEM.chunks beside it has their best chunks where documents were cut
latency/SYSTEM.json      milliseconds by query
steps/SYSTEM.json        a step that is done: what it was made of, and what was measured
answers/SYSTEM.jsonl     what the user's endpoint answered, and SYSTEM.scores.jsonl what the service says of it
logs/SYSTEM.log          what the system's process wrote
work/                    indexes while they are measured
results.json, table.md, table.csv
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from plumbline.extras.lab.results import Built, ExperimentResults, Tuned
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import locked, read_file, replace_file, sha256_of

T = TypeVar("T")
_VERSION: Final = 1
_MARK: Final = "lab.json"
_FOLDERS: Final = ("qrels", "runs", "latency", "steps", "answers", "logs", "work")
_FILES: Final = ("experiment.toml", "results.json", "table.md", "table.csv", "report.html", _MARK)
RESULTS: Final = "results.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step that is done. `made_of`: digests of what decided it, by the table of the experiment file."""

    made_of: Mapping[str, str]
    run_digest: str
    built: Built | None = None
    tuned: Tuned | None = None
    warnings: tuple[str, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)


class ResultsFolder:
    """Paths, by what they hold."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.experiment = root / "experiment.toml"
        self.work = root / "work"

    def run(self, system: str) -> Path:
        """Documents."""
        return self.root / "runs" / f"{system}.run"

    def chunk_run(self, system: str) -> Path:
        """Chunks; not there where no document was cut."""
        return self.root / "runs" / f"{system}.chunks"

    def qrels(self, corpus: str) -> Path:
        """Judgments."""
        return self.root / "qrels" / f"{corpus}.qrels"

    def latency(self, system: str) -> Path:
        """Milliseconds by query."""
        return self.root / "latency" / f"{system}.json"

    def answers(self, system: str) -> Path:
        """What was answered."""
        return self.root / "answers" / f"{system}.jsonl"

    def scores(self, system: str) -> Path:
        """What the service says of the answers."""
        return self.root / "answers" / f"{system}.scores.jsonl"

    def log(self, system: str) -> Path:
        """What a process wrote."""
        return self.root / "logs" / f"{system}.log"

    def step(self, system: str) -> Path:
        """What is done."""
        return self.root / "steps" / f"{system}.json"

    def outcome(self, system: str) -> Outcome | None:
        """What is done of a system; None where nothing is, or its files are not as they were."""
        path = self.step(system)
        if not path.exists() or not self.run(system).exists() or not self.latency(system).exists():
            return None
        try:
            outcome = msgspec.json.decode(read_file(path), type=Outcome)
        except msgspec.MsgspecError:
            return None
        return outcome if outcome.run_digest == sha256_of(self.run(system)) else None

    def milliseconds(self, system: str) -> dict[str, float]:
        """What each query took."""
        return read_json(self.latency(system), dict[str, float])

    def forget(self, system: str) -> None:
        """Have the system's step undone."""
        for path in (self.step(system), self.answers(system), self.scores(system)):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all that a lab wrote, and nothing else."""
        for name in _FOLDERS:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in _FILES:
            (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def held(self, *, fresh: bool) -> Iterator[None]:
        """The folder made, for this process alone; with `fresh`, of results that were there nothing is left.

        Raises:
            InvalidInput: another process writes to it, it holds something else, or cannot be written.
        """
        is_ours = (self.root / _MARK).exists()
        try:
            if not is_ours and self.root.exists() and any(each.name != "lock" for each in self.root.iterdir()):
                raise InvalidInput("holds something else than a lab's results; name another folder", place=self._place)
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot be made ({error.strerror})", place=self._place) from error
        busy = "another process works on this experiment; wait for it, or name another folder"
        with locked(self.root / "lock", place=self._place, busy=busy):
            if fresh:
                self.clear()
            self._furnish()
            yield

    def _furnish(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        try:
            for name in _FOLDERS:
                (self.root / name).mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot be written ({error.strerror})", place=self._place) from error
        mark = self.root / _MARK
        if mark.exists() and read_json(mark, dict[str, int]).get("version") != _VERSION:
            detail = f"was made by another version of the lab (expected {_VERSION}); --fresh begins anew"
            raise InvalidInput(detail, place=self._place)
        write_json(mark, {"version": _VERSION})

    @property
    def _place(self) -> str:
        return self.root.name or str(self.root)


def load_results(folder: Path) -> ExperimentResults:
    """The results of an experiment that was run.

    Raises:
        InvalidInput: there are none, or they are of another version.
    """
    path = folder / RESULTS
    if not path.exists():
        detail = f"has no {RESULTS}; `plumbline lab run EXPERIMENT.toml` writes it when all is measured"
        raise InvalidInput(detail, place=folder.name or str(folder))
    return read_json(path, ExperimentResults)


def write_json(path: Path, value: object) -> None:
    """A small file, whole or not at all.

    Raises:
        InvalidInput: it cannot be written; the disk is full.
    """
    replace_file(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n", mode=0o666)


def read_json(path: Path, form: type[T]) -> T:
    """What `write_json` wrote.

    Raises:
        InvalidInput: it cannot be read, or holds something else.
    """
    try:
        return msgspec.json.decode(read_file(path), type=form)
    except msgspec.MsgspecError:
        raise InvalidInput("is not what the lab writes; was it edited? --fresh begins anew", place=path.name) from None


def json_digest(value: Any) -> str:
    """The digest of a value that is JSON, whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
