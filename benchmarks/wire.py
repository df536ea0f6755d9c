"""What one evaluation costs beside the judging: CPU time of the whole way over HTTP, with the scorer taken out.

    python benchmarks/wire.py [--requests 1000] [--words 180] [--contexts 5] [--sentences 5]

The ASGI app is called in process, without a socket. Its scorer is replaced by one that has the result already, so
that what is left is middleware, key, parsing, validation and the answer; the parts of that are timed by themselves
too, and beside it the steps of tier `lexical` on the same sample. Milliseconds of CPU for one sample, the median of
rounds; the last line is one JSON object.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastapi import FastAPI

from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import configure_logging
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.main import create_app
from plumbline.rows.evaluation_wire import build_options, request_limits, to_sample, to_wire
from plumbline.schemas.evaluation import bounded_request
from plumbline.service.api.json_body import parse_strictly

T = TypeVar("T")

_ROUNDS = 5
_SENTENCE_WORDS = 18
# Words as frequent as in English: a few everywhere, most seldom (Zipf's law), a third of them stop words.
# fmt: off
_SYLLABLES = [
    "ka", "lo", "mi", "ter", "son", "ber", "an", "pre", "du", "vi", "ro", "sta", "gen", "il", "ex", "tra", "pol", "com",
]
_STOP_WORDS = ["the", "of", "and", "in", "a", "to", "is", "was", "it", "for", "on", "with", "as", "by", "at", "from"]
# fmt: on
_STOP_SHARE = 0.35
_VOCABULARY = 8_000


class ReadyScorer:
    """Has the result of its one sample already."""

    def __init__(self, result: SampleResult) -> None:
        self._result = result

    async def score(self, sample: Sample, options: JudgeOptions) -> SampleResult:
        """The result."""
        return self._result

    async def offload(self, work: Callable[[], T], *, inline: bool = False) -> T:
        """Run `work` here."""
        return work()


class Prose:
    """Text without meaning, sentences of 18 words; the same each time."""

    def __init__(self) -> None:
        self._chance = random.Random(11)  # noqa: S311
        self._words = ["".join(self._chance.choices(_SYLLABLES, k=1 + rank % 4)) for rank in range(_VOCABULARY)]
        self._weights = [1 / (rank + 5) for rank in range(_VOCABULARY)]

    def sentence(self) -> str:
        """One sentence, with a number and a name."""
        words = self._chance.choices(self._words, self._weights, k=_SENTENCE_WORDS)
        mixed = [self._chance.choice(_STOP_WORDS) if self._chance.random() < _STOP_SHARE else word for word in words]
        mixed[4], mixed[9] = str(self._chance.randint(1, 2_000)), mixed[9].capitalize()
        return f"{' '.join(mixed).capitalize()}."

    def text(self, words: int) -> str:
        """Sentences of about so many words together."""
        return " ".join(self.sentence() for _ in range(max(1, words // _SENTENCE_WORDS)))


def body_of(contexts: int, words: int, sentences: int) -> bytes:
    """A request by tier lexical, its answer half from the contexts."""
    prose = Prose()
    passages = [prose.text(words) for _ in range(contexts)]
    known = " ".join(passages).split(". ")
    answer = [f"{known[at * 7 % len(known)]}." if at % 2 else prose.sentence() for at in range(sentences)]
    return json.dumps(
        {
            "question": "What was opened in the harbour?",
            "contexts": passages,
            "answer": " ".join(answer),
            "tiers": ["lexical"],
        }
    ).encode()


async def post(app: FastAPI, body: bytes) -> bytes:
    """The body of the answer, asked for without a socket."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/evaluations",
        "raw_path": b"/v1/evaluations",
        "root_path": "",
        "query_string": b"",
        "headers": [
            (b"host", b"127.0.0.1:8000"),
            (b"accept", b"*/*"),
            (b"user-agent", b"wire"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 40_000),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    return b"".join(message.get("body", b"") for message in sent[1:])


async def over_http(app: FastAPI, body: bytes, count: int) -> float:
    """Milliseconds of CPU for a request, all threads together."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(count):
            await post(app, body)
        rounds.append((time.process_time() - began) / count * 1_000)
    return round(statistics.median(rounds), 4)


def timed(work: Callable[[], object], count: int) -> float:
    """Milliseconds of CPU for one run of the work."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(count):
            work()
        rounds.append((time.process_time() - began) / count * 1_000)
    return round(statistics.median(rounds), 4)


async def run(count: int, body: bytes) -> dict[str, object]:
    """The figures."""
    settings = Settings(warm_up=False, data_dir=Path(os.devnull, "no-jobs"))
    app = create_app(settings)
    bounded = bounded_request(request_limits(settings))
    # As `serve` does.
    gc.collect()
    gc.freeze()
    async with app.router.lifespan_context(app):
        service = app.state.service
        request = bounded.model_validate(parse_strictly(body))
        options = build_options(request, settings, judge_names=())
        result = await service.scorer.score(to_sample(request), options)
        assert result.tier is TierName.LEXICAL
        lexical = await over_http(app, body, max(20, count // 10))
        app.state.service = replace(service, scorer=ReadyScorer(result))
        wire = await over_http(app, body, count)
    value, case = parse_strictly(body), segment(to_sample(request))
    slow = max(20, count // 10)
    return {
        "request_bytes": len(body),
        "answer_bytes": len(to_wire(result, to_sample(request), sample_id=None).model_dump_json().encode()),
        "http_without_scorer_ms": wire,
        "parts_ms": {
            "parse": timed(lambda: parse_strictly(body), count),
            "validate": timed(lambda: bounded.model_validate(value), count),
            "answer": timed(lambda: to_wire(result, to_sample(request), sample_id=None).model_dump_json(), count),
        },
        "http_with_lexical_ms": lexical,
        "lexical_parts_ms": {
            "segment": timed(lambda: segment(case.source), slow),
            "wording": timed(lambda: collect_lexical_findings(case), slow),
        },
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000, help="in each of five rounds")
    parser.add_argument("--words", type=int, default=180, help="of each context")
    parser.add_argument("--contexts", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=5, help="of the answer")
    options = parser.parse_args()
    body = body_of(options.contexts, options.words, options.sentences)
    # As `serve` logs, to nowhere: a line for each request is a part of what it costs.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        configure_logging("INFO")
        figures = asyncio.run(run(options.requests, body))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
