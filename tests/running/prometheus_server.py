"""A real Prometheus on loopback that scrapes one service, with the configuration and rules that are deployed."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
_LISTENING = re.compile(r'msg="Listening on" address=(127\.0\.0\.1:\d+)')
_POLL_SECONDS = 0.05


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is; skips the test where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt install prometheus)")
    return found


class Prometheus:
    """The HTTP API of one."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(base_url=f"{url}/api/v1", trust_env=False)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        response = self._client.get("/query", params={"query": expression})
        assert response.status_code == 200, (expression, response.text)
        return list(response.json()["data"]["result"])

    def value(self, expression: str) -> float:
        """The value of an expression with one series; 0 while it has none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else 0.0

    def until(self, expression: str, least: float) -> None:
        """Returns once the value is this or more."""
        while self.value(expression) < least:
            time.sleep(_POLL_SECONDS)

    def rules(self) -> list[dict[str, Any]]:
        """The rules as they were evaluated last."""
        groups = self._client.get("/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def configuration(folder: Path, *, target: str, key: str, pace: str = "500ms") -> Path:
    """The deployed configuration with another target, key and pace, in a folder with all that it names."""
    text = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    for deployed, ours in {"plumbline:8000": target, "/run/secrets/plumbline_metrics_key": "key"}.items():
        assert deployed in text
        text = text.replace(deployed, ours)
    (folder / "prometheus.yml").write_text(text.replace("15s", pace), encoding="utf-8")
    (folder / "key").write_text(key, encoding="utf-8")
    shutil.copy(DEPLOY / "prometheus-rules.yml", folder)
    return folder / "prometheus.yml"


@contextmanager
def prometheus(folder: Path, *, target: str, key: str) -> Iterator[Prometheus]:
    """One that scrapes the target, for as long as the context lasts."""
    file = configuration(folder, target=target, key=key)
    options = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0"]
    log = folder / "log"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen([program("prometheus"), *options], stdout=errors, stderr=errors)
    try:
        server = Prometheus(f"http://{_address(process, log)}")
        try:
            yield server
        finally:
            server.close()
    finally:
        process.terminate()
        process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    while process.poll() is None:
        if found := _LISTENING.search(log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(_POLL_SECONDS)
    raise AssertionError(log.read_text(encoding="utf-8"))
