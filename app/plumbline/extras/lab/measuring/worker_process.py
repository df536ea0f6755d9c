"""Run a step in a process of its own, so that memory is the retriever's own and a crash takes nothing with it.

`main` reads one task from standard input and writes messages as JSON lines. Standard input stays open while the parent
lives: when it ends, killed or not, this process ends too.
"""

import contextlib
import gc
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import msgspec

from plumbline.extras.lab.corpus import Chunk, Corpus
from plumbline.extras.lab.experiment import Experiment
from plumbline.extras.lab.experiment_file import read_experiment
from plumbline.extras.lab.folder import ResultsFolder, write_json
from plumbline.extras.lab.measuring.clock import measure
from plumbline.extras.lab.results import Built, CorpusFacts
from plumbline.extras.lab.run_files import write_qrels
from plumbline.ground.errors import InvalidInput, PlumblineError

# More frequent messages would be seen in the measured times.
_PROGRESS_SECONDS: Final = 0.1
_ORPHANED: Final = 3


class ReadCorpus(msgspec.Struct, tag="corpus"):
    """Task: read a corpus and write its judgments into the work folder."""

    folder: str
    base: str
    corpus: str


class MeasureSystem(msgspec.Struct, tag="system"):
    """Task: build and search a retriever, writing its run. `digest`: of the corpus as the parent read it."""

    folder: str
    base: str
    corpus: str
    chunking: str
    retriever: str
    name: str
    digest: str


class WorkerProgress(msgspec.Struct, tag="progress"):
    """Progress of a stage; `total` is 0 if unknown."""

    stage: str
    done: int
    total: int


class CorpusRead(msgspec.Struct, tag="corpus_read"):
    """Facts of a corpus that was read."""

    facts: CorpusFacts


class SystemMeasured(msgspec.Struct, tag="measured"):
    """Measurement of a system whose run and latencies are written."""

    built: Built
    warnings: tuple[str, ...]


class Failed(msgspec.Struct, tag="failed"):
    """Reason why a task failed, in a line."""

    detail: str


Task: TypeAlias = ReadCorpus | MeasureSystem
TaskResult: TypeAlias = CorpusRead | SystemMeasured
WorkerMessage: TypeAlias = WorkerProgress | TaskResult | Failed


def main() -> int:
    """Run one task in the worker process; return 0 if it was done."""
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    # Standard output is for messages; what libraries print goes to standard error, which is a log
    said = _Messages(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)

    def end_with_the_parent() -> None:
        os.read(0, 1)
        os._exit(_ORPHANED)

    threading.Thread(target=end_with_the_parent, daemon=True).start()
    try:
        said.say(_run_task(task, said))
    except PlumblineError as error:
        said.say(Failed(str(error)))
    except OSError as error:
        where = Path(str(error.filename)).name if error.filename else type(error).__name__
        said.say(Failed(f"{where}: {error.strerror or error}"))
    except BaseException as error:
        # First the log: the parent kills this process once it reads the message
        traceback.print_exc()
        sys.stderr.flush()
        said.say(Failed(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"))
        return 1
    return 0


def _run_task(task: Task, said: "_Messages") -> TaskResult:
    folder, base = ResultsFolder(Path(task.folder)), Path(task.base)
    # A user's own retriever lies next to the experiment file
    sys.path.append(str(base))
    experiment = read_experiment(folder.experiment, base=base)
    said.tell("reading")
    corpus = experiment.corpora[task.corpus].read(task.corpus, base)
    facts = _build_corpus_facts(corpus, folder)
    if isinstance(task, ReadCorpus):
        write_qrels(folder.work / f"{corpus.name}.qrels", corpus.qrels)
        return CorpusRead(facts)
    if facts.digest != task.digest:
        raise InvalidInput("changed while the experiment ran; start again", place=f"corpora.{corpus.name}")
    return _measure_system(task, experiment, corpus, folder, said)


def _measure_system(
    task: MeasureSystem, experiment: Experiment, corpus: Corpus, folder: ResultsFolder, said: "_Messages"
) -> SystemMeasured:
    index = folder.work / task.name
    index.mkdir()
    said.tell("cutting")
    cut = experiment.chunkings[task.chunking].prepare()
    chunks: list[Chunk] = [chunk for document in corpus.documents for chunk in cut(document)]
    queries = corpus.queries
    if not chunks:
        raise InvalidInput("no document has any text", place=f"corpora.{corpus.name}")
    del corpus
    # Keep the garbage collector out of the measured times
    gc.collect()
    gc.freeze()
    measured = measure(
        experiment.retrievers[task.retriever].make,
        chunks=chunks,
        queries=queries,
        depth=experiment.table.depth,
        name=task.name,
        index=index,
        run=folder.run(task.name),
        chunk_run=folder.chunk_run(task.name),
        tell=said.tell,
    )
    write_json(folder.latency(task.name), measured.milliseconds)
    warnings = list(measured.built.facts.warnings)
    if measured.asked_again:
        share = f"{measured.asked_again} of {len(queries)} queries"
        warnings.append(f"{share} were asked again for more chunks, outside of their times")
    if not measured.found_any:
        warnings.append("nothing was found for any query; it scores 0 wherever it counts")
    return SystemMeasured(measured.built, tuple(warnings))


def _build_corpus_facts(corpus: Corpus, folder: ResultsFolder) -> CorpusFacts:
    if corpus.unjudged == len(corpus.queries):
        raise InvalidInput("no query has a judgment", place=f"corpora.{corpus.name}")
    digest, encode = hashlib.sha256(), msgspec.json.Encoder().encode
    for document in corpus.documents:
        digest.update(encode([document.id, list(document.fields.items())]))
    for query in corpus.queries:
        digest.update(encode([query.id, query.text]))
    digest.update(encode(corpus.qrels))
    return CorpusFacts(
        documents=len(corpus.documents),
        queries=len(corpus.queries),
        unjudged=corpus.unjudged,
        judged_elsewhere=corpus.judged_elsewhere,
        qrels_file=folder.qrels(corpus.name).relative_to(folder.root).as_posix(),
        digest=digest.hexdigest(),
    )


class _Messages:
    """JSON lines to the parent process."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._stage = ""
        self._reported_at = 0.0

    def say(self, said: WorkerMessage) -> None:
        self._stream.write(msgspec.json.encode(said) + b"\n")
        self._stream.flush()

    def tell(self, stage: str, done: int = 0, total: int = 0) -> None:
        now = time.monotonic()
        if stage != self._stage or now - self._reported_at >= _PROGRESS_SECONDS:
            self._stage, self._reported_at = stage, now
            self.say(WorkerProgress(stage, done, total))


# This process's import path: a module in the user's folder cannot shadow ours.
_CODE: Final = (
    "import sys; sys.path[:] = {path!r}; "
    "from plumbline.extras.lab.measuring.worker_process import main; sys.exit(main())"
)
_MESSAGE_DECODER: Final[msgspec.json.Decoder[WorkerMessage]] = msgspec.json.Decoder(WorkerMessage)


def run_in_process(task: Task, *, log: Path, listen: Callable[[WorkerProgress], None]) -> TaskResult | Failed:
    """Run a task in a worker process and return its result; the process never outlives this call.

    Raises:
        InvalidInput: the log cannot be written, or no process started.
    """
    command = [sys.executable, "-c", _CODE.format(path=sys.path)]
    try:
        with log.open("wb") as errors:
            # A session of its own: Ctrl-C goes to this process, which then kills the other
            process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
    except OSError as error:
        raise InvalidInput(f"cannot be started ({error.strerror})", place=log.name) from error
    try:
        if (result := _listen(process, task, listen)) is not None:
            return result
        code = process.wait()
        name = signal.Signals(-code).name if code < 0 else ""
        hint = "; was the memory full?" if name == "SIGKILL" else ""
        how = f"was ended by {name}{hint}" if name else f"ended with code {code}"
        return Failed(f"its process {how} (see logs/{log.name})")
    finally:
        if process.returncode is None:
            # With its children; it is not reaped yet, so its id is not reused
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _listen(
    process: "subprocess.Popen[bytes]", task: Task, listen: Callable[[WorkerProgress], None]
) -> TaskResult | Failed | None:
    if process.stdin is None or process.stdout is None:
        return None
    try:
        process.stdin.write(msgspec.json.encode(task) + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    for line in process.stdout:
        said = _MESSAGE_DECODER.decode(line)
        if not isinstance(said, WorkerProgress):
            return said
        listen(said)
    return None
