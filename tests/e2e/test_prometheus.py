"""A real Prometheus scrapes the service under traffic on all tiers, and every panel of the dashboard shows data."""

import json
import math
import time
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr

from plumbline.ground.judge_settings import ModelPrice
from plumbline.main import create_app
from plumbline.models.encoder.encoder import SharedEncoder
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import completion, openai_error
from tests.running.job_service import JOBS_URL, row
from tests.running.prometheus_server import DEPLOY, Prometheus, program, prometheus
from tests.running.service import URL, claim, judge_settings, served, verdicts

KEY = "key-of-a-prometheus"
CONTEXT = "The Marlow Bridge was opened in 1931."
GOOD = completion(verdicts([claim(CONTEXT, "supported", CONTEXT)]), usage=(100, 20))
DASHBOARD = json.loads((DEPLOY / "grafana" / "plumbline.json").read_text(encoding="utf-8"))
# What Grafana puts in: an interval of several scrapes, and everything that can be chosen.
CHOSEN = {"$__rate_interval": "30s", "$job": ".+", "$instance": ".+", "$route": ".+"}


def expressions() -> list[tuple[str, str]]:
    """Each panel's title with each of its queries."""
    found = []
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, chosen in CHOSEN.items():
                expression = expression.replace(name, chosen)
            found.append((panel["title"], expression))
    return found


def test_every_panel_shows_what_a_real_prometheus_has_scraped(real_encoder: SharedEncoder, tmp_path: Path) -> None:
    program("prometheus")
    with running_judge() as judge:
        settings = judge_settings(
            judge,
            api_keys=(SecretStr(KEY),),
            llm_prices={"judge-1": ModelPrice(input=10.0, output=100.0)},
            data_dir=tmp_path / "jobs",
            deadline_seconds=60,
        )
        app = create_app(settings, encoder=real_encoder)
        with served(app) as url, prometheus(tmp_path, target=url.removeprefix("http://"), key=KEY) as server:
            # A rate needs an increase between two scrapes of the same series.
            for round_ in range(2):
                with httpx2.Client(base_url=url, headers={"X-API-Key": KEY}, trust_env=False, timeout=60) as client:
                    traffic(client, judge, round_)
                server.until('sum(plumbline_tier_attempts_total{tier="llm"})', 4 * (round_ + 1))
            server.until("sum(plumbline_jobs)", 2)
            found = {query: shown(server, query) for query in expressions()}
            rules = settled(server)

    assert [query for query, values in found.items() if not values] == []
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    assert [rule["name"] for rule in rules if rule["name"] == "PlumblineDown" and rule["state"] != "inactive"] == []


def traffic(client: httpx2.Client, judge: ScriptedJudge, round_: int) -> None:
    """Something of everything: each tier, the cache, a fallback, errors, a job."""
    judge.reply_with(GOOD)
    sample: dict[str, Any] = {"contexts": [CONTEXT, f"It has {round_} arches."], "answer": CONTEXT}
    assert [score(client, sample) for _ in range(2)] == ["llm", "llm"]
    judge.reply_with(openai_error(400, "data_inspection_failed"))
    assert score(client, {**sample, "question": "When?"}) == "embedding"
    assert score(client, {**sample, "tiers": ["lexical"]}) == "lexical"
    assert client.post(URL, json={"answer": 7}).status_code == 422
    assert client.get("/nothing").status_code == 404
    job = client.post(JOBS_URL, json={"rows": [row("a"), {"answer": 7}], "options": {}}).json()
    while client.get(f"{JOBS_URL}/{job['id']}").json()["ended_at"] is None:
        time.sleep(0.05)


def score(client: httpx2.Client, sample: dict[str, Any]) -> str:
    """The tier that answered."""
    response = client.post(URL, json=sample)
    assert response.status_code == 200, response.text
    return str(response.json()["tier"])


def shown(server: Prometheus, query: tuple[str, str]) -> list[float]:
    """What a panel can draw."""
    values = [float(each["value"][1]) for each in server.query(query[1])]
    return [value for value in values if math.isfinite(value)]


def settled(server: Prometheus) -> list[dict[str, Any]]:
    """The rules, once each was evaluated."""
    while not (rules := server.rules()) or any(rule["health"] == "unknown" for rule in rules):
        time.sleep(0.05)
    return rules
