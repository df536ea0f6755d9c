"""What a process loads before it is asked for it: nothing of models, of science packages, of the judge's SDK."""

import json
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.making.score_files import read_rows, sample_row, write_rows
from tests.running.service import plain_settings, served

_ROOT = Path(__file__).parents[2]
# Some seconds on a machine of one's own
_MOST_SECONDS = 200
pytestmark = pytest.mark.timeout(_MOST_SECONDS + 40)
_HEAVY = {"torch", "transformers", "sentence_transformers", "onnxruntime", "openvino", "sklearn", "scipy", "nltk"}
_HEAVY_OR_UNUSED = _HEAVY | {"openai", "alembic", "psycopg", "pyarrow"}
_ANSWERS = """
import asyncio, json, os, sys
from plumbline.main import create_app
from tests.running.edge_app import client_of

async def answer():
    app = create_app()
    async with app.router.lifespan_context(app), client_of(app) as client:
        sample = {"contexts": ["The dam was built in 1932."], "answer": "It was built in 1932.", "tiers": ["lexical"]}
        response = await client.post("/v1/evaluations", json=sample)
        assert response.json()["tier"] == "lexical", response.text
    return sorted(sys.modules)

modules = {"without a judge": asyncio.run(answer())}
os.environ["DASHSCOPE_API_KEY"] = "sk-a-key-that-nobody-knows"
modules["with a judge"] = asyncio.run(answer())
print("\\n" + json.dumps(modules))
"""
_COMMANDS = """
import contextlib, json, shlex, sys
from plumbline.cli.main import main
modules = {{}}
for command in {commands!r}:
    with contextlib.suppress(SystemExit):
        main(shlex.split(command))
    modules[command] = sorted(sys.modules)
print("\\n" + json.dumps(modules))
"""


def printed_by(code: str, folder: Path) -> dict[str, list[str]]:
    """Return the JSON of the last line that a new process prints, which runs the code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLUMBLINE_", "DASHSCOPE_"))}
    quiet = {"PYTHONPATH": f"{_ROOT / 'app'}:{_ROOT}", "PLUMBLINE_WARM_UP": "false", "PLUMBLINE_DATA_DIR": str(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        cwd=_ROOT,
        env={**kept, **quiet},
        text=True,
        timeout=_MOST_SECONDS,
    )
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def top_level(modules: list[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_a_service_loads_no_models_before_they_are_asked_and_the_sdk_with_a_judge_alone(tmp_path: Path) -> None:
    ran = printed_by(_ANSWERS, tmp_path)

    without, beside = top_level(ran["without a judge"]), top_level(ran["with a judge"])
    assert "fastapi" in without
    assert without & _HEAVY_OR_UNUSED == set()
    assert "openai" in beside
    assert beside & _HEAVY == set()


def test_a_command_loads_what_it_needs_itself(tmp_path: Path) -> None:
    commands = {
        "--version": {"fastapi", "numpy", "pydantic", "uvicorn"},
        "score --help": {"fastapi", "numpy", "pydantic", "uvicorn"},
        "retrieval --help": {"fastapi", "pydantic", "uvicorn"},
        "--help": {"fastapi", "sqlalchemy"},
    }

    # In one process: a command finds what those before it have loaded.
    ran = printed_by(_COMMANDS.format(commands=list(commands)), tmp_path)

    loaded = {command: top_level(ran[command]) & (_HEAVY_OR_UNUSED | commands[command]) for command in commands}
    assert list(loaded.values()) == [set()] * len(commands)


def test_scoring_in_tier_lexical_or_by_a_service_loads_no_model_and_no_framework(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "data.jsonl", [sample_row(0)])
    options = f"--tiers lexical --quiet -o {tmp_path}"

    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        by_service = f"score {data} {options}/by_service.jsonl --url {url}"
        here = f"score {data} {options}/here.jsonl"
        ran = printed_by(_COMMANDS.format(commands=[by_service, here]), tmp_path)

    assert [read_rows(tmp_path / f"{name}.jsonl")[0]["result"]["tier"] for name in ("by_service", "here")] == [
        "lexical",
        "lexical",
    ]
    assert [top_level(each) & (_HEAVY | {"fastapi", "starlette"}) for each in ran.values()] == [set(), set()]


def test_a_start_without_a_key_says_whom_a_proxy_lets_in(tmp_path: Path) -> None:
    variables = {"PLUMBLINE_DATA_DIR": str(tmp_path), "PLUMBLINE_WARM_UP": "false"}
    command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **variables}, text=True) as service:
        assert service.stderr is not None
        said = list(takewhile(lambda line: "Plumbline: http" not in line, service.stderr))
        service.terminate()
        said += service.stderr

    assert any("everybody whom a proxy on this machine lets through" in line for line in said)
