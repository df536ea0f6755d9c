"""Measure the live service under hostile texts: python -m benchmarks.fuzz.endpoints [--fields NAMES] [--families NAMES]

Each text field of every endpoint, and the reply of a judge, with 40 families of hostile texts (`families`), from a
thousandth of the field's limit to the limit, ten times as long each. A process asks for /healthz all the while; judge
and client run at a lower priority than it and the service. For each
field: the steepest growth of the service's CPU seconds, log10 of their ratio, of steps that end above a fifth of a
second (a steep one is sent again, and the fewest seconds count); the longest answer beyond its deadline; the 99th
percentile and the longest of /healthz, from an idle service beside it.
Linux. Last line JSON. Exit status 1 when a step is steeper than 1.1, an answer comes half a second after its deadline,
or /healthz takes over 50 ms, all three told with the family.
"""

import argparse
import asyncio
import http.client
import json
import math
import os
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.fuzz.families import FAMILIES
from benchmarks.service_process import ServiceProcess, running_service
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion
from tests.running.judge_process import served_apart

CHOSEN = (
    "one word", "full stops", "Chinese full stops", "blanks", "lines", "digits", "Han numerals", "words",
    "short sentences", "Chinese sentences", "opened", "quotes", "apostrophes", "bold", "hash lines", "bar lines",
    "rule lines", "growing fences", "quoted lines", "list", "citations", "links", "comments", "torn entities",
    "ellipses apart", "initials", "exclamations", "numeric dates", "Chinese dates", "units", "marks of one letter",
    "zero width", "arrays", "strings", "fenced JSON", "run lines", "chat tags", "thoughts", "distinct words",
    "distinct amounts",
)  # fmt: skip
_DECADES = 3
DEADLINE_SECONDS = 5.0
_LATE_SECONDS = 0.5
_STEEPEST = 1.1
_HELD_MS = 50.0
# Below it, ticks of the clock and a busy machine say more than the text.
_TELLING_SECONDS = 0.2
# A step that looks steep is sent again: what else runs on the machine can only add to the seconds.
_TRIES = 4
# The smaller one is sent as often then: the clock of a process has ticks of 10 ms.
_TIMES = 10
_PROBE_SECONDS = 0.004
# Judge and client give way: where they share the cores, /healthz would tell of them.
_NICE = 10
_METRICS = ("answer_relevance", "context_precision@5", "context_recall", "correctness", "noise_sensitivity")
_ENDED = ("completed", "completed_with_errors", "failed")
_CONTEXT = "The Marlow Bridge was opened in 1931."
_ANSWER = "It was opened in 1931. It is 40 metres long."


@dataclass(frozen=True, slots=True)
class Field:
    """A field with its limit in bytes; `request` makes path, type and body of its text."""

    limit: int
    request: Callable[[str], tuple[str, str, bytes]]
    has_deadline: bool = True


def _evaluation(tier: str, name: str) -> Callable[[str], tuple[str, str, bytes]]:
    def request(text: str) -> tuple[str, str, bytes]:
        given = [text] if name == "contexts" else text
        body = {"question": "When?", "contexts": [_CONTEXT], "answer": _ANSWER, name: given}
        options = {"tiers": [tier], "deadline_seconds": DEADLINE_SECONDS}
        return "/v1/evaluations", "application/json", json.dumps({**body, **options}).encode()

    return request


def _conversation(text: str) -> tuple[str, str, bytes]:
    messages = [{"role": "user", "content": "When?"}, {"role": "tool", "content": text}]
    body = {"messages": [*messages, {"role": "assistant", "content": _ANSWER}], "tiers": ["lexical"]}
    return "/v1/evaluations", "application/json", json.dumps({**body, "deadline_seconds": DEADLINE_SECONDS}).encode()


def _metrics(name: str) -> Callable[[str], tuple[str, str, bytes]]:
    def request(text: str) -> tuple[str, str, bytes]:
        path, kind, body = _evaluation("lexical", name)(text)
        sample = {"reference": _ANSWER, **json.loads(body), "metrics": _METRICS}
        return path, kind, json.dumps(sample).encode()

    return request


def _job(text: str) -> tuple[str, str, bytes]:
    rows = [{"question": "When?", "contexts": [text], "answer": _ANSWER}]
    return "/v1/jobs", "application/json", json.dumps({"rows": rows, "options": {"tiers": ["lexical"]}}).encode()


def _batch(text: str) -> tuple[str, str, bytes]:
    sample = {"custom_id": "a", "contexts": [text], "answer": _ANSWER}
    options = {"tiers": ["lexical"], "deadline_seconds": DEADLINE_SECONDS}
    body = {"samples": [sample], "options": options, "format": "ndjson"}
    return "/v1/evaluations/batch", "application/json", json.dumps(body).encode()


def _retrieval(path: str, body: Mapping[str, Any]) -> tuple[str, str, bytes]:
    return f"/v1/retrieval/{path}", "application/json", json.dumps(body).encode()


def _outputs(text: str) -> tuple[str, str, bytes]:
    return _retrieval("rankings", {"outputs": {"q": text}, "candidates": {"q": ["d1", "d2", "1"]}})


def _ids(path: str, **more: object) -> Callable[[str], tuple[str, str, bytes]]:
    def request(text: str) -> tuple[str, str, bytes]:
        ids = list(dict.fromkeys(text.split()))[:100_000] or ["d1"]
        runs = [{"name": name, "results": {"q": ids}} for name in ("a", "b")]
        return _retrieval(path, {"qrels": {"q": {"d1": 1}}, "runs": runs, **more})

    return request


def _form(file: str) -> Callable[[str], tuple[str, str, bytes]]:
    def request(text: str) -> tuple[str, str, bytes]:
        mark = uuid.uuid4().hex
        parts = {"qrels": "q 0 d 1\n", "run": "q Q0 d 1 1 t\n", file: text}
        lines = [
            f'--{mark}\r\ncontent-disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n{value}\r\n'
            for name, value in parts.items()
        ]
        body = "".join([*lines, f"--{mark}--\r\n"]).encode("utf-8", "replace")
        return "/v1/retrieval/evaluations", f"multipart/form-data; boundary={mark}", body

    return request


FIELDS = {
    "lexical question": Field(10_000, _evaluation("lexical", "question")),
    "lexical answer": Field(50_000, _evaluation("lexical", "answer")),
    "lexical contexts": Field(1_000_000, _evaluation("lexical", "contexts")),
    "lexical reference": Field(50_000, _evaluation("lexical", "reference")),
    "llm question": Field(10_000, _evaluation("llm", "question")),
    "llm answer": Field(50_000, _evaluation("llm", "answer")),
    "llm contexts": Field(1_000_000, _evaluation("llm", "contexts")),
    "llm reply": Field(1_000_000, _evaluation("llm", "question")),
    "batch contexts": Field(1_000_000, _batch),
    "conversation results of tools": Field(1_000_000, _conversation),
    "metrics contexts": Field(1_000_000, _metrics("contexts")),
    "metrics reference": Field(50_000, _metrics("reference")),
    "job contexts": Field(1_000_000, _job, has_deadline=False),
    "retrieval run file": Field(1_000_000, _form("run"), has_deadline=False),
    "retrieval qrels file": Field(1_000_000, _form("qrels"), has_deadline=False),
    "retrieval outputs": Field(200_000, _outputs, has_deadline=False),
    "retrieval ids": Field(1_000_000, _ids("evaluations", measures=["ndcg@10"]), has_deadline=False),
    "comparison ids": Field(1_000_000, _ids("comparisons", measures=["ndcg@10"]), has_deadline=False),
    "fusion ids": Field(1_000_000, _ids("fusions"), has_deadline=False),
}


@dataclass(slots=True)
class Measured:
    """Worst measurements of a field, each with its family and size."""

    steepest: tuple[float, str] = (0.0, "")
    latest: tuple[float, str] = (-math.inf, "")
    slowest: tuple[float, str] = (0.0, "")
    held_ms: list[tuple[float, str]] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    def held(self, share: float) -> tuple[float, str]:
        """The time that this share of the probes did not exceed."""
        ordered = sorted(self.held_ms)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else (0.0, "")


def _probe(pipe: Connection, address: str) -> None:
    """Poll /healthz; on "fetch", send the response times since the last one, in milliseconds."""
    connection = http.client.HTTPConnection(address, timeout=120)
    taken: list[float] = []
    while True:
        if pipe.poll(_PROBE_SECONDS):
            if pipe.recv() == "end":
                return
            pipe.send(taken)
            taken = []
        started = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        taken.append((time.perf_counter() - started) * 1_000)


def _fetch(prober: Connection) -> list[float]:
    prober.send("fetch")
    taken: list[float] = prober.recv()
    return taken


def _serve(pipe: Connection) -> None:
    """A judge that answers with the text that it was told last, and with a support of everything before."""
    os.nice(_NICE)

    async def run() -> None:
        content = json.dumps(
            {"sentences": [{"id": n, "claims": [{"verdict": "supported", "quotes": [_CONTEXT]}]} for n in range(1, 3)]}
        )

        def step(_: RecordedRequest) -> Step:
            judge.requests.clear()
            return completion(content)

        async with ScriptedJudge() as judge:
            judge.reply_with(step)
            pipe.send(judge.base_url)
            while (told := await asyncio.to_thread(pipe.recv)) != "end":
                content = told
                pipe.send("told")

    asyncio.run(run())


def measure(
    name: str, families: Sequence[str], service: ServiceProcess, judge: Connection, prober: Connection
) -> Measured:
    """Send every family at every size that the field takes."""
    chosen, found = FIELDS[name], Measured()
    address = service.base_url.removeprefix("http://")
    for family in families:
        texts = [FAMILIES[family](chosen.limit // 10**power)[: chosen.limit] for power in range(_DECADES, -1, -1)]

        def spent(text: str, *, family: str = family) -> float:
            """Send the text; return the CPU seconds of the service."""
            where = f"{family} {len(text)}"
            if name == "llm reply":
                judge.send(text)
                judge.recv()
                text = f"When? {where}"
            path, kind, body = chosen.request(text)
            _fetch(prober)
            cpu, started = service.cpu_seconds(), time.perf_counter()
            connection = http.client.HTTPConnection(address, timeout=300)
            connection.request("POST", path, body, {"content-type": kind})
            answer = connection.getresponse()
            said = answer.read()
            while path == "/v1/jobs" and json.loads(said)["status"] not in _ENDED:
                time.sleep(0.02)
                connection.request("GET", f"/v1/jobs/{json.loads(said)['id']}")
                said = connection.getresponse().read()
            taken, used = time.perf_counter() - started, service.cpu_seconds() - cpu
            connection.close()
            found.statuses[answer.status] = found.statuses.get(answer.status, 0) + 1
            found.held_ms += [(each, where) for each in _fetch(prober)]
            found.slowest = max(found.slowest, (taken, where))
            if chosen.has_deadline:
                found.latest = max(found.latest, (taken - DEADLINE_SECONDS, where))
            return used

        before = spent(texts[0])
        for smaller, larger in pairwise(texts):
            after = spent(larger)
            for tried in range(_TRIES + 1):
                growth = math.log10(max(after, 0.01) / max(before, 0.01))
                if after <= _TELLING_SECONDS or growth <= _STEEPEST or tried == _TRIES:
                    break
                before, after = sum(spent(smaller) for _ in range(_TIMES)) / _TIMES, min(after, spent(larger))
            if after > _TELLING_SECONDS:
                found.steepest = max(found.steepest, (growth, f"{family} {len(larger)}: {after:.2f} s"))
            before = after
    return found


@contextmanager
def hostile_service() -> Iterator[tuple[ServiceProcess, Connection, Connection]]:
    """The service with its judge, and the prober at work."""
    with served_apart(_serve) as pipe:
        knobs = {
            "PLUMBLINE_LLM_PROVIDER": "generic",
            "PLUMBLINE_LLM_MODEL": "judge-1",
            "PLUMBLINE_LLM_BASE_URL": pipe.recv(),
            "PLUMBLINE_LLM_CONTEXT_TOKENS": "1000000",
            "PLUMBLINE_WARM_UP": "false",
            "PLUMBLINE_CACHE_TTL_SECONDS": "0",
            "PLUMBLINE_LOG_LEVEL": "ERROR",
        }
        with (
            running_service(knobs, needs_model=False) as service,
            served_apart(_probe, service.base_url.removeprefix("http://")) as prober,
        ):
            os.nice(_NICE)
            yield service, pipe, prober


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fields", help="separated by semicolons (default: all)")
    parser.add_argument("--families", help="separated by semicolons (default: the 40 of this file)")
    options = parser.parse_args()
    names = options.fields.split(";") if options.fields else list(FIELDS)
    families = options.families.split(";") if options.families else list(CHOSEN)
    for unknown in {*names} - {*FIELDS} | {*families} - {*FAMILIES}:
        parser.error(f"{unknown!r} is no field or family; fields are {', '.join(FIELDS)}")
    faults: list[str] = []
    figures: dict[str, object] = {}
    with hostile_service() as (service, judge, prober):
        time.sleep(2)
        idle = statistics.quantiles(_fetch(prober), n=100)[-1]
        print(f"idle: /healthz p99 {idle:.0f} ms\n\n| field | growth | after deadline s | p99 ms | max ms | answers |")
        print("|---|---|---|---|---|---|")
        for name in names:
            found = measure(name, families, service, judge, prober)
            (p99, _), (most, where) = found.held(0.99), found.held(1.0)
            late = f"{found.latest[0]:.2f} ({found.latest[1]})" if FIELDS[name].has_deadline else "-"
            growth = f"{found.steepest[0]:.2f} ({found.steepest[1]})"
            print(f"| {name} | {growth} | {late} | {p99:.0f} | {most:.0f} ({where}) | {found.statuses} |", flush=True)
            faults += [f"{name}: growth {growth}"] * (found.steepest[0] > _STEEPEST)
            faults += [f"{name}: late by {late}"] * (found.latest[0] > _LATE_SECONDS)
            faults += [f"{name}: /healthz p99 {p99:.0f} ms"] * (p99 > _HELD_MS)
            figures[name] = {"growth": found.steepest, "late": found.latest[0], "p99": p99, "slowest": found.slowest}
    print("\n".join(["", *faults]))
    print(json.dumps(figures))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
