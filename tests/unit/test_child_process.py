"""Work in a process of its own."""

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from plumbline.ground.child_process import ChildProcesses
from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import InvalidInput
from plumbline.judging.scoring import Scorer
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.service.api.message_body import decode_message
from plumbline.service.api.retrieval import run_work

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


@pytest.fixture(params=[pytest.param(True, marks=needs_linux, id="forked"), pytest.param(False, id="alone")])
def children(request: pytest.FixtureRequest) -> Iterator[ChildProcesses]:
    with closing(ChildProcesses(can_fork=request.param)) as children:
        yield children


@pytest.fixture
def forked() -> Iterator[ChildProcesses]:
    with closing(ChildProcesses(can_fork=True)) as children:
        yield children


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_result_comes_from_another_process(children: ChildProcesses) -> None:
    assert children.run(os.getpid, 60.0) != os.getpid()


async def test_a_large_retrieval_body_is_worked_on_there_and_a_small_one_here(children: ChildProcesses) -> None:
    scorer = Scorer(JudgeCascade([]), InlineExecutor())

    small, large = [await run_work(scorer, children, size, os.getpid) for size in (1_000, 9_000_000)]  # type: ignore[arg-type]

    here: object = os.getpid()
    assert (small == here, large == here) == (True, False)


def test_a_large_argument_and_a_large_result_arrive_whole(children: ChildProcesses) -> None:
    text = os.urandom(3_000_000)

    assert children.run(operator.add, 60.0, text, text) == text + text


def test_an_error_of_ours_comes_back_with_its_place(children: ChildProcesses) -> None:
    with pytest.raises(InvalidInput) as error:
        children.run(decode_message, 60.0, b'["a"]', list[int])

    assert error.value.place == "/0"


@pytest.mark.parametrize(("work", "numbers"), [(die, ()), (operator.truediv, (1, 0))], ids=["killed", "broken"])
def test_a_process_that_dies_costs_one_call_one_error(
    children: ChildProcesses, work: Callable[..., object], numbers: tuple[int, ...]
) -> None:
    with pytest.raises(RuntimeError, match=rf"the process of {work.__name__} ended without an answer after [\d.e-]+ s"):
        children.run(work, 60.0, *numbers)

    assert children.run(operator.add, 60.0, 1, 2) == 3


def test_work_that_does_not_end_is_killed(children: ChildProcesses) -> None:
    with pytest.raises(RuntimeError, match=r"sleep ended without an answer after .* s; it may take 0\.5 s"):
        children.run(time.sleep, 0.5, 600.0)


@needs_linux
def test_imports_are_kept_for_the_next_call(forked: ChildProcesses) -> None:
    forkers = {forked.run(os.getppid, 60.0) for _ in range(2)}

    assert len(forkers) == 1
    assert os.getpid() not in forkers


@needs_linux
def test_a_forking_process_that_was_killed_is_started_anew(forked: ChildProcesses) -> None:
    os.kill(forked.run(os.getppid, 60.0), signal.SIGKILL)
    time.sleep(0.2)

    assert forked.run(operator.add, 60.0, 1, 2) == 3


@needs_linux
def test_closing_ends_what_is_under_way(forked: ChildProcesses) -> None:
    forker = forked.run(os.getppid, 60.0)
    told: list[str] = []

    def sleep() -> None:
        try:
            forked.run(time.sleep, 600.0, 600.0)
        except RuntimeError as error:
            told.append(str(error))

    under_way = Thread(target=sleep)
    under_way.start()
    time.sleep(0.3)
    forked.close()
    under_way.join(timeout=10)

    assert "sleep ended without an answer" in told[0]
    assert not is_running(forker)
    with pytest.raises(RuntimeError, match="shut down"):
        forked.run(os.getpid, 60.0)


@needs_linux
def test_no_process_outlives_one_that_was_killed() -> None:
    program = (
        "import os, time\nfrom threading import Thread\nfrom plumbline.ground.child_process import ChildProcesses\n"
        "children = ChildProcesses()\nprint(children.run(os.getppid, 60.0), flush=True)\n"
        "Thread(target=lambda: children.run(time.sleep, 600.0, 600.0)).start()\ntime.sleep(0.5)\n"
        "print('asleep', flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        forker = int(killed.stdout.readline())
        killed.stdout.readline()
        asleep = [int(each) for each in Path(f"/proc/{forker}/task/{forker}/children").read_text().split()]
        killed.kill()

    until = time.monotonic() + 10
    while any(map(is_running, (forker, *asleep))) and time.monotonic() < until:
        time.sleep(0.05)
    assert asleep
    assert not any(map(is_running, (forker, *asleep)))


def is_running(process: int) -> bool:
    """Return False also of a process that has ended and waits to be told of."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
