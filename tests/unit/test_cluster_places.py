"""Files and folders by path or URI."""

from pathlib import Path

import pytest

from plumbline.extras.cluster.places import files_in, folder_at
from plumbline.ground.errors import InvalidInput


def names(place: str) -> list[str]:
    return [facts.place.rpartition("/")[2] for facts in files_in(place)]


@pytest.fixture(params=["path", "uri"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, as a path and as a URI that pyarrow opens."""
    return tmp_path.as_uri() if request.param == "uri" else str(tmp_path)


def test_a_folder_and_a_pattern_give_their_files_by_name(tmp_path: Path, place: str) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.csv", "_SUCCESS", ".hidden", "d.jsonl.partial"):
        (tmp_path / name).write_text("x")

    assert names(place) == ["a.jsonl", "b.jsonl", "c.csv"]
    assert names(f"{place}/*.jsonl") == ["a.jsonl", "b.jsonl"]
    assert names(f"{place}/c.csv") == ["c.csv"]


def test_what_is_not_there_is_refused(place: str) -> None:
    for missing in (f"{place}/none.jsonl", f"{place}/*.jsonl", f"{place}/none/x.jsonl"):
        with pytest.raises(InvalidInput, match="there is no such file"):
            files_in(missing)


def test_a_changed_file_has_other_facts(tmp_path: Path, place: str) -> None:
    (tmp_path / "a.jsonl").write_text("x")
    before = files_in(place)
    (tmp_path / "a.jsonl").write_text("xy")

    assert files_in(place) != before


def test_a_folder_takes_whole_files(tmp_path: Path, place: str) -> None:
    folder = folder_at(f"{place}/new").folder("inner")
    assert folder.names() == set()
    assert folder.read("a") is None

    folder.write("a", b"1")
    folder.write("a", b"22")
    folder.write("b", b"3")
    folder.remove("b")
    folder.remove("never")

    assert folder.read("a") == b"22"
    assert (folder.has("a"), folder.has("b")) == (True, False)
    assert folder.names() == {"a"}
    assert [each.name for each in (tmp_path / "new" / "inner").iterdir()] == ["a"]


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        files_in("s3://AKIAPLANTED:secret@bucket/rows/*.parquet")

    assert "credentials" in str(refused.value)
    assert "PLANTED" not in str(refused.value)


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be reached"):
        folder_at("nowhere://bucket/out")
