"""Packages of other projects beside a live service: the versions that are tested, and ways to run them."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.running.real_servers import free_port, server

# The documents name them (tests/unit/test_documented_names.py).
VERSIONS = {
    "arize-phoenix": "20.26.1",
    "dspy": "3.4.1",
    "haystack-ai": "3.4.0",
    "langchain": "1.4.7",
    "langfuse": "5.0.4",
    "langsmith": "0.15.0",
    "litellm": "1.106.2",
    "llama-index-core": "0.14.25",
    "mcp": "2.3.0",
    "mlflow": "3.17.2",
    "opentelemetry-sdk": "1.45.2",
    "promptfoo": "0.121.20",
    "pytest-xdist": "3.8.0",
}
_EXAMPLE_SECONDS = 300
KEY = "key-of-the-client-0001"
RIGHT, WRONG = "The Marlow lighthouse was built in 1887.", "The Marlow lighthouse was built in 1932."
CONTEXT = f"{RIGHT} It is 41 metres high."


def pinned(package: str, extra: str = "") -> str:
    """Return the requirement for the tested version."""
    return f"{package}{extra}=={VERSIONS[package]}"


@contextmanager
def live_service(folder: Path) -> Iterator[str]:
    """The URL of `plumbline serve` with every contract of others and the key `KEY`, judging without an LLM."""
    port = free_port()
    names = "promptfoo,litellm,tool"
    settings = {"PLUMBLINE_COMPAT": names, "PLUMBLINE_API_KEYS": KEY, "PLUMBLINE_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "plumbline.cli.main", "serve", "--port", str(port)]
    with server(command, port=port, log=folder / "service.log", env=settings):
        yield f"http://127.0.0.1:{port}"


def run_example(python: Path, code: str, url: str, folder: Path, *, constants: str = "") -> None:
    """Run a program in another environment and in this folder; what the texts are called here is a name there, too.

    Args:
        constants: lines that come before the program.
    """
    texts = {"URL": url, "KEY": KEY, "CONTEXT": CONTEXT, "RIGHT": RIGHT, "WRONG": WRONG}
    head = "".join(f"{name} = {text!r}\n" for name, text in texts.items()) + constants
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**clean, "HOME": str(folder), "PLUMBLINE_URL": url, "PLUMBLINE_API_KEY": KEY}
    done = subprocess.run(
        [python, "-c", head + textwrap.dedent(code)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_EXAMPLE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
