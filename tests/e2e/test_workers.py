"""`plumbline serve --workers 2`: one service, whichever process answers."""

import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.kill_service import environment
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, create_key
from tests.running.judge_process import JudgeProcess, judge_process, row
from tests.running.worker_service import WorkerService, is_alive, worker_service

pytestmark = pytest.mark.timeout(120)
EVALUATIONS = "/v1/evaluations"


class Served(NamedTuple):
    """A service with a judge, and a key of it."""

    service: WorkerService
    judge: JudgeProcess
    key: str


# Tests use it in their order: the last of them ends it.
@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("workers")
    key = create_key(folder / KEYS_FILE_NAME, "free", scopes=list(Scope))
    with judge_process(latency_seconds=0.5) as judge:
        variables = {
            **environment(judge.base_url, folder),
            "PLUMBLINE_CACHE_TTL_SECONDS": "60",
            "PLUMBLINE_CACHE_PATH": str(folder / "verdicts.sqlite"),
        }
        with worker_service(variables) as service:
            yield Served(service.wait_until_ready(), judge, key)


def sample_of(number: int) -> dict[str, Any]:
    sample = row(number)
    return {"id": sample.pop("custom_id"), **sample, "tiers": ["llm"]}


def both_workers(service: WorkerService, path: str, **headers: str) -> list[str]:
    """Return the bodies of requests that were sent until each worker had answered one."""
    bodies: list[str] = []
    before, until = len(service.workers_of(path)), time.monotonic() + 30
    while len(set(service.workers_of(path)[before:])) < 2:
        answer = service.get(path, **headers)
        assert answer.status_code == 200
        bodies.append(answer.text)
        assert time.monotonic() < until
    return bodies


def test_both_processes_answer_and_say_so_once_at_the_start(served: Served) -> None:
    both_workers(served.service, "/readyz")

    port = served.service.of("listening")[0]["port"]
    assert [line for line in served.service.lines if not line.startswith(("{", "plumbline: there is no key"))] == [
        f"Plumbline: http://127.0.0.1:{port}   API documentation: http://127.0.0.1:{port}/docs\n"
    ]
    assert len(set(served.service.pids())) == 2
    assert served.service.of("listening")[0]["workers"] == 2


def judge_calls_until_both_answered(served: Served, number: int) -> int:
    """Return how often the judge was asked about a sample until each worker had answered it."""
    before = len(served.service.workers_of(EVALUATIONS))
    answers = 0
    while len(set(served.service.workers_of(EVALUATIONS)[before:])) < 2 or answers < 4:
        assert served.service.post(EVALUATIONS, sample_of(number), served.key).json()["tier"] == "llm"
        answers += 1
        assert answers < 200
    return served.judge.calls_by_row()[number]


def test_a_verdict_is_cached_for_all_in_the_file_of_the_settings(served: Served) -> None:
    # The other worker may look before the file has the verdict; with a cache of its own it would ask each time.
    assert any(judge_calls_until_both_answered(served, number) == 1 for number in range(7_000, 7_005))


def test_metrics_are_those_of_all_whichever_process_is_asked(served: Served) -> None:
    key = {"Authorization": f"Bearer {served.key}"}
    sent = len(both_workers(served.service, "/version"))
    name = 'plumbline_http_requests_total{method="GET",route="/version",status="2xx"}'
    # A request is counted when its answer is out, so that the asker may be ahead of the count.
    served.service.wait_for(lambda: f"{name} {sent}.0" in served.service.get("/metrics", **key).text)

    pages = both_workers(served.service, "/metrics", **key)

    assert {line for page in pages for line in page.splitlines() if line.startswith(name)} == {f"{name} {sent}.0"}
    # The request that asks is in progress itself, and one before it may still be counted.
    assert all(re.search(r"^plumbline_http_requests_in_progress [1-9]", page, re.MULTILINE) for page in pages)
    assert all(page.count("process_resident_memory_bytes ") == 3 for page in pages)


def test_a_killed_process_is_replaced_and_no_later_request_is_lost(served: Served) -> None:
    service = served.service
    killed = service.pids()[-1]

    os.kill(killed, signal.SIGKILL)
    service.wait_for(lambda: not is_alive(killed))
    statuses = [service.get("/healthz").status_code for _ in range(30)]
    service.wait_for(lambda: len(service.pids()) == 3)
    both_workers(service, "/readyz")

    assert statuses == [200] * 30
    assert service.of(f"Child process [{killed}] died")


def test_sigterm_lets_requests_in_flight_end_and_leaves_no_process(served: Served) -> None:
    service, numbers = served.service, set(range(200, 208))

    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(service.post, EVALUATIONS, sample_of(number), served.key) for number in numbers]
        service.wait_for(lambda: numbers <= served.judge.calls_by_row().keys())
        code = service.end()
        answers = [each.result() for each in asking]

    assert code == 0
    assert [answer.json()["tier"] for answer in answers] == ["llm"] * 8
    assert not any(map(is_alive, service.pids()))


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with worker_service({"PLUMBLINE_WARM_UP": "false", "PLUMBLINE_DATA_DIR": str(tmp_path)}) as service:
        service.wait_until_ready()

        code = service.end(signal.SIGKILL)

        assert code == -signal.SIGKILL
        service.wait_for(lambda: not any(map(is_alive, service.pids())))


def test_a_worker_that_cannot_start_ends_the_service_with_one_line(tmp_path: Path) -> None:
    with worker_service(
        {"PLUMBLINE_CALIBRATION": "/nowhere/calibration.json", "PLUMBLINE_DATA_DIR": str(tmp_path)}
    ) as service:
        code = service.process.wait(60)
        service.end()

    assert code == 2
    assert [line for line in service.lines if not line.startswith("{")] == [
        "plumbline: /nowhere/calibration.json: cannot be read (No such file or directory)\n"
    ]


def test_workers_killed_before_any_serves_are_told_and_replaced(tmp_path: Path) -> None:
    with worker_service({"PLUMBLINE_WARM_UP": "false", "PLUMBLINE_DATA_DIR": str(tmp_path)}) as service:
        parent = service.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children")
        starting: list[int] = []
        while len(starting) < 2:
            starting = [
                int(pid)
                for pid in children.read_text().split()
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
        for pid in starting:
            os.kill(pid, signal.SIGKILL)

        answer = service.wait_until_ready().get("/healthz")
        service.end()

        assert answer.status_code == 200
        assert not {*starting} & {*service.pids()}
        assert all(service.of(f"Child process [{pid}] died") for pid in starting)
