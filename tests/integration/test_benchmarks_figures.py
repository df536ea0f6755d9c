"""What benchmarks make of their measurements, and that a sample's cost is fitted as it grows."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from benchmarks.linear import exponents
from benchmarks.linear_plot import plot
from benchmarks.service import rounded
from benchmarks.service_load import medians, percentiles
from benchmarks.service_process import cpu_seconds_of
from benchmarks.service_tables import table, tables


def test_percentiles_leave_out_what_was_not_answered() -> None:
    # 1 to 101 ms: the 50th percentile is the 51st value, the 99th the 100th.
    seconds = [number / 1000 for number in range(1, 102)]

    assert percentiles([None, *seconds]) == pytest.approx({"p50_ms": 51.0, "p99_ms": 100.0})
    assert percentiles([None]) == {}


def test_rounds_give_the_median_of_each_figure_and_the_sum_of_failures() -> None:
    rounds = [{"p50_ms": 1.0, "failed": 1}, {"p50_ms": 9.0, "failed": 2}, {"p50_ms": 2.0, "failed": 0}]

    assert medians(rounds) == {"p50_ms": 2.0, "failed": 3}


def test_a_figure_that_a_round_lacks_is_left_out() -> None:
    assert medians([{"p50_ms": 1.0, "x": 1.0}, {"x": 3.0}]) == {"x": 2.0}


def test_an_exponent_is_one_where_cpu_grows_as_the_text_and_two_where_it_grows_as_its_square() -> None:
    assert exponents([1.0, 4.0, 64.0], (1, 4, 16)) == pytest.approx([1.0, 2.0])
    assert exponents([3.0, 3.0], (1, 4)) == pytest.approx([0.0])


def test_the_plot_is_xml_without_script_with_a_line_for_each_tier_and_axis() -> None:
    axes = {"answer length": [0.004, 0.007, 0.02], "number of contexts": [0.004, 0.011, 0.05]}

    drawn = plot({"lexical": axes, "llm": axes}, (1, 4, 16))

    root = ElementTree.fromstring(drawn)  # noqa: S314
    names = [each.tag.rpartition("}")[2] for each in root.iter()]
    assert names.count("polyline") == 4
    assert "script" not in names
    assert "prefers-color-scheme: dark" in drawn


def test_the_plot_stands_on_logarithmic_axes() -> None:
    # 10 ms to 1 s over two decades of 110 units each, downwards from 40.
    drawn = plot({"llm": {"answer length": [0.01, 0.1, 1.0]}}, (1, 4, 16))

    assert 'points="58.0,260.0 168.0,150.0 278.0,40.0"' in drawn


def test_numbers_are_rounded_to_four_digits_wherever_they_stand() -> None:
    assert rounded({"a": {"b": 123.4567}, "c": None, "d": 7}) == {"a": {"b": 123.5}, "c": None, "d": 7}


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


def test_the_batched_call_is_compared_with_what_was_aimed_at_in_the_precision_in_use() -> None:
    ratios = {"default": 4.75, "one_thread": 4.0, "one_by_one": 9.0, "threads": 4.5}
    found = {"service": {"8": {}}, "bare": {}, "bare_cpu_over_service": {"8": ratios}}

    said = tables({"a": found, "encoder": "all-MiniLM-L6-v2@bf16, openvino 2026.4 cpu bf16"})

    assert "4.75 (8). Aimed at in bf16: 4.5." in said
