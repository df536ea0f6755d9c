"""The fuzz targets hold on what they start from, and on inputs made by chance."""

import importlib
import random
from pathlib import Path

import pytest

from benchmarks.fuzz.__main__ import TARGETS
from benchmarks.fuzz.families import FAMILIES
from benchmarks.fuzz.growth import PARSERS, exponent
from benchmarks.fuzz.material import divided, raw, text_of
from benchmarks.fuzz.running import Fuzzing, fuzz_at_random


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_on_its_seeds_and_by_chance(name: str) -> None:
    target = importlib.import_module(f"benchmarks.fuzz.{name}")
    chance = random.Random(7)  # noqa: S311  # no secret

    for data in target.SEEDS:
        target.check(data)
    for size in (0, 1, 8, 60, 200) * 4:
        target.check(chance.randbytes(size))


def test_a_fault_is_told_once_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def check(data: bytes) -> None:
        if b"a" in data:
            raise ValueError("an a")

    fuzzing = Fuzzing(check, tmp_path / "findings")
    for data in (b"xay", b"b", b"a"):
        fuzzing.one(data)

    (kept,) = fuzzing.findings.values()
    assert kept.read_bytes() == b"xay"
    assert capsys.readouterr().err.count("FINDING ValueError") == 1
    assert fuzzing.summary(2.0).startswith("3 executions in 2 s")


def test_no_time_is_no_input(tmp_path: Path) -> None:
    fuzzing = Fuzzing(lambda _: None, tmp_path)

    assert fuzz_at_random(fuzzing, [b"seed"], seconds=0.0, seed=1) == 0
    assert fuzzing.executions == 0


@pytest.mark.parametrize("text", ["", "a", "大坝", "\ud800"])
def test_a_seed_becomes_its_text(text: str) -> None:
    assert text_of(raw(text)) == text


def test_bytes_are_divided_without_loss() -> None:
    data = bytes(range(100))

    parts = divided(data, 3)

    assert len(parts) == 3
    assert b"".join(parts) == data[3:]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parser_reads_every_family(family: str) -> None:
    text = FAMILIES[family](400)

    for parse in PARSERS.values():
        parse(text)


def test_twice_the_size_in_four_times_the_time_is_the_square() -> None:
    assert exponent([1, 2, 4], [1.0, 2.0, 8.0]) == pytest.approx(2.0)
    assert exponent([1, 2, 4], [1.0]) == 1.0
