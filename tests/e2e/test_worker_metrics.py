"""`plumbline worker` with a port for Prometheus: the same page as the service's, without the store's figures."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from plumbline.cli.main import main
from plumbline.service.metrics.observer import Metrics
from tests.running.postgres_server import PostgresServer


@contextmanager
def worker(url: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A worker in a process of its own."""
    environment = {**os.environ, "PLUMBLINE_DATABASE_URL": url, "PLUMBLINE_WARM_UP": "false"}
    command = [sys.executable, "-m", "plumbline.cli.main", "worker", *options]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def event(process: "subprocess.Popen[str]", name: str) -> dict[str, Any]:
    """The event of this name, once it is logged."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if name in line:
            return dict(json.loads(line))
    raise AssertionError("".join(seen))


def test_a_worker_serves_its_metrics_where_it_is_told(postgres_server: PostgresServer) -> None:
    with worker(postgres_server.url, "--metrics-port", "0") as process:
        port = event(process, "metrics_served")["port"]
        event(process, "working")
        page = httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        process.send_signal(signal.SIGTERM)
        code = process.wait()

    assert code == 0
    assert "plumbline_job_chunks_under_way 0.0" in page
    assert 'plumbline_job_rows_total{status="judged"} 0.0' in page
    assert "plumbline_jobs{" not in page


def test_a_port_that_is_taken_is_one_line(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_DATABASE_URL", postgres_server.url)
    monkeypatch.setenv("PLUMBLINE_WARM_UP", "false")
    with Metrics(version="0", tiers=(), row_statuses=()).serve("127.0.0.1", 0) as port:
        code = main(["worker", "--metrics-port", str(port)])

    assert code == 2
    said = capsys.readouterr().err
    assert f"plumbline: cannot serve metrics on 127.0.0.1 port {port}: Address already in use" in said
