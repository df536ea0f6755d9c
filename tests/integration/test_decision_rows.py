"""Rows judged by a decision model: by the service, as a batch, as a job and by `plumbline score`, on every page."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from plumbline.cli.main import main
from plumbline.main import create_app
from tests.contract.test_decision_judge import CONTEXTS, RIGHT, honest
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_decisions import decide
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.making.score_files import read_rows, score, write_rows
from tests.reading.report_html import Page
from tests.running.service import URL, served

CHINESE = ["青屿灯塔建于1887年，高41米。", "灯塔每年5月至9月对游客开放。"]
SAID = {"65米": ("supported", "c1"), "500 metres": ("supported", "c1"), "four railway": ("contradicted", "c1")}
# Contexts, answer, and what is decided of it.
CASES = [
    (CONTEXTS, RIGHT, True),
    (CONTEXTS, f"{RIGHT} It is 500 metres long.", None),
    (CONTEXTS, f"{RIGHT} It carries four railway tracks.", False),
    (CHINESE, "青屿灯塔建于1887年，高41米。", True),
    (CHINESE, "青屿灯塔建于1887年，高65米。", None),
] * 4
ROWS = [{"custom_id": f"q{at}", "contexts": contexts, "answer": said} for at, (contexts, said, _) in enumerate(CASES)]
OPTIONS = {"tiers": ["llm"]}
SHOWN = {"en": ("probability of support 0.96", "place found by code"), "zh": ("有依据的概率 0.96", "位置由代码找出")}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedJudge]:
    with running_judge() as judge:
        judge.reply_with(decide(honest(SAID)))
        llm = {"PROVIDER": "generic", "BASE_URL": judge.base_url, "MODEL": "judge-1", "API": "systemone"}
        price = {"judge-1": {"input": 1.0, "output": 0.0}}
        others = {
            "CACHE_TTL_SECONDS": "0",
            "WARM_UP": "false",
            "DATA_DIR": str(tmp_path),
            "LLM_PRICES": json.dumps(price),
        }
        for name, value in {**{f"LLM_{name}": value for name, value in llm.items()}, **others}.items():
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        yield judge


@pytest.fixture
def client(judge: ScriptedJudge) -> Iterator[httpx2.Client]:
    with served(create_app(encoder=WordEncoder())) as url, httpx2.Client(base_url=url, timeout=60) as client:
        client.headers["Origin"] = url
        yield client


def finished_job(client: httpx2.Client) -> str:
    job: str = client.post("/v1/jobs", json={"rows": ROWS, "options": OPTIONS}).json()["id"]
    while client.get(f"/v1/jobs/{job}").json()["ended_at"] is None:
        time.sleep(0.02)
    return job


def said(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without its name and its times."""
    kept = {name: value for name, value in result.items() if name not in ("id", "trace", "offset_unit")}
    return {**kept, "judge": result["trace"]["judge"], "cost": result["trace"]["usage"]["cost"]}


def test_a_run_killed_and_stopped_by_its_cost_says_what_the_service_a_batch_and_a_job_say(
    tmp_path: Path, judge: ScriptedJudge, client: httpx2.Client
) -> None:
    data, out = write_rows(tmp_path / "data.jsonl", ROWS), tmp_path / "out.jsonl"
    options = [str(data), "-o", str(out), "--tiers", "llm", "--quiet", "--concurrency", "1"]
    judge.reply_with(decide(honest(SAID), fault="slow"))
    process = subprocess.Popen([sys.executable, "-m", "plumbline.cli.main", "score", *options], env=os.environ.copy())
    partial, until = tmp_path / "out.jsonl.partial", time.monotonic() + 60
    while not (partial.exists() and partial.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < until
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = judge.calls
    judge.reply_with(decide(honest(SAID)))
    spent, stopped = score(*options, "--max-cost", "0.008"), judge.calls
    ended, calls = score(*options, "--max-cost", "9"), judge.calls
    single = [client.post(URL, json={**OPTIONS, "contexts": each[0], "answer": each[1]}).json() for each in CASES[:5]]
    batch = client.post(f"{URL}/batch", json={"samples": ROWS, "options": OPTIONS}).json()["results"]
    job = client.get(f"/v1/jobs/{finished_job(client)}/results").text.splitlines()

    assert (spent, ended) == (3, 0)
    # The answer to the call in flight at the kill was never read.
    assert 3 <= killed < stopped < 20 <= calls <= 21
    rows = [said(row["result"]) for row in read_rows(out)]
    assert [row["passed"] for row in rows] == [passed for *_, passed in CASES]
    prompts = {(row["judge"]["kind"], row["judge"]["prompt"]) for row in rows}
    assert prompts == {("systemone", "decide_claims/v1.en"), ("systemone", "decide_claims/v1.zh")}
    lines = sorted(map(json.loads, job), key=lambda line: int(line["row"]))
    assert [said(line["result"]) for line in lines] == [said(line["result"]) for line in batch] == rows
    assert [said(each) for each in single] == rows[:5]


@pytest.mark.parametrize("language", SHOWN)
def test_every_page_shows_probability_and_place(
    tmp_path: Path, judge: ScriptedJudge, client: httpx2.Client, language: str
) -> None:
    data, out, page = (str(tmp_path / name) for name in ("data.jsonl", "out.jsonl", "page.html"))
    write_rows(Path(data), ROWS[:5])
    assert score(data, "-o", out, "--tiers", "llm", "--quiet") == 0
    assert main(["report", out, "--data", data, "--lang", language, "-o", page]) == 0
    job, asked = finished_job(client), f"?lang={language}"

    pages = [
        Path(page).read_text(encoding="utf-8"),
        client.get(f"/runs/{job}/rows/1{asked}").text,
        client.get(f"/v1/jobs/{job}/report{asked}").text,
        client.post(f"/{asked}", data={"context": CONTEXTS, "answer": CASES[1][1]}).text,
    ]

    assert all(words in Page(each).text for each in pages for words in (*SHOWN[language], "500"))
