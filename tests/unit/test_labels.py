"""Labelled answers from a file: what is read, and what is said of what is not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.extras.calibration.labels import Labels, read_labels
from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.labelled_rates import read_labels as rate_labels
from tests.making.cases import load_cases
from tests.making.record_files import write_file

ROW = {"contexts": ["The mill was built in 1890."], "answer": "It dates from 1890.", "label": 1}
GOOD = json.dumps(ROW)


@pytest.fixture
def parse(tmp_path: Path) -> Callable[..., Labels]:
    """A function of the lines of a file of labels."""

    def read(*lines: str, name: str = "own.jsonl") -> Labels:
        return read_labels(write_file(tmp_path, name, "\n".join(lines).encode(errors="surrogateescape")))

    return read


def row(**fields: object) -> str:
    return json.dumps({**ROW, **fields})


def test_a_row_with_every_field_is_read_as_it_stands(parse: Callable[..., Labels]) -> None:
    line = row(question="How old?", dataset="mills", doc="mill-7", task="qa", lang="en", other=[1])

    (found,) = parse(line).rows

    assert (found.sample.question, found.sample.contexts) == ("How old?", ("The mill was built in 1890.",))
    assert (found.sample.answer, found.label) == ("It dates from 1890.", 1)
    assert (found.dataset, found.cluster, found.row, found.task, found.lang) == ("mills", "mill-7", 0, "qa", "en")


def test_what_is_left_out_has_its_default(parse: Callable[..., Labels]) -> None:
    first, second = parse(GOOD, row(question=None, dataset=None, doc=None, task=None, lang=None)).rows

    assert (first.sample.question, first.dataset, first.task, first.lang) == ("", "own", "", "")
    assert (second.sample, second.dataset, second.cluster) == (first.sample, first.dataset, first.cluster)


@pytest.mark.parametrize(("label", "read"), load_cases("labels", "words"))
def test_a_label_is_one_or_zero_however_it_is_written(parse: Callable[..., Labels], label: str, read: int) -> None:
    line = '{"custom_id": "a", "contexts": [], "answer": "a", "label": ' + label + "}"

    (found,) = parse(line).rows

    assert found.label == read
    assert type(found.label) is int
    assert rate_labels([line.encode()], name="x")["a"].label == read


def test_labels_stand_in_a_table_of_another_encoding_too(parse: Callable[..., Labels], tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(
        "问题,资料,回答,label\n磨坊多少年了？,磨坊建于1890年。,1890年。,忠实\n水轮？,有两个水轮。,三个。,幻觉\n".encode(
            "gbk"
        )
    )

    assert [each.label for each in read_labels(path).rows] == [1, 0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (row(label=2), "label is 2; expected 1, true, yes or faithful (忠实), or 0, false, no or hallucinated (幻觉)"),
        (row(label="partly"), "label is 'partly'; expected 1, true"),
        (row(label=None), "label is missing; expected 1 (faithful) or 0 (not)"),
        (row(label=float("nan")), "label is missing"),
        ('{"contexts": [], "answer": "a"}', "label is missing"),
        (row(contexts=["The mill", 3]), "contexts[1] is a number; expected a string"),
        (row(answer="\ud800"), "surrogate pair"),
        (row(dataset=" "), "dataset is empty; expected a name, or nothing"),
        (row(doc=1.5), "got `float` - at `$.doc`"),
        ("[1, 2]", "a list; expected one JSON object"),
        ('{"contexts": [', "not JSON at column"),
        ("\udcff", "text that is not UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_costs_no_good_one(parse: Callable[..., Labels], line: str, said: str) -> None:
    labels = parse(GOOD, line, GOOD)

    assert [each.row for each in labels.rows] == [0, 2]
    (problem,) = labels.problems
    assert problem.startswith("row 1")
    assert said in problem
    assert len(problem) < 160


def test_a_problem_shows_no_passage(parse: Callable[..., Labels]) -> None:
    labels = parse(GOOD, row(contexts=["a secret passage"], answer=3), row(contexts={"a secret passage": 1}))

    assert "secret" not in " ".join(labels.problems)


def test_a_line_separator_inside_of_a_string_ends_no_line(parse: Callable[..., Labels]) -> None:
    labels = parse(json.dumps({**ROW, "answer": "one\u2028two\x85three"}, ensure_ascii=False))

    assert labels.rows[0].sample.answer == "one\u2028two\x85three"


def test_the_cluster_without_doc_is_that_of_the_normalised_contexts(parse: Callable[..., Labels]) -> None:
    same = parse(row(contexts=["The mill."]), row(contexts=["the  MILL"], answer="b"), row(contexts=["A barn."])).rows

    assert same[0].cluster == same[1].cluster != same[2].cluster


def test_a_whole_number_names_a_cluster_too(parse: Callable[..., Labels]) -> None:
    assert parse(row(doc=12)).rows[0].cluster == "12"
    assert parse(row(doc=0)).rows[0].cluster == "0"


def test_a_file_gives_its_stem_as_data_set(tmp_path: Path) -> None:
    path = tmp_path / "support-tickets.jsonl"
    path.write_text(GOOD, encoding="utf-8")

    assert read_labels(path).rows[0].dataset == "support-tickets"


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^none\.jsonl: cannot be read \(No such file or directory\)$"):
        read_labels(tmp_path / "none.jsonl")


def test_a_file_without_a_good_row_tells_the_first_problem(parse: Callable[..., Labels]) -> None:
    with pytest.raises(
        InvalidInput, match=r"holds no good row with a label; row 0: label is 3; .* \(and 1 more bad rows\)$"
    ):
        parse(row(label=3), "x")
