"""docs/reference/retrieval.md has a row for every measure and preset, and the values that `evaluate` gives."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import PRESETS, Conventions, build_conventions
from plumbline.retrieval.evaluation import evaluate
from plumbline.retrieval.measure import CUTOFF_BY_NAME, parse_measure
from plumbline.retrieval.run import Run

DOCS = (Path(__file__).parents[2] / "docs" / "reference" / "retrieval.md").read_text(encoding="utf-8")


def rows_below(header: str) -> list[list[str]]:
    """The cells of the table whose first columns have these names."""
    (lines,) = re.findall(rf"^\| {re.escape(header)} .*\n\|[-:|]+\n((?:\|.*\n)+)", DOCS, re.MULTILINE)
    return [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines.splitlines()]


FORMULAS = rows_below("measure | formula")
EXAMPLES = rows_below("measure | arithmetic")
PRESET_EXAMPLES = rows_below("preset | judged")
PRESET_ROWS = {re.findall("`([^`]+)`", row[0])[0]: row[2] for row in rows_below("preset | numbers of")}


def test_every_measure_has_one_row_of_formula_source_and_convention() -> None:
    spans = [re.findall("`([^`]+)`", row[0]) for row in FORMULAS]
    names = {parse_measure(span.replace("@k", "@1")).name for row in spans for span in row}

    assert names == CUTOFF_BY_NAME.keys()
    assert all(len(row) == 4 and all(row) for row in FORMULAS)


def test_every_convention_that_is_named_exists() -> None:
    known = {field.name for field in fields(Conventions)}

    assert {re.findall("`([^`]+)`", row[3])[0] for row in FORMULAS} <= known


def test_every_measure_has_one_worked_value() -> None:
    names = [parse_measure(row[0].strip("`")).name for row in EXAMPLES]

    assert sorted(names) == sorted(CUTOFF_BY_NAME)


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row[0].strip("`"))
def test_a_worked_value_is_what_is_computed(row: list[str]) -> None:
    (example,) = re.findall(r"```json\n(\{\"judged\".*\})\n```", DOCS)
    (gains,) = re.findall(r"`gain_map` (\{.*?\})", DOCS)
    (max_rel,) = re.findall(r"with `max_rel` (\d+) and", DOCS)
    (lengths,) = re.findall(r"`lengths` (\{\"d9.*?\})", DOCS)
    given = json.loads(example)
    conventions = build_conventions("trec_eval", gain_map=json.loads(gains), max_rel=int(max_rel))
    measure = row[0].strip("`")

    run = Run("example", {"q1": given["retrieved"]})
    judged = {"q1": given["judged"]}
    evaluation = evaluate(judged, run, [measure], conventions=conventions, lengths=json.loads(lengths))
    value = evaluation.values[measure][0]

    assert f"{value:.4f}" == row[2]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_row_that_names_what_it_changes(preset: str) -> None:
    default, own = PRESETS["trec_eval"], PRESETS[preset]
    changed = {field.name for field in fields(Conventions) if getattr(default, field.name) != getattr(own, field.name)}

    assert changed == set(re.findall("`([a-z_]+)`", PRESET_ROWS[preset])) - PRESETS.keys()


def test_no_preset_is_invented_and_each_has_one_worked_example() -> None:
    assert PRESET_ROWS.keys() == PRESETS.keys()
    assert [row[0].strip("`") for row in PRESET_EXAMPLES] == list(PRESETS)


def worked_example(row: list[str], preset: str) -> float | None:
    """The mean of the row's measure by the conventions of a preset."""
    judged, retrieved, measure = json.loads(row[1].strip("`")), json.loads(row[2].strip("`")), row[3].strip("`")
    found = evaluate(judged, Run("example", retrieved), [measure], conventions=build_conventions(preset))
    return found.means[measure]


@pytest.mark.parametrize("row", PRESET_EXAMPLES, ids=lambda row: row[0].strip("`"))
def test_the_example_of_a_preset_has_its_value(row: list[str]) -> None:
    assert f"{worked_example(row, row[0].strip('`')):.4f}" == row[5]


# Of one document by its only id the other seeds differ in names of measures alone.
@pytest.mark.parametrize("preset", ["pytrec_eval", "beir", "ragas_id", "seed-2", "seed-3", "seed-4"])
def test_the_example_of_a_preset_shows_what_it_changes(preset: str) -> None:
    (row,) = (row for row in PRESET_EXAMPLES if row[0].strip("`") == preset)

    try:
        value = worked_example(row, "trec_eval")
    except InvalidInput:
        # a repeated id is refused
        value = None
    assert value is None or f"{value:.4f}" != row[5]
