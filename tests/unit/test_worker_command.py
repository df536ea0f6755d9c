"""`plumbline worker` where it cannot begin: one line that says what to mend, and no password."""

import importlib.util
from typing import Any

import pytest

from plumbline.cli.main import main


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the command says of an environment."""

    def run(**variables: str) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        assert main(["worker"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("plumbline: ")
        assert said.count("\n") == 1
        assert "secret-word" not in said
        return said

    return run


def test_without_a_database(told: Any) -> None:
    assert "PLUMBLINE_DATABASE_URL is not set" in told()


def test_with_a_database_that_cannot_be_reached(told: Any) -> None:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    said = told(DATABASE_URL="postgresql://u:secret-word@127.0.0.1:1/jobs")

    assert "cannot reach the database at 127.0.0.1 port 1: Connection refused" in said


def test_with_a_url_that_is_none(told: Any) -> None:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")

    assert "not an address of a database" in told(DATABASE_URL="mysql://u:secret-word@127.0.0.1/jobs")


def test_without_rows_at_a_time(told: Any) -> None:
    assert "PLUMBLINE_JOB_CONCURRENCY is 0" in told(DATABASE_URL="postgresql://u@127.0.0.1:1/x", JOB_CONCURRENCY="0")


def test_without_the_extra(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> Any:
        return None if name.startswith("psycopg") else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    said = told(DATABASE_URL="postgresql://u:secret-word@127.0.0.1:1/jobs")

    assert "pip install 'plumbline-rag[postgres]'" in said
