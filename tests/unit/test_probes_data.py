"""The probes and the prose answers under tests/data: kinds, languages, twins, and one wrong sentence."""

from collections import Counter

from benchmarks.probes import read_rows

PROBES = read_rows("probes")
ANSWERS = read_rows("everyday_prose")


def test_every_kind_has_probes_in_both_languages() -> None:
    found = Counter((row["kind"], row["lang"]) for row in PROBES)

    assert len(PROBES) == 200
    assert len({kind for kind, _ in found}) == 16
    assert len(found) == 32
    assert min(found.values()) >= 6
    assert all(row["contexts"] and row["question"] and row["true"] != row["false"] for row in PROBES)


def test_half_of_the_prose_answers_have_one_wrong_sentence() -> None:
    found = Counter((row["lang"], row["label"]) for row in ANSWERS)

    assert set(found.values()) == {25}
    assert len(found) == 4
    assert all(row["answer"].count(row["wrong"]) == 1 for row in ANSWERS if row["label"] == 0)
    assert not any("wrong" in row for row in ANSWERS if row["label"] == 1)


def test_each_row_has_an_id_of_its_own() -> None:
    ids = [row["id"] for row in (*PROBES, *ANSWERS)]

    assert len(set(ids)) == len(ids)
