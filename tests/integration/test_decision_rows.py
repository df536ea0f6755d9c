"""Rows judged by a decision model: by the service, as a batch, as a job and by `plumbline score`, on every page."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from plumbline.cli.main import main
from plumbline.main import create_app
from tests.contract.test_decision_judge import CONTEXTS, RIGHT, honest
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_decisions import AskedQuestion, decide, edited
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.making.score_files import read_rows, score, write_rows
from tests.reading.report_html import Page
from tests.running.service import URL, served

CHINESE = ["青屿灯塔建于1887年，高41米。", "灯塔每年5月至9月对游客开放。"]
SAID = {"65米": ("supported", "c1"), "500 metres": ("supported", "c1"), "four railway": ("contradicted", "c1")}
SAMPLES = [
    {"contexts": CONTEXTS, "answer": RIGHT},
    {"contexts": CONTEXTS, "answer": f"{RIGHT} It is 500 metres long."},
    {"contexts": CONTEXTS, "answer": f"{RIGHT} It carries four railway tracks."},
    {"contexts": CHINESE, "answer": "青屿灯塔建于1887年，高41米。"},
    {"contexts": CHINESE, "answer": "青屿灯塔建于1887年，高65米。"},
]
PASSED = [True, None, False, True, None]
ROWS = [{"custom_id": f"q{at}", "question": "", **SAMPLES[at % len(SAMPLES)]} for at in range(20)]
PROBABILITY = {
    "en": ("probability of support 0.96", "place found by code"),
    "zh": ("有依据的概率 0.96", "位置由代码找出"),
}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedJudge]:
    with running_judge() as judge:
        judge.reply_with(decide(honest(SAID)))
        for name, value in {
            "LLM_PROVIDER": "generic",
            "LLM_BASE_URL": judge.base_url,
            "LLM_MODEL": "judge-1",
            "LLM_API": "systemone",
            "LLM_PRICES": json.dumps({"judge-1": {"input": 1.0, "output": 0.0}}),
            "CACHE_TTL_SECONDS": "0",
            "WARM_UP": "false",
            "DATA_DIR": str(tmp_path / "data"),
        }.items():
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        yield judge


def said(result: dict[str, Any]) -> dict[str, Any]:
    """What a result says, without its name and how long it took."""
    return {name: value for name, value in result.items() if name not in ("id", "trace", "offset_unit")} | {
        "judge": result["trace"]["judge"],
        "cost": result["trace"]["usage"]["cost"],
    }


def scored_when_killed(data: Path, out: Path, judge: ScriptedJudge) -> int:
    """The calls until a run with these rows was killed."""

    def late(body: dict[str, Any], _: Sequence[AskedQuestion]) -> dict[str, Any]:
        time.sleep(0.05)
        return body

    judge.reply_with(edited(honest(SAID), late))
    command = [
        sys.executable,
        "-m",
        "plumbline.cli.main",
        "score",
        str(data),
        "-o",
        str(out),
        "--tiers",
        "llm",
        "--quiet",
    ]
    process = subprocess.Popen([*command, "--concurrency", "1"], env=os.environ.copy())
    partial, until = out.with_name(f"{out.name}.partial"), time.monotonic() + 60
    while not (partial.exists() and partial.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    judge.reply_with(decide(honest(SAID)))
    return judge.calls


def test_a_run_killed_and_stopped_by_its_cost_says_what_the_service_a_batch_and_a_job_say(
    tmp_path: Path, judge: ScriptedJudge
) -> None:
    data, out = write_rows(tmp_path / "data.jsonl", ROWS), tmp_path / "out.jsonl"
    options = ("-o", out, "--tiers", "llm", "--quiet", "--concurrency", "2")

    killed = scored_when_killed(data, out, judge)
    spent = score(data, *options, "--max-cost", "0.005")
    stopped = judge.calls
    ended = score(data, *options, "--max-cost", "9")

    assert (spent, ended) == (3, 0)
    # Of the call that was under way nobody read the answer.
    assert 3 <= killed < stopped < 20 <= judge.calls <= 21
    rows = [said(row["result"]) for row in read_rows(out)]
    assert [row["passed"] for row in rows] == PASSED * 4
    assert {row["judge"]["kind"] for row in rows} == {"systemone"}
    with served(create_app(encoder=WordEncoder())) as url, httpx2.Client(base_url=url, timeout=60) as client:
        ask = {"tiers": ["llm"]}
        single = [client.post(URL, json={**sample, **ask}).json() for sample in SAMPLES]
        batch = client.post(
            f"{URL}/batch", json={"samples": ROWS, "options": ask, "format": "ndjson"}
        ).text.splitlines()
        job = client.post("/v1/jobs", json={"rows": ROWS, "options": ask}).json()["id"]
        while client.get(f"/v1/jobs/{job}").json()["ended_at"] is None:
            time.sleep(0.02)
        results = client.get(f"/v1/jobs/{job}/results").text.splitlines()

    lines = [
        sorted(map(json.loads, each), key=lambda line: int(line["custom_id"][1:])) for each in (batch[:-1], results)
    ]
    assert [[said(line["result"]) for line in each] for each in lines] == [rows, rows]
    assert [said(each) for each in single] == rows[: len(SAMPLES)]


def test_every_page_shows_probability_and_place(tmp_path: Path, judge: ScriptedJudge) -> None:
    data, out = write_rows(tmp_path / "data.jsonl", ROWS[:5]), tmp_path / "out.jsonl"
    assert score(data, "-o", out, "--tiers", "llm", "--quiet") == 0
    pages: dict[str, list[str]] = {}
    for language in PROBABILITY:
        html = tmp_path / f"{language}.html"
        assert main(["report", str(out), "--data", str(data), "--lang", language, "-o", str(html)]) == 0
        pages[language] = [html.read_text(encoding="utf-8")]
    with served(create_app(encoder=WordEncoder())) as url, httpx2.Client(base_url=url, timeout=60) as client:
        headers = {"Origin": url}
        job = client.post("/v1/jobs", json={"rows": ROWS[:5], "options": {"tiers": ["llm"]}}).json()["id"]
        while client.get(f"/v1/jobs/{job}").json()["ended_at"] is None:
            time.sleep(0.02)
        for language, shown in pages.items():
            form = {"context": CONTEXTS, "answer": SAMPLES[1]["answer"], "lang": language}
            shown += [
                client.get(f"/runs/{job}/rows/1?lang={language}").text,
                client.get(f"/v1/jobs/{job}/report?lang={language}").text,
                client.post(f"/?lang={language}", data=form, headers=headers).text,
            ]

    for language, shown in pages.items():
        for page in shown:
            text = Page(page).text
            assert all(words in text for words in PROBABILITY[language]), text[:2_000]
            assert "500" in text
