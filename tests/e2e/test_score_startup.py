"""What a process of `plumbline score` loads: a run that asks no model pays for none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.making.score_files import read_rows, sample_row, write_rows
from tests.running.service import plain_settings, served

ROOT = Path(__file__).parents[2]

_SCRIPT = """
import json, sys
from plumbline.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(name for name in sys.modules if "." not in name)]))
"""
# Some seconds on a machine of one's own
_MOST_SECONDS = 200
pytestmark = pytest.mark.timeout(_MOST_SECONDS + 40)
_HEAVY = {"torch", "transformers", "sentence_transformers", "fastapi", "starlette", "sklearn", "scipy", "openai"}


def loaded_by(*arguments: object) -> tuple[int, set[str]]:
    """The exit code of a command, and the top-level modules that its process has then."""
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT, "score", *map(str, arguments), "--quiet"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"},
        timeout=_MOST_SECONDS,
    )
    code, modules = json.loads(ran.stdout)
    return code, set(modules)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "data.jsonl", [sample_row(0)])


def test_tier_lexical_loads_no_model_library_and_no_web_framework(tmp_path: Path, data: Path) -> None:
    code, modules = loaded_by(data, "-o", tmp_path / "out.jsonl", "--tiers", "lexical")

    assert code == 0
    assert read_rows(tmp_path / "out.jsonl")[0]["result"]["tier"] == "lexical"
    assert modules & _HEAVY == set()


def test_a_service_that_scores_leaves_this_process_without_anything_that_does(tmp_path: Path, data: Path) -> None:
    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        code, modules = loaded_by(data, "-o", tmp_path / "out.jsonl", "--tiers", "lexical", "--url", url)

    assert code == 0
    assert modules & _HEAVY == set()
