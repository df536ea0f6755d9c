"""Servers of other projects, each installed into a place of its own and run on loopback."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_READY_SECONDS = 180.0
_INSTALL_SECONDS = 2_400.0


def servers_folder(made: Path) -> Path:
    """Return the folder for installed servers: PLUMBLINE_TEST_SERVERS, kept between runs, or a temporary one."""
    kept = os.environ.get("PLUMBLINE_TEST_SERVERS")
    return Path(kept).resolve() if kept else made


def python_of(folder: Path, name: str, *packages: str) -> Path:
    """The interpreter of an environment with these packages; skips the test where they cannot be installed."""
    python, complete = folder / name / "bin" / "python", folder / name / "complete"
    wanted = "\n".join(packages)
    if not complete.exists() or complete.read_text() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        _installed([sys.executable, "-m", "venv", "--clear", str(folder / name)])
        _installed([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        complete.write_text(wanted)
    return python


def npm_program(folder: Path, package: str, program: str, *more: str) -> Path:
    """A program of an npm package, installed with `more`; skips the test where it cannot be installed."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    place = folder / "npm" / package.replace("/", "-")
    path = place / "node_modules" / ".bin" / program
    if not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        _installed([npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(place), package, *more])
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def server(command: Sequence[str], *, port: int, log: Path, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Runs a server until the context ends; it is up when it takes connections.

    Raises:
        AssertionError: it ended or was not up in time; the message has the end of what it wrote.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
    try:
        until = time.monotonic() + _READY_SECONDS
        while not _takes_connections(port):
            assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
            assert time.monotonic() < until, log.read_text(errors="replace")[-2_000:]
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _takes_connections(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def install_wheel(python: Path, wheel: Path) -> None:
    """Put a wheel of ours into an environment, in place of the one there; skips where it cannot be installed."""
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _installed([*pip, "uninstall", "--yes", "plumbline-rag"])
    _installed([*pip, "install", str(wheel)])


def _installed(command: Sequence[str]) -> None:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, timeout=_INSTALL_SECONDS, env=clean, check=False)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        pytest.skip(f"cannot be installed here: {lines[-1][:200]}")
