"""The lab's table: what was measured is in it, what was not is empty, and names run as nothing."""

from dataclasses import replace

import pytest

from plumbline.extras.lab.report.table import bytes_shown, number_shown, readable, systems_table
from plumbline.retrieval.tables import Marked, as_csv, as_markdown
from tests.making.lab_results import results_of


def test_a_row_has_the_means_the_marks_and_the_costs() -> None:
    table = systems_table(results_of(), "small")

    better = dict(zip(table.columns, table.rows[1], strict=True))

    assert better["system"] == "small.whole.better"
    assert better["map"] == Marked(1.0, ("a",))
    assert (better["latency_ms_p50"], better["index_bytes"], better["documents_per_second"]) == (31.0, 2_150_000, 113.4)
    assert better["faithfulness.llm"] == 0.75


def test_a_blend_has_no_index_and_shows_what_its_weights_score() -> None:
    table = systems_table(results_of(), "small")

    blend = dict(zip(table.columns, table.rows[2], strict=True))

    assert (blend["build_seconds"], blend["index_bytes"], blend["faithfulness.llm"]) == (None, None, None)
    assert (blend["tuned_on"], blend["in_sample"], blend["held_out"]) == ("map", 0.99, 0.95)


def test_marks_name_the_rows_of_this_table_whatever_order_the_comparisons_have() -> None:
    results = results_of()
    turned = replace(results, systems=results.systems[::-1])

    table = systems_table(turned, "small")

    assert table.rows[1][:2] == ("b", "small.whole.better")
    assert table.rows[1][3] == Marked(1.0, ("c",))


def test_a_single_system_stands_without_comparisons() -> None:
    results = results_of()
    alone = replace(results, systems=results.systems[:1], comparisons=())

    assert systems_table(alone, "small").rows[0][3] == pytest.approx(0.5)


def test_another_corpus_has_rows_of_its_own() -> None:
    one, other = results_of("one"), results_of("other")
    both = replace(one, systems=one.systems + other.systems, comparisons=one.comparisons + other.comparisons)

    assert [row[1] for row in systems_table(both, "other").rows] == [
        "other.whole.worse",
        "other.whole.better",
        "other.whole.blend",
    ]


def test_a_person_reads_units_and_a_program_full_precision() -> None:
    table = systems_table(results_of(), "small")

    markdown, text = as_markdown(readable(table)), as_csv(table)

    assert "| 2.15 MB |" in markdown
    assert "tuned" not in markdown
    assert "0.6309297535714575" in text


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (2_150_000, "2.15 MB"), (3.2e9, "3.2 GB"), (4e13, "40,000 GB")],
)
def test_bytes(count: float, shown: str) -> None:
    assert bytes_shown(count) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.01234, "0.0123"), (12.345, "12.3"), (1_400.0, "1,400"), (0.0, "0")])
def test_numbers(value: float, shown: str) -> None:
    assert number_shown(value) == shown
