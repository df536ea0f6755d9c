"""Experiment files: an error is one line that names the table and the key."""

import tomllib
from typing import Any

import pytest

from plumbline.extras.lab.experiment import build_experiment
from plumbline.ground.errors import InvalidInput
from tests.making.cases import load_cases

FILE = """
corpus = { folder = "c" }
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
    two = build_experiment(tables('experiment = { chunkings = ["whole", "tokens-50-5"] }'))

    assert [each.name for each in build_experiment(tables("")).systems()] == ["bm25", "dense", "mix"]
    assert [each.name for each in two.systems()] == [
        *("bm25.whole", "dense.whole", "mix.whole"),
        *("bm25.tokens-50-5", "dense.tokens-50-5", "mix.tokens-50-5"),
    ]


def test_systems_are_compared_with_the_first_their_first_chunking_and_their_parts() -> None:
    two = build_experiment(tables('experiment = { chunkings = ["whole", "tokens-5"] }'))

    assert list(build_experiment(tables("")).pairs()) == [("dense", "bm25"), ("mix", "bm25"), ("mix", "dense")]
    assert list(two.pairs()) == [
        ("dense.whole", "bm25.whole"),
        *(("mix.whole", "bm25.whole"), ("mix.whole", "dense.whole")),
        ("bm25.tokens-5", "bm25.whole"),
        *(("dense.tokens-5", "bm25.whole"), ("dense.tokens-5", "dense.whole")),
        *(("mix.tokens-5", "bm25.whole"), ("mix.tokens-5", "mix.whole")),
        *(("mix.tokens-5", "bm25.tokens-5"), ("mix.tokens-5", "dense.tokens-5")),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *load_cases("lab_experiment", "an_error_names_the_table_and_the_key"),
        *load_cases("lab_experiment", "a_key_that_went_is_refused_by_name"),
    ],
)
def test_an_error_names_the_table_and_the_key(line: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build_experiment(tables(line))

    assert said in str(caught.value)


@pytest.mark.parametrize("table", ["corpus", "retrievers"])
def test_a_table_that_is_needed_is_asked_for(table: str) -> None:
    given = {name: of for name, of in tomllib.loads(FILE).items() if name != table}

    with pytest.raises(InvalidInput, match=f"{table}: Field required"):
        build_experiment(given)
