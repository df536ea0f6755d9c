"""What benchmarks make of their measurements."""

import subprocess
import sys

import pytest

from benchmarks.everyday import table
from benchmarks.service_process import cpu_seconds_of


def test_a_table_has_three_digits_and_nothing_for_none() -> None:
    drawn = table(["name", "p50"], [["a", 1234.5], ["b", 0.01234], ["c", None]])

    assert drawn == "| name | p50 |\n| --- | --- |\n| a | 1234 |\n| b | 0.0123 |\n| c |  |"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_cpu_seconds_of_a_process_hold_those_of_its_children_ended_or_not() -> None:
    spin = "import time\nwhile time.process_time() < 0.15: pass\n"
    grown = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])\n{spin}print(1, flush=True)\ninput()"
    )

    with subprocess.Popen([sys.executable, "-c", grown], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = cpu_seconds_of(process.pid)
        process.communicate(b"\n")

    # Two that spin for 0.15 s each, in steps of a hundredth.
    assert seconds >= 0.28
