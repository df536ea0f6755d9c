"""Engine on Ray Data: the only file that knows Ray, imported late."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from plumbline.extras.cluster.block_plan import Block, Reading, split_file
from plumbline.extras.cluster.cluster_run import BlockWork, ClusterRun, WorkOrder, block_words
from plumbline.extras.cluster.task import ClusterOutcome, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable, ConfigurationError, PlumblineError
from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import log_failure

# Read when Ray is imported and by the processes that it starts.
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_LOG_LEVEL": "ERROR",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}
# Ray listens on every interface, and replaces a node address of 127.0.0.1 by that of the network, unless it takes the
# machine for one that cannot be a part of a cluster.
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Only descriptions of blocks go through it; Ray's default is a third of the memory.
_OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024
# One in progress and one queued: a killed worker has little to repeat.
_TASKS_AT_A_WORKER: Final = 2


def score_on_ray(
    settings: Settings, task: ClusterTask, *, on_progress: Callable[[Progress], None] | None = None
) -> ClusterOutcome:
    """Score files on Ray, on this machine or a cluster; blocking, leaves no process behind on this machine.

    Blocks that have their file in `task.out_dir` are skipped. A block whose process crashed three times in this run is
    given up and named in the outcome.

    Raises:
        ConfigurationError: Ray is not installed (the message names the extra), a setting is wrong, or a worker is not
            set up as this machine is.
        ClusterUnavailable: the cluster cannot be reached, or was lost; run again to resume.
        InvalidInput: the input cannot be read, or the folder of results holds another task.
    """
    with _environment(_QUIET if task.address else {**_QUIET, **_LOOPBACK}):
        try:
            import ray  # noqa: PLC0415
            import ray.data  # noqa: PLC0415
        except ImportError:
            raise ConfigurationError('needs Ray; install "plumbline-rag[ray]"') from None
        run = ClusterRun(settings, task)
        if not run.is_done:
            with _connected(ray, task.address):
                try:
                    _work_through(ray, run, task, on_progress or (lambda _: None))
                except ray.exceptions.RayError as error:
                    log_failure(error, "cluster_failed")
                    kind = type(error).__name__
                    raise ClusterUnavailable(f"Ray ended the work ({kind}); run again to resume") from error
        return run.outcome()


def _work_through(ray: Any, run: ClusterRun, task: ClusterTask, on_progress: Callable[[Progress], None]) -> None:
    if not run.is_planned:
        blocks_by_file = _planned(ray, run, task)
        run.begin(blocks_by_file)
    pending = run.pending()
    on_progress(run.progress())
    if not pending:
        return
    room = int(ray.cluster_resources().get("CPU", 1) / task.cpus_per_worker)
    order = run.order(workers=min(task.workers or max(1, room), len(pending)))
    for outcome in _outcomes(ray, pending, order, task.cpus_per_worker):
        run.take(outcome)
        on_progress(run.progress())


def _planned(ray: Any, run: ClusterRun, task: ClusterTask) -> list[list[Block]]:
    """Return the blocks of every file; text has to be read for it, here or by the cluster in parallel."""
    if task.address is None:
        return [split_file(facts.place, file, run.reading, task.block_rows) for file, facts in enumerate(run.files)]
    plan = ray.remote(_plan)
    refs = [plan.remote(facts.place, file, run.reading, task.block_rows) for file, facts in enumerate(run.files)]
    planned = ray.get(refs)
    for found in planned:
        if isinstance(found, str):
            raise ConfigurationError(found)
    return list(planned)


def _plan(place: str, file: int, reading: Reading, block_rows: int) -> list[Block] | str:
    """Return the blocks, or one line of an error: Ray would wrap an exception in its traceback."""
    try:
        return split_file(place, file, reading, block_rows)
    except PlumblineError as error:
        return str(error)


def _outcomes(ray: Any, blocks: Sequence[Block], order: WorkOrder, cpus: float) -> Iterator[str]:
    """Yield the outcomes of the workers in the order of completion."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    rows = [{"block": json.dumps(block_words(block))} for block in blocks]
    # One block of Ray's for each of ours: an idle worker takes the next.
    done = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        BlockWork,
        fn_constructor_args=(order,),
        batch_size=1,
        batch_format="numpy",
        num_cpus=cpus,
        compute=ray.data.ActorPoolStrategy(size=order.workers, max_tasks_in_flight_per_actor=_TASKS_AT_A_WORKER),
    )
    # Without prefetching each is reported at once; Ray would hold one back until the next is done.
    for batch in done.iter_batches(batch_size=None, prefetch_batches=0, batch_format="numpy"):
        yield from map(str, batch["outcome"])


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Start Ray here or connect to its address; an initialized one stays as it is."""
    if ray.is_initialized():
        yield
        return
    own = {} if address else {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        where = f"Ray at {address}" if address else "Ray on this machine"
        said = str(error).strip().partition("\n")[0]
        raise ClusterUnavailable(f"{where} cannot be reached ({said})") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
