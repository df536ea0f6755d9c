"""Labels of rows: how rows are drawn, how far people agree, what is exported."""

import json

import pytest

from plumbline.extras.calibration.labels import parse_labels
from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.labels import Label, chances, draw_low, draw_rows, drawn_labels, majority, stratify
from plumbline.rows.report.labelled_rates import cohen_kappa
from plumbline.service.web.label_pages import agreements, labelled_line


def test_everybody_draws_the_same_rows_of_a_run_and_others_of_another() -> None:
    drawn = draw_rows("job_a", 100)

    assert sorted(drawn) == list(range(100))
    assert drawn != list(range(100))
    assert drawn == draw_rows("job_a", 100)
    assert drawn != draw_rows("job_b", 100)
    assert len(draw_rows("job_a", 10**9)) == 2_000
    assert draw_rows("job_a", 0) == []


def test_a_stratified_draw_has_each_tenth_of_the_scores_in_turn() -> None:
    scores = {row: row / 100 for row in range(100)}

    rows = stratify(draw_rows("job_a", 120), scores)

    assert sorted(rows) == list(range(100))
    assert [row // 10 for row in rows[:10]] == list(range(10))
    assert stratify([1, 2], {}) == []


def test_low_scores_are_drawn_up_to_four_times_as_often_with_the_probability_that_is_named() -> None:
    scores = {row: row / 100 for row in range(100)}
    counts = dict.fromkeys(scores, 0)
    for seed in range(2_000):
        for row, _ in draw_low(scores, seed=str(seed))[:30]:
            counts[row] += 1
    sizes = dict(draw_low(scores, seed="x"))
    named = dict(zip(sizes, chances(list(sizes.values()), 30), strict=True))

    assert sum(named.values()) == pytest.approx(30)
    assert max(sizes.values()) / min(sizes.values()) == pytest.approx(4, rel=0.03)
    # Four standard deviations of 2,000 draws at .5 are .045.
    assert all(abs(counts[row] / 2_000 - named[row]) < 0.045 for row in scores)


def test_sizes_that_would_be_certain_are_one() -> None:
    # 3 of (6, 1, 1, 1, 1): the first is certain, the others share two in proportion.
    assert chances([1, 6, 1, 1, 1], 3) == pytest.approx([0.5, 1, 0.5, 0.5, 0.5])
    assert chances([1, 2], 2) == [1, 1]


def test_labels_of_an_order_count_until_a_row_was_left_out() -> None:
    scores = {row: row / 100 for row in range(100) if row != 7}
    order = [row for row in draw_rows("job_a", 100) if row != 7]
    low = [row for row, _ in draw_low(scores, seed="job_a")]
    label = [Label(row, "ann", row % 2) for row in [*order[:40], *order[41:60]]]
    skipped = [Label(row, "ann", None if at == 3 else 1) for at, row in enumerate(low[:35])]

    alike = drawn_labels("job_a", 100, label, scores)
    by_size = drawn_labels("job_a", 100, skipped, scores)

    assert {row: each.label for row, each in alike.items()} == {row: row % 2 for row in order[:40]}
    assert {each.weight for each in alike.values()} == {None}
    assert set(by_size) == {*low[:3], *low[4:35]}
    assert max(each.weight or 0 for each in by_size.values()) > 2 * min(each.weight or 0 for each in by_size.values())


def test_kappa_is_cohens() -> None:
    # 20 yes and yes, 5 yes and no, 10 no and yes, 15 no and no: observed 0.7, by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5
    pairs = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15

    assert cohen_kappa(pairs) == pytest.approx(0.4)
    assert cohen_kappa([(1, 1), (1, 1)]) is None
    assert cohen_kappa([]) is None
    assert cohen_kappa([(1, 0), (0, 1)]) == pytest.approx(-1.0)


LABELS = [
    Label(0, "ann", 1), Label(0, "bob", 1), Label(0, "cid", 0),
    Label(1, "ann", 1), Label(1, "bob", 0, (2,)),
    Label(2, "ann", None), Label(2, "bob", 0),
]  # fmt: skip


def test_people_agree_on_the_rows_that_both_labelled() -> None:
    found = [(each.people, each.rows, each.share) for each in agreements(LABELS)]

    assert found == [(("ann", "bob"), 2, 0.5), (("ann", "cid"), 1, 0.0), (("bob", "cid"), 1, 0.0)]
    assert majority(LABELS) == {0: 1, 2: 0}


def test_an_exported_row_is_read_by_calibrate() -> None:
    sample = Sample("Wann?", ("Es wurde 1931 eröffnet.",), "1931.")

    line = labelled_line(sample, 0, LABELS[3:5], custom_id="q1", dataset="nightly")

    (row,) = parse_labels(line, name="labels.jsonl", default_dataset="x").rows
    assert (row.sample, row.label, row.dataset) == (sample, 0, "nightly")
    assert json.loads(line)["labels"] == {"ann": 1, "bob": 0}
    assert json.loads(line)["sentences_at_fault"] == {"bob": [2]}
