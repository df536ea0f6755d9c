"""Dashboard, rules and documentation speak of the metrics that there are, and promtool finds nothing wrong."""

import asyncio
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plumbline.ground.work_queue import WorkQueue
from plumbline.judging.ports.observation import JudgeCallRecord, RequestRecord
from plumbline.judging.ports.token_vectors import EncoderCounts
from plumbline.rows.jobs.job import NO_JOBS, JobStats
from plumbline.rows.jobs.store import JobStore
from plumbline.service.metrics.observer import Metrics
from tests.running.prometheus_server import DEPLOY, configuration, program

ROOT = DEPLOY.parent
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "plumbline.json").read_text(encoding="utf-8"))
RULES = (DEPLOY / "prometheus-rules.yml").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "how-to" / "observability.md").read_text(encoding="utf-8")
_METRIC = re.compile(r"\b(?:plumbline|process)_[a-z_]+[a-z]\b")
_KINDS = ("_bucket", "_count", "_sum")


class Counting:
    """An encoder and a store that have nothing to count."""

    def counts(self) -> EncoderCounts:
        return EncoderCounts()

    async def job_stats(self) -> JobStats:
        return NO_JOBS


@pytest.fixture(scope="module")
def samples() -> dict[str, set[str]]:
    """The labels of every metric on a page where everything has happened once."""
    metrics = Metrics(version="1", tiers=["llm"], row_statuses=["judged"])
    metrics.watch_encoder(Counting())
    metrics.watch_work({"model": WorkQueue(limit=1, characters_per_second=1.0)})
    with metrics.request(RequestRecord("GET", status=200)):
        for cost in (None, 0.5):
            with metrics.judge_call(JudgeCallRecord("generic", "m", "h", 1, has_left=True, cost=cost)):
                pass
    page = asyncio.run(metrics.page("", cast(JobStore, Counting())))[0].decode()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def names_in(text: str) -> set[str]:
    return set(_METRIC.findall(text))


def test_dashboard_and_rules_ask_for_metrics_that_there_are(samples: dict[str, set[str]]) -> None:
    asked = names_in(json.dumps(DASHBOARD)) | names_in(RULES)

    assert len(asked) > 25
    assert asked - set(samples) == set()


def test_queries_use_labels_that_their_metrics_have(samples: dict[str, set[str]]) -> None:
    scraped = {"job", "instance", "le"}
    selectors = re.findall(r"\b((?:plumbline|process)_[a-z_]+)\{([^}]*)\}", "\n".join(expressions()) + RULES)

    wrong = [
        (name, label)
        for name, inside in selectors
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside)
        if label not in samples[name] | scraped
    ]
    assert selectors
    assert wrong == []


def test_the_guide_lists_every_metric_with_its_labels_and_no_other(samples: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| `(plumbline_[a-z_]+)` \| ([a-z, ]*)\|", GUIDE, re.MULTILINE)
    listed = {name: set(re.findall(r"[a-z]+", labels)) for name, labels in rows}

    ours = {
        next((name.removesuffix(kind) for kind in _KINDS if name.endswith(kind)), name): labels - {"le"}
        for name, labels in sorted(samples.items(), reverse=True)
        if name.startswith("plumbline_")
    }
    assert listed == ours


def test_the_guide_explains_every_alert() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES)

    assert re.findall(r"^\| `(Plumbline\w+)` \|", GUIDE, re.MULTILINE) == alerts


def test_panels_have_places_and_numbers_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    places = [panel["gridPos"] for panel in panels]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(place["x"] + place["w"] <= 24 for place in places)
    overlaps = [
        (one, other)
        for one, other in itertools.combinations(places, 2)
        if one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    ]
    assert overlaps == []


def test_panels_take_what_was_chosen_above_them() -> None:
    known = {each["name"] for each in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))

    assert {"datasource", "job", "instance", "route"} <= used <= known
    assert [each for each in expressions() if 'job=~"$job"' not in each] == []


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    promtool = program("promtool")
    config = configuration(tmp_path, target="127.0.0.1:8000", key="k")

    done = subprocess.run([promtool, "check", "config", config], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{RULES.count('- alert:')} rules found" in done.stdout


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    promtool = program("promtool")
    shutil.copy(DEPLOY / "prometheus-rules.yml", tmp_path)
    shutil.copy(ROOT / "tests" / "data" / "prometheus_rules_test.yml", tmp_path)

    command = [promtool, "test", "rules", str(tmp_path / "prometheus_rules_test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def expressions() -> list[str]:
    """Every query of the dashboard."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
