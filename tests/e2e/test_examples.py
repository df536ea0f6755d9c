"""The programs of examples/ do what they show, against a service without a judge. `make examples`."""

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.running.service import plain_settings, served

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "batch.py": ["200 fully supported", "1 not read", "for example: Bicycles travel free of charge on Sundays."],
    "rag.py": ["not shown: Tickets are half price", "shown: The ferry to Hallam leaves at 7:40"],
    "compare_retrievers.py": ["words    mrr 0.", "pieces   mrr 0.", "8 questions"],
}


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        yield url


def test_every_example_is_run() -> None:
    named = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh"}}

    # tests/contract/test_evaluator_recipes.py runs the middleware.
    assert named == {*PRINTED, "rest.sh", "test_answers.py", "langchain_middleware.py"}


@pytest.mark.parametrize("name", PRINTED)
def test_a_program_prints_what_it_is_for(
    name: str, service: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_URL", service)

    runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    printed = capsys.readouterr().out
    assert [line for line in PRINTED[name] if line not in printed] == []


def test_the_requests_by_curl_are_answered(service: str) -> None:
    printed = _run(service, "/bin/sh", str(EXAMPLES / "rest.sh"))

    assert "not_mentioned - Bicycles travel free of charge." in printed
    assert "judged 2 of 2" in printed


def test_the_gate_in_pytest_passes(service: str) -> None:
    # The plugin by name: the environment may hold an installation from before it was one
    plugin = ("-p", "plumbline.integrations.pytest_plugin", "-p", "no:cacheprovider")
    printed = _run(service, sys.executable, "-m", "pytest", *plugin, str(EXAMPLES / "test_answers.py"), autoload=False)

    assert printed.count(".") >= 3


def _run(service: str, *command: str, autoload: bool = True) -> str:
    environment = {**os.environ, "PLUMBLINE_URL": service, "PYTHONPATH": os.pathsep.join(sys.path)}
    if not autoload:
        environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-c /dev/null"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
