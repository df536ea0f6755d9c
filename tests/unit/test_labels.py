"""Labelled answers from a file: what is read, and what is said of what is not."""

import json
from pathlib import Path

import pytest

from plumbline.extras.calibration.labels import Labels, parse_labels, read_labels
from plumbline.ground.errors import InvalidInput

ROW = {"contexts": ["The mill was built in 1890."], "answer": "It dates from 1890.", "label": 1}
GOOD = json.dumps(ROW)


def parse(*lines: str) -> Labels:
    return parse_labels("\n".join(lines).encode(), name="own.jsonl", default_dataset="own")


def row(**fields: object) -> str:
    return json.dumps({**ROW, **fields})


def test_a_row_with_every_field_is_read_as_it_stands() -> None:
    line = row(question="How old?", dataset="mills", doc="mill-7", task="qa", lang="en", other=[1])

    (found,) = parse(line).rows

    assert (found.sample.question, found.sample.contexts) == ("How old?", ("The mill was built in 1890.",))
    assert (found.sample.answer, found.label) == ("It dates from 1890.", 1)
    assert (found.dataset, found.cluster, found.line, found.task, found.lang) == ("mills", "mill-7", 1, "qa", "en")


def test_what_is_left_out_has_its_default() -> None:
    first, second = parse(GOOD, row(question=None, dataset=None, doc=None, task=None, lang=None)).rows

    assert (first.sample.question, first.dataset, first.task, first.lang) == ("", "own", "", "")
    assert (second.sample, second.dataset, second.cluster) == (first.sample, first.dataset, first.cluster)


@pytest.mark.parametrize(
    ("label", "read"), [("1", 1), ("0", 0), ("true", 1), ("false", 0), ("1.0", 1), ("0.0", 0), ("-0", 0)]
)
def test_a_label_is_one_or_zero_however_json_writes_it(label: str, read: int) -> None:
    (found,) = parse('{"contexts": [], "answer": "a", "label": ' + label + "}").rows

    assert found.label == read
    assert type(found.label) is int


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (row(label=2), "label is 2; expected 1 or true (faithful), 0 or false (not)"),
        (row(label="1"), "got `str` - at `$.label`"),
        (row(label=None), "got `null` - at `$.label`"),
        (row(label=float("nan")), "JSON is malformed"),
        ('{"contexts": [], "answer": "a", "label": 1e999}', "Number out of range"),
        ('{"contexts": [], "answer": "a"}', "missing required field `label`"),
        (row(contexts=["The mill", 3]), "Expected `str`, got `int` - at `$.contexts[1]`"),
        (row(answer="\ud800"), "surrogate pair"),
        (row(dataset=" "), "dataset is empty; expected a name, or nothing"),
        (row(doc=1.5), "got `float` - at `$.doc`"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ('{"contexts": [', "truncated"),
        ('{"a": ' + "[" * 200_000 + "}", "recursion"),
        ("\udcff", "invalid"),
    ],
)
def test_a_bad_line_is_named_and_costs_no_good_one(line: str, said: str) -> None:
    data = "\n".join([GOOD, line, GOOD]).encode(errors="surrogateescape")
    labels = parse_labels(data, name="own.jsonl", default_dataset="own")

    assert [each.line for each in labels.rows] == [1, 3]
    (problem,) = labels.problems
    assert problem.startswith("line 2: ")
    assert said in problem
    assert len(problem) < 160


def test_a_problem_shows_no_passage() -> None:
    labels = parse(GOOD, row(contexts=["a secret passage"], answer=3), row(contexts={"a secret passage": 1}))

    assert "secret" not in " ".join(labels.problems)


def test_marks_line_ends_and_blank_lines_of_other_systems_are_fine() -> None:
    data = b"\xef\xbb\xbf" + "\r\n".join([GOOD, "", "  ", GOOD, ""]).encode()

    labels = parse_labels(data, name="own.jsonl", default_dataset="own")

    assert [each.line for each in labels.rows] == [1, 4]
    assert labels.problems == ()


def test_a_line_separator_inside_of_a_string_ends_no_line() -> None:
    labels = parse(json.dumps({**ROW, "answer": "one\u2028two\x85three"}, ensure_ascii=False))

    assert labels.rows[0].sample.answer == "one\u2028two\x85three"


def test_the_cluster_without_doc_is_that_of_the_normalised_contexts() -> None:
    same = parse(row(contexts=["The mill."]), row(contexts=["the  MILL"], answer="b"), row(contexts=["A barn."])).rows

    assert same[0].cluster == same[1].cluster != same[2].cluster


def test_a_whole_number_names_a_cluster_too() -> None:
    assert parse(row(doc=12)).rows[0].cluster == "12"
    assert parse(row(doc=0)).rows[0].cluster == "0"


def test_a_file_gives_its_stem_as_data_set(tmp_path: Path) -> None:
    path = tmp_path / "support-tickets.jsonl"
    path.write_text(GOOD, encoding="utf-8")

    assert read_labels(path).rows[0].dataset == "support-tickets"


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^none\.jsonl: cannot be read \(No such file or directory\)$"):
        read_labels(tmp_path / "none.jsonl")


def test_a_file_without_a_good_row_is_an_error_that_tells_the_first_problem() -> None:
    with pytest.raises(InvalidInput, match=r"^own\.jsonl: holds no row; expected one JSON object a line"):
        parse("", " ")
    with pytest.raises(InvalidInput, match=r"holds no good row; .*; line 1: label is 3; .* \(and 1 more bad lines\)$"):
        parse(row(label=3), "x")
