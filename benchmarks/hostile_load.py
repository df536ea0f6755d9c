"""Honest requests and attacks at one time, in an order that a seed decides, each answer held against what is right."""

import asyncio
import gzip
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from benchmarks.hostile_requests import Attack
from benchmarks.hostile_talk import attacked, wrong_problem
from plumbline.service.api.openapi import (
    COMPARISON_EXAMPLES,
    FUSION_EXAMPLES,
    RANKING_EXAMPLES,
    RETRIEVAL_EXAMPLES,
)

# Enough to fill caches with all of them before the memory is first looked at.
_SAMPLES = 300
_BATCH_ROWS, _JOB_ROWS = 6, 4
# Less than the service keeps a connection, so that none is closed as it is used.
_KEPT_SECONDS = 2.0
# Of a hundred steps of honest callers; a job is seven requests.
_SHARES = {
    "evaluation": 42,
    "evaluation as gzip": 4,
    "batch": 9,
    "job": 3,
    "retrieval": 9,
    "retrieval from files": 5,
    "comparison": 5,
    "fusion": 5,
    "rankings": 4,
    "health": 6,
    "readiness": 4,
    "metrics": 4,
}
_PROBES = {"health": "/healthz", "readiness": "/readyz", "metrics": "/metrics"}


@dataclass(slots=True)
class Tally:
    """What was sent by kind, how often, and the first of what was wrong of each."""

    sent: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, wrong: str) -> None:
        """Counts one; `wrong` is empty where the answer was right."""
        self.sent[name] += 1
        if wrong:
            self.wrong[name] += 1
            self.first.setdefault(name, wrong)


class Mixture:
    """Requests to one service, one in ten of them an attack.

    Args:
        hostile: attacks to choose from.
        tiers: those that evaluations ask for by turns.
        hostile_share: of all requests.
    """

    def __init__(
        self, port: int, key: str, hostile: list[Attack], tiers: list[str], *, seed: int, hostile_share: float = 0.1
    ) -> None:
        self.tally = Tally()
        self._port, self._tiers, self._share = port, tiers, hostile_share
        self._chance = random.Random(seed)  # noqa: S311
        self._attacks = _endless(hostile, self._chance)
        self._url, self._key = f"http://127.0.0.1:{port}", key
        self._left = 0

    async def run(self, requests: int, *, concurrency: int, each: Callable[[int], None] = lambda _: None) -> None:
        """So many requests; `each` is told how many were sent."""
        self._left = requests
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=concurrency, keepalive_expiry=_KEPT_SECONDS
        )
        headers = {"authorization": f"Bearer {self._key}"}
        async with httpx2.AsyncClient(base_url=self._url, headers=headers, limits=limits, timeout=120) as client:

            async def caller() -> None:
                while self._left > 0:
                    async for name, wrong in self._step(client):
                        self._left -= 1
                        self.tally.add(name, wrong)
                        each(self.tally.sent.total())

            await asyncio.gather(*(caller() for _ in range(concurrency)))

    async def _step(self, client: httpx2.AsyncClient) -> AsyncIterator[tuple[str, str]]:
        # A step of honest callers is 1.18 requests on average, for the jobs among them.
        if self._chance.random() < self._share * 1.18:
            attack = next(self._attacks)
            yield f"! {attack.name}", await attacked(self._port, attack)
            return
        (kind,) = self._chance.choices(list(_SHARES), list(_SHARES.values()))
        if kind == "job":
            async for told in self._job(client):
                yield told
        else:
            yield kind, await _held(self._honest(client, kind), 200)

    def _honest(self, client: httpx2.AsyncClient, kind: str) -> Awaitable[httpx2.Response]:
        tiers = [self._chance.choice(self._tiers)]
        sample = {**_sample(self._chance.randrange(_SAMPLES)), "tiers": tiers}
        if kind == "evaluation as gzip":
            content = gzip.compress(json.dumps(sample).encode())
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            return client.post("/v1/evaluations", content=content, headers=headers)
        if kind == "retrieval from files":
            return client.post("/v1/retrieval/evaluations", files=_trec(self._chance.random() < 0.5))
        if kind in _PROBES:
            return client.get(_PROBES[kind])
        rows = [{**_sample(number), "custom_id": str(number)} for number in self._numbers(_BATCH_ROWS)]
        path, body = {
            "evaluation": ("/v1/evaluations", sample),
            "batch": ("/v1/evaluations/batch", {"samples": rows, "options": {"tiers": tiers}, "format": "ndjson"}),
            "retrieval": ("/v1/retrieval/evaluations", self._example(RETRIEVAL_EXAMPLES)),
            "comparison": ("/v1/retrieval/comparisons", self._example(COMPARISON_EXAMPLES)),
            "fusion": ("/v1/retrieval/fusions", self._example(FUSION_EXAMPLES)),
            "rankings": ("/v1/retrieval/rankings", self._example(RANKING_EXAMPLES)),
        }[kind]
        return client.post(path, json=body)

    def _numbers(self, count: int) -> list[int]:
        return self._chance.sample(range(_SAMPLES), count)

    def _example(self, examples: dict[str, Any]) -> Any:
        return self._chance.choice(list(examples.values()))["value"]

    async def _job(self, client: httpx2.AsyncClient) -> AsyncIterator[tuple[str, str]]:
        """A job's life: made, looked at, read, listed, cancelled, forgotten, and not there any more."""
        rows = "".join(
            json.dumps({**_sample(number), "custom_id": str(number)}) + "\n" for number in self._numbers(_JOB_ROWS)
        )
        choices = json.dumps({"options": {"tiers": [self._chance.choice(self._tiers)]}})
        headers = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/jobs", content=rows, params={"choices": choices}, headers=headers)
        yield "job made", "" if made.status_code == 202 else f"{made.status_code} {made.text[:200]}"
        if made.status_code != 202:
            return
        path = str(made.headers["location"])
        yield "job read", await _held(client.get(path), 200)
        yield "job results", await _held(client.get(f"{path}/results"), 200)
        yield "jobs listed", await _held(client.get("/v1/jobs"), 200)
        # It may have ended before.
        yield "job cancelled", await _held(client.post(f"{path}/cancel"), 200, 409)
        yield "job deleted", await _held(client.delete(path), 204)
        yield "job gone", await _held(client.get(path), 404)


async def _held(asked: Awaitable[httpx2.Response], *statuses: int) -> str:
    try:
        answer = await asked
    except httpx2.TransportError as error:
        return f"{type(error).__name__}: {error}"
    if answer.status_code not in statuses:
        return f"{answer.status_code} for {statuses}: {answer.text[:200]}"
    if answer.status_code >= 400:
        return wrong_problem(answer.status_code, dict(answer.headers), answer.content)
    is_lines = answer.headers.get("content-type", "").startswith("application/x-ndjson") and "/batch" in str(answer.url)
    if is_lines and len(answer.text.splitlines()) != _BATCH_ROWS + 1:
        return f"{len(answer.text.splitlines())} lines of {_BATCH_ROWS} rows and a summary"
    return ""


def _endless(attacks: list[Attack], chance: random.Random) -> Iterator[Attack]:
    """All of them in one order, then in another."""
    while True:
        yield from chance.sample(attacks, len(attacks))


def _sample(number: int) -> dict[str, Any]:
    if number % 3 == 0:
        context = f"第{number}号桥于{1900 + number}年建成，长{number + 40}米。"
        return {"question": "桥是哪一年建成的？", "contexts": [context, "图书馆在河的北岸。"], "answer": context}
    context = f"Row {number} says that bridge {number} was opened in {1900 + number} and is {number + 40} metres long."
    return {"question": "When?", "contexts": [context, "The library stands north of the river."], "answer": context}


def _trec(is_packed: bool) -> list[tuple[str, tuple[str, bytes]]]:
    qrels = "".join(f"q{query} 0 d{query + each} {each % 3}\n" for query in range(20) for each in range(5)).encode()
    run = "".join(
        f"q{query} Q0 d{query + each} {each + 1} {9 - each} r\n" for query in range(20) for each in range(8)
    ).encode()
    pack: Callable[[bytes], bytes] = gzip.compress if is_packed else bytes
    return [("qrels", ("qrels.txt", pack(qrels))), ("run", ("run.txt", pack(run)))]
