"""The service as operators run it, for programs that read its OpenAPI document and ask everything that stands in it."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.running.judge_process import judge_process
from tests.running.keyed_service import made_key
from tests.running.killable_service import PORT, killable_service

_ROOT = Path(__file__).parents[2]
_CONFIG = Path(__file__).with_name("schemathesis.toml")
_JUDGE_KEY = "sk-scripted-judge-0001"
# Two of them, so that each asks for what is the other's.
_CALLERS = ("first", "second")
# Small, so that texts at a limit and beyond it cost little.
_LIMITS = {
    "PLUMBLINE_MAX_CONTEXTS": "4",
    "PLUMBLINE_MAX_CONTEXT_CHARACTERS": "400",
    "PLUMBLINE_MAX_ANSWER_CHARACTERS": "300",
    "PLUMBLINE_MAX_QUESTION_CHARACTERS": "100",
    "PLUMBLINE_MAX_BATCH_SAMPLES": "3",
}


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What came of a run: the exit code, what was printed, and the report by Schemathesis' own names."""

    code: int
    output: str
    report: dict[str, Any]


def fuzzed(folder: Path, *options: str) -> Fuzzed:
    """Asks a service of its own in the folder everything; `options` as of `schemathesis run`."""
    with openapi_service(folder) as base_url:
        return _run(folder, base_url, options)


@contextmanager
def openapi_service(folder: Path) -> Iterator[str]:
    """The base URL of a service with two keys for everything, jobs, and a judge that finds everything supported."""
    secrets = {name: made_key(folder, name, concurrency=1_000) for name in _CALLERS}
    _write_callers(folder, secrets)
    # Not one that the system gives out: another test could take it before the service listens.
    port = random.randrange(20_000, 30_000)  # noqa: S311
    with judge_process(latency_seconds=0) as judge:
        environment = {
            "PLUMBLINE_LLM_PROVIDER": "generic",
            "PLUMBLINE_LLM_BASE_URL": judge.base_url,
            "PLUMBLINE_LLM_API_KEY": _JUDGE_KEY,
            "PLUMBLINE_LLM_MODEL": "judge-1",
            "PLUMBLINE_LLM_PRICES": json.dumps({"judge-1": {"input": 1.0, "output": 2.0}}),
            "PLUMBLINE_EMBEDDING_MODEL": str(folder / "no-model"),
            "PLUMBLINE_WARM_UP": "false",
            "PLUMBLINE_DATA_DIR": str(folder),
            PORT: str(port),
            **_LIMITS,
        }
        with killable_service(environment) as service:
            pid = service.start()
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                service.kill(pid)


def _write_callers(folder: Path, secrets: dict[str, str]) -> None:
    """The keys as Schemathesis reads them (Web Fuzzing Commons)."""
    callers = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {secret}"}]}
        for name, secret in secrets.items()
    ]
    (folder / "callers.json").write_text(json.dumps({"auth": callers}))


def _run(folder: Path, base_url: str, options: Sequence[str]) -> Fuzzed:
    report = folder / "report.json"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIG), "run"]
    arguments = [f"{base_url}/openapi.json", "--auth-wfc", str(folder / "callers.json"), *options]
    ended = subprocess.run(
        [*command, *arguments, "--report", "json", "--report-json-path", str(report)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(report.read_text()) if report.exists() else {}
    return Fuzzed(ended.returncode, ended.stdout + ended.stderr, found)
