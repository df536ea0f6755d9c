"""What a process loads before it is asked for it: nothing of models, of science packages, of the judge's SDK."""

import json
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
# Some seconds on a machine of one's own
_MOST_SECONDS = 200
pytestmark = pytest.mark.timeout(_MOST_SECONDS + 40)
_HEAVY = {"torch", "transformers", "sentence_transformers", "onnxruntime", "openvino", "sklearn", "scipy", "nltk"}
_HEAVY_OR_UNUSED = _HEAVY | {"openai", "alembic", "psycopg", "pyarrow"}
_ANSWER = """
import asyncio
from plumbline.main import create_app
from tests.running.edge_app import client_of

async def answer():
    app = create_app()
    async with app.router.lifespan_context(app), client_of(app) as client:
        sample = {"contexts": ["The dam was built in 1932."], "answer": "It was built in 1932.", "tiers": ["lexical"]}
        response = await client.post("/v1/evaluations", json=sample)
        assert response.json()["tier"] == "lexical", response.text

asyncio.run(answer())
"""
_COMMAND = """
import contextlib
from plumbline.cli.main import main
with contextlib.suppress(SystemExit):
    main({arguments!r})
"""


def modules_after(code: str, folder: Path, **variables: str) -> set[str]:
    """The top-level modules that a new process has when it has run the code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLUMBLINE_", "DASHSCOPE_"))}
    quiet = {"PYTHONPATH": f"{_ROOT / 'app'}:{_ROOT}", "PLUMBLINE_WARM_UP": "false", "PLUMBLINE_DATA_DIR": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        check=True,
        cwd=_ROOT,
        env={**kept, **quiet, **variables},
        text=True,
        timeout=_MOST_SECONDS,
    )
    return {name.partition(".")[0] for name in json.loads(ran.stdout.splitlines()[-1])}


def test_a_service_without_a_judge_answers_without_models_and_sdk(tmp_path: Path) -> None:
    modules = modules_after(_ANSWER, tmp_path)

    assert "fastapi" in modules
    assert modules & _HEAVY_OR_UNUSED == set()


def test_a_judge_that_is_configured_brings_its_sdk_and_no_models(tmp_path: Path) -> None:
    modules = modules_after(_ANSWER, tmp_path, DASHSCOPE_API_KEY="sk-a-key-that-nobody-knows")

    assert "openai" in modules
    assert modules & _HEAVY == set()


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--help"], {"fastapi", "sqlalchemy"}),
        (["--version"], {"fastapi", "numpy", "pydantic", "uvicorn"}),
        (["retrieval", "--help"], {"fastapi", "pydantic", "uvicorn"}),
        (["score", "--help"], {"fastapi", "numpy", "pydantic", "uvicorn"}),
    ],
)
def test_a_command_loads_what_it_needs_itself(tmp_path: Path, arguments: list[str], unused: set[str]) -> None:
    modules = modules_after(_COMMAND.format(arguments=arguments), tmp_path)

    assert modules & (_HEAVY_OR_UNUSED | unused) == set()


@pytest.mark.parametrize(("keys", "is_told"), [("", True), ("a" * 32, False)])
def test_a_start_without_a_key_says_whom_a_proxy_lets_in(tmp_path: Path, keys: str, is_told: bool) -> None:
    variables = {"PLUMBLINE_DATA_DIR": str(tmp_path), "PLUMBLINE_API_KEYS": keys, "PLUMBLINE_WARM_UP": "false"}
    command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **variables}, text=True) as service:
        assert service.stderr is not None
        said = list(takewhile(lambda line: "Plumbline: http" not in line, service.stderr))
        service.terminate()
        said += service.stderr

    assert any("everybody whom a proxy on this machine lets through" in line for line in said) is is_told
