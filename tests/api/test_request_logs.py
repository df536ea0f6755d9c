"""Every line that is logged for a request names it: at the edge, in tiers, around calls to a judge, and in threads."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from plumbline.ground.concurrency import Threads
from plumbline.ground.telemetry import configure_logging
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import openai_error
from tests.making.planted_requests import PlantedEncoder
from tests.running.service import URL, judge_settings, plain_settings, running

CONTEXT = "The Marlow Bridge was opened in 1931."
SAMPLE: dict[str, Any] = {"contexts": [CONTEXT], "answer": CONTEXT}


def lines_of(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was logged, line by line: each one JSON."""
    return [json.loads(line) for line in capfd.readouterr().err.splitlines()]


async def test_lines_from_tiers_calls_and_threads_name_their_request(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # What is no database cannot keep verdicts: its thread complains. A wrong key shuts the judge.
    verdicts = tmp_path / "verdicts"
    verdicts.write_bytes(b"no database" * 1_000)
    judge.reply_with(openai_error(401, "invalid_api_key"))
    configure_logging("DEBUG")
    async with running(judge_settings(judge, cache_path=verdicts)) as client:
        lines_of(capfd)
        await client.post(URL, json=SAMPLE, headers={"X-Request-ID": "first"})
        first = lines_of(capfd)
        await client.post(URL, json=SAMPLE, headers={"X-Request-ID": "second"})
        second = lines_of(capfd)

    ours = [line for line in first if "event" in line and line.get("level") != "debug"]
    assert {line["event"] for line in ours} == {
        "verdict_store_failed",
        "judge_shut",
        "tier_failed",
        "request_completed",
    }
    assert {line.get("request_id") for line in ours} == {"first"}
    assert {line.get("request_id") for line in second if line.get("level") != "debug"} == {"second"}


async def test_a_failure_of_ours_names_its_request(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging("INFO")
    async with running(plain_settings(), encoder=PlantedEncoder()) as client:
        lines_of(capfd)
        await client.post(URL, json=SAMPLE, headers={"X-Request-ID": "mine"})
        found = lines_of(capfd)

    assert {line["event"] for line in found} == {"request_failed", "request_completed"}
    assert {line["request_id"] for line in found} == {"mine"}


async def test_requests_under_way_together_are_not_confused(
    judge: ScriptedJudge, capfd: pytest.CaptureFixture[str]
) -> None:
    judge.reply_with(openai_error(400, "data_inspection_failed"))
    configure_logging("INFO")
    names = [f"request-{n}" for n in range(8)]
    async with running(judge_settings(judge)) as client:
        lines_of(capfd)
        answers = [{"contexts": [CONTEXT], "answer": f"{CONTEXT} It has {n} arches."} for n in range(8)]
        await asyncio.gather(
            *(
                client.post(URL, json=sample, headers={"X-Request-ID": name})
                for sample, name in zip(answers, names, strict=True)
            )
        )
        found = lines_of(capfd)

    by_event = {event: [line["request_id"] for line in found if line["event"] == event] for event in
                ("tier_failed", "request_completed")}  # fmt: skip
    assert sorted(by_event["tier_failed"]) == sorted(by_event["request_completed"]) == names


async def test_work_in_a_thread_sees_what_its_request_has_bound() -> None:
    threads = Threads(max_workers=1)
    loop = asyncio.get_running_loop()

    async def bound(name: str) -> object:
        with structlog.contextvars.bound_contextvars(request_id=name):
            found = await loop.run_in_executor(threads, structlog.contextvars.get_contextvars)
        return found["request_id"]

    names = await asyncio.gather(*(bound(name) for name in "abc"))
    unbound = await loop.run_in_executor(threads, structlog.contextvars.get_contextvars)
    threads.shutdown()

    assert names == ["a", "b", "c"]
    assert unbound == {}


async def test_lines_are_json_whatever_a_library_logs(capfd: pytest.CaptureFixture[str]) -> None:
    import logging

    configure_logging("INFO")
    with structlog.contextvars.bound_contextvars(request_id="mine"):
        logging.getLogger("a.library").warning("over\ntwo lines %s", {"a": 1})
        structlog.get_logger().info("of_ours", text='quoted "as" is')
    first, second = lines_of(capfd)

    assert (first["event"], first["request_id"], first["level"]) == ("over\ntwo lines {'a': 1}", "mine", "warning")
    assert (second["event"], second["request_id"], second["level"]) == ("of_ours", "mine", "info")
