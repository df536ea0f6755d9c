"""Labels of rows: how rows are drawn, how far people agree, what is exported."""

import json
from pathlib import Path

import pytest

from plumbline.extras.calibration.labels import read_labels
from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.labels import Label, draw_rows, drawn_labels, majority
from plumbline.rows.report.label_agreement import measure_label_agreement
from plumbline.service.web.label_pages import labelled_line
from tests.making.cases import load_cases
from tests.making.record_files import write_file


def test_everybody_draws_the_same_rows_of_a_run_and_others_of_another() -> None:
    drawn = draw_rows("job_a", 100)

    assert sorted(drawn) == list(range(100))
    assert drawn != list(range(100))
    assert drawn == draw_rows("job_a", 100)
    assert drawn != draw_rows("job_b", 100)
    assert len(draw_rows("job_a", 10**9)) == 2_000
    assert draw_rows("job_a", 0) == []


def test_labels_in_the_order_of_the_draw_count_until_a_row_was_left_out() -> None:
    scored = set(range(100)) - {7}
    order = [row for row in draw_rows("job_a", 100) if row != 7]
    labels = [Label(row, "ann", row % 2) for row in [*order[:40], *order[41:60]]]
    skipped = [Label(row, "ann", None if at == 3 else 1) for at, row in enumerate(order[:35])]

    assert drawn_labels("job_a", 100, labels, scored) == {row: (row % 2, ()) for row in order[:40]}
    assert set(drawn_labels("job_a", 100, skipped, scored)) == {*order[:3], *order[4:35]}


def labels_of(**labels: str) -> list[tuple[str, int, int]]:
    """Labels by person, a digit a row; a point is a row without a label."""
    rows = (
        (person, row, digit) for person, given in labels.items() for row, digit in enumerate(given.replace(" ", ""))
    )
    return [(person, row, int(digit)) for person, row, digit in rows if digit != "."]


def test_alpha_of_two_people_takes_chance_without_replacement() -> None:
    # 20 yes and yes, 5 yes and no, 10 no and yes, 15 no and no: 15 of 50 disagree; by chance 2 * 55 * 45 of 100 * 99.
    found = measure_label_agreement(labels_of(ann="1" * 25 + "0" * 25, bob="1" * 20 + "0" * 5 + "1" * 10 + "0" * 15))

    assert (found.people, found.rows) == (("ann", "bob"), 50)
    assert found.alpha.value == pytest.approx(1 - 0.3 / (2 * 55 * 45 / 9_900))


def test_alpha_is_krippendorffs_of_his_own_examples() -> None:
    # Computing Krippendorff's Alpha-Reliability, 2011: B, two observers, .095; C, four of them, with gaps, .743.
    two = measure_label_agreement(labels_of(ann="0100000010", bob="1110010000"))
    four = measure_label_agreement(
        labels_of(ann="123321412...", bob="1233224125.3", cid=".3332342251.", dan="12332441251.")
    )

    assert two.alpha.value == pytest.approx(0.095, abs=5e-4)
    assert four.alpha.value == pytest.approx(0.743, abs=5e-4)
    # The last row has one label.
    assert four.rows == 11


@pytest.mark.parametrize(
    ("labels", "rows", "reason"),
    load_cases("labelling", "agreement_that_chance_explains_or_nobody_shares_is_null_with_a_reason"),
)
def test_agreement_that_chance_explains_or_nobody_shares_is_null_with_a_reason(
    labels: dict[str, str], rows: int, reason: str
) -> None:
    found = measure_label_agreement(labels_of(**labels))

    assert (found.rows, found.alpha) == (rows, (None, reason))


LABELS = [
    Label(0, "ann", 1), Label(0, "bob", 1), Label(0, "cid", 0),
    Label(1, "ann", 1), Label(1, "bob", 0, (2,)),
    Label(2, "ann", None), Label(2, "bob", 0),
]  # fmt: skip


def test_the_label_of_a_row_is_that_of_most_people() -> None:
    assert majority(LABELS) == {0: 1, 2: 0}


def test_an_exported_row_is_read_by_calibrate(tmp_path: Path) -> None:
    sample = Sample("Wann?", ("Es wurde 1931 eröffnet.",), "1931.")

    line = labelled_line(sample, 0, LABELS[3:5], custom_id="q1", dataset="nightly")

    (row,) = read_labels(write_file(tmp_path, "labels.jsonl", line)).rows
    assert (row.sample, row.label, row.dataset) == (sample, 0, "nightly")
    assert json.loads(line)["labels"] == {"ann": 1, "bob": 0}
    assert json.loads(line)["sentences_at_fault"] == {"bob": [2]}
