"""Experiment files: an error is one line that names the table and the key."""

import tomllib
from typing import Any

import pytest

from plumbline.extras.lab.experiment import build_experiment
from plumbline.ground.errors import InvalidInput

FILE = """
corpora.c = { kind = "beir", folder = "c" }
retrievers.bm25 = { kind = "keyword" }
retrievers.dense = { kind = "dense" }
blends.mix = { parts = ["bm25", "dense"] }
"""


def tables(more: str) -> dict[str, Any]:
    """The file with a line in place of the one of the same name."""
    name = more.partition(" = ")[0].strip()
    kept = [line for line in FILE.splitlines() if not line.startswith(f"{name} = ")]
    return tomllib.loads("\n".join([*kept, more]))


def test_systems_come_in_the_order_of_the_file() -> None:
    experiment = build_experiment(tables('chunkings.s = { kind = "sentences" }'))

    assert [each.name for each in experiment.systems()] == ["c.s.bm25", "c.s.dense", "c.s.mix"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'retrievers.bm25 = { kind = "keyword", feilds = {} }',
            "retrievers.bm25.feilds: there is no key 'feilds'; did you mean 'fields'?",
        ),
        (
            'retrievers.bm25 = { kind = "keyward" }',
            "retrievers.bm25.kind: there is no kind 'keyward'; did you mean 'keyword'?",
        ),
        ("retrievers.bm25 = { }", "retrievers.bm25.kind: is missing"),
        ('retrievers."a b" = { kind = "dense" }', "retrievers.a b: a name has 1 to 40 of"),
        ('retrievers.s = { kind = "sparse" }', "retrievers.s.model: is missing"),
        ('retrievers.bm25 = { kind = "keyword", b = 7 }', "retrievers.bm25.b: Input should be less than or equal to 1"),
        ("experment.depth = 1", "experment: there is no table 'experment'; did you mean 'experiment'?"),
        (
            'experiment.baseline = "bm52"',
            "experiment.baseline: there is no retriever or blend 'bm52'; did you mean 'bm25'?",
        ),
        ('experiment.measures = ["ndgc@10"]', "experiment.measures: "),
        ('experiment.preset = "trek"', "experiment.preset: "),
        ("conventions.rel_levl = 1", "conventions: "),
        ('blends.mix = { parts = ["bm25", "mix"] }', "blends.mix: there is no retriever 'mix'"),
        (
            'blends.mix = { parts = ["bm25", "dense"], weights = { bm25 = 1 } }',
            "blends.mix: expected a weight for each",
        ),
        ('blends.mix = { parts = ["bm25", "dense"], method = "magic" }', "blends.mix: "),
        ('chunkings.t = { kind = "tokens", size = 5, overlap = 5 }', "chunkings.t: overlap 5 is not less than size 5"),
    ],
)
def test_an_error_names_the_table_and_the_key(line: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build_experiment(tables(line))

    assert said in str(caught.value)


@pytest.mark.parametrize("table", ["corpora", "retrievers"])
def test_a_table_that_is_needed_is_asked_for(table: str) -> None:
    given = {name: of for name, of in tomllib.loads(FILE).items() if name != table}

    with pytest.raises(InvalidInput, match=rf"{table}: there is none; expected a table \[{table}.NAME\]"):
        build_experiment(given)
