"""Atomic writes and locks: over threads and processes, after errors, and where a system has no `fcntl`."""

import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write, file_stamp, locked, replace_file, sha256_of, try_lock


def test_a_file_is_replaced_when_all_of_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"old")

    with atomic_write(path) as file:
        file.write(b"new")
        before = path.read_bytes()

    assert (before, path.read_bytes()) == (b"old", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "data"
    replace_file(path, b"old")

    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"new" * (1 // 0))

    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"data: cannot be written \(No such file or directory\)"):
        replace_file(tmp_path / "gone" / "data", b"")


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with locked(lock, place="results"), pytest.raises(InvalidInput, match="results: busy"):
        locked(lock, place="results", busy="busy").__enter__()
    with locked(lock, place="results", busy="busy"):
        is_locked = True

    assert is_locked


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom plumbline.ground.files import locked\n"
        f"with locked(Path({str(lock)!r}), place='x'):\n print('held', flush=True)\n sys.stdin.readline()\n os._exit(9)"
    )

    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with lock.open("rb+") as file:
            meanwhile = try_lock(file.fileno())
        other.communicate("\n")

    with lock.open("rb+") as file:
        assert (meanwhile, try_lock(file.fileno())) == (False, True)


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data"

    stamps = [file_stamp(path)]
    for _ in range(2):
        replace_file(path, b"same")
        stamps.append(file_stamp(path))

    assert stamps[0] is None
    assert len(set(stamps)) == 3


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abc")

    # FIPS 180-2, appendix B.1
    assert sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
