"""Clients that generators make from the OpenAPI document call every operation of the live service.

The generators stand in `.tools`, where `make nightly` installs them.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.making.cases import load_cases
from tests.running.openapi_service import openapi_service

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / os.environ.get("TOOLS", ".tools")
CALLS = ROOT / "tests" / "running" / "generated"
TSC = TOOLS / "node_modules" / "typescript" / "bin" / "tsc"
SAID = {**load_cases("generated_clients", "said", inner=list), "delete_job": None}
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """The URL of a service, a key, and the file of its OpenAPI document."""
    folder = tmp_path_factory.mktemp("service")
    with openapi_service(folder) as url:
        callers = json.loads((folder / "callers.json").read_text())
        key = callers["auth"][0]["fixedHeaders"][0]["value"].removeprefix("Bearer ")
        with httpx2.Client(base_url=url, transport=httpx2.HTTPTransport(retries=100), trust_env=False) as client:
            document = client.get("/openapi.json").content
        path = folder / "openapi.json"
        path.write_bytes(document)
        yield url, key, path


def run(command: Sequence[object], folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    ended = subprocess.run(
        [str(each) for each in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-4_000:] + ended.stderr[-4_000:]
    return ended.stdout


def tool(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path.name} is not installed: make nightly")
    return path


def test_the_words_are_of_every_operation(service: tuple[str, str, Path]) -> None:
    document: dict[str, Any] = json.loads(service[2].read_bytes())

    operations = {each["operationId"] for item in document["paths"].values() for each in item.values()}
    assert set(SAID) == operations


def test_the_client_of_openapi_python_client_calls_every_operation(
    service: tuple[str, str, Path], tmp_path: Path
) -> None:
    url, key, document = service
    generate = tool(TOOLS / "bin" / "openapi-python-client")

    run([generate, "generate", "--path", document, "--meta", "none", "--output-path", "plumbline_attrs"], tmp_path)
    call = [TOOLS / "bin" / "python", CALLS / "call_python.py", "attrs", url, key, CALLS / "requests.json"]

    assert json.loads(run(call, tmp_path)) == SAID


def test_the_python_client_of_openapi_generator_calls_every_operation(
    service: tuple[str, str, Path], tmp_path: Path
) -> None:
    url, key, document = service
    generate = tool(TOOLS / "bin" / "openapi-generator-cli")

    run(
        [generate, "generate", "-g", "python", "-i", document, "-o", ".", "--package-name", "plumbline_pydantic"],
        tmp_path,
    )
    call = [TOOLS / "bin" / "python", CALLS / "call_python.py", "pydantic", url, key, CALLS / "requests.json"]

    assert json.loads(run(call, tmp_path)) == SAID


def test_the_typescript_client_of_openapi_generator_calls_every_operation(
    service: tuple[str, str, Path], tmp_path: Path
) -> None:
    url, key, document = service
    generate, node = tool(TOOLS / "bin" / "openapi-generator-cli"), shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    tool(TSC)

    # Without the property it writes imports of the models of forms and leaves out the models.
    forms = ["--global-property", "skipFormModel=false"]
    run([generate, "generate", "-g", "typescript-fetch", "-i", document, "-o", "client", *forms], tmp_path)
    shutil.copy(CALLS / "call_fetch.ts", tmp_path)
    options = ["--strict", "--target", "es2022", "--module", "commonjs", "--lib", "es2022,dom", "--outDir", "out"]
    run([node, TSC, *options, "call_fetch.ts"], tmp_path)

    assert json.loads(run([node, "out/call_fetch.js", url, key, CALLS / "requests.json"], tmp_path)) == SAID
