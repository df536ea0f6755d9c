"""The whole service around a fake encoder: ways to run it, to ask it, and to write what a judge replies."""

import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import httpx2
from fastapi import FastAPI
from pydantic import BaseModel

from plumbline.ground.settings import Settings
from plumbline.judging.ports.models import SentenceEncoder
from plumbline.main import create_app
from plumbline.schemas.evaluation import EvaluationResult
from tests.doubles.fakes import WordEncoder
from tests.doubles.request_ids import counted_from_1
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest
from tests.running.edge_app import client_of, serve

URL = "/v1/evaluations"
JUDGE_KEY = "sk-judge-key-0001"

_BEGIN = re.compile(r"BEGIN ([0-9a-f]{8})")


def plain_settings(**knobs: Any) -> Settings:
    """Settings without a judge; nothing is loaded in the background, and no jobs but a test's own are found."""
    quiet = {} if "PLUMBLINE_DATA_DIR" in os.environ else {"data_dir": Path(os.devnull, "no-jobs")}
    return Settings(**{"warm_up": False, **quiet, **knobs})


def judge_settings(judge: ScriptedJudge, **knobs: Any) -> Settings:
    """Settings with the scripted judge as a generic provider."""
    judged = {
        "llm_provider": "generic",
        "llm_base_url": judge.base_url,
        "llm_model": "judge-1",
        "llm_api_key": JUDGE_KEY,
    }
    return plain_settings(**{**judged, **knobs})


@contextlib.asynccontextmanager
async def running(settings: Settings, *, encoder: SentenceEncoder | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the service, in process, for as long as the service lives."""
    app = create_app(settings, encoder=encoder or WordEncoder())
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


@contextlib.contextmanager
def served(app: FastAPI, *, send_buffer_bytes: int | None = None) -> Iterator[str]:
    """The base URL of a real uvicorn on loopback, in a thread, with the app's lifespan."""
    with serve(app, lifespan="on", send_buffer_bytes=send_buffer_bytes) as port:
        yield f"http://127.0.0.1:{port}"


async def evaluate(client: httpx2.AsyncClient, **sample: Any) -> dict[str, Any]:
    """The result of a sample, as `read_result` returns it."""
    response = await client.post(URL, json=sample)
    return read_result(response)


async def evaluate_every_shape(client: httpx2.AsyncClient, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of a sample without marks of citations: as of old, with context objects, a base, and as messages.

    Seconds are 0, and the turns of the conversation left out.
    """
    asked = {"role": "user", "content": sample["question"], "contexts": sample["contexts"]}
    others = {name: value for name, value in sample.items() if name not in ("question", "contexts", "answer")}
    shapes: list[dict[str, Any]] = [
        {**sample},
        {**sample, "contexts": [{"text": each} for each in sample["contexts"]]},
        {**sample, "citation_base": 0},
        {**others, "messages": [asked, {"role": "assistant", "content": sample["answer"]}]},
    ]
    results = [await evaluate(client, **shape) for shape in shapes]
    assert [result["conversation"] is not None for result in results] == [False, False, False, True]
    for result in results:
        del result["conversation"]
        for attempt in result["trace"]["attempts"]:
            attempt["seconds"] = 0
    return results


def read_result(response: httpx2.Response) -> dict[str, Any]:
    """The result with all its fields, once it is proven to be a 200, finite, and without keys that say nothing."""
    assert response.status_code == 200, response.text[:500]
    assert response.headers["content-type"] == "application/json"
    result = EvaluationResult.model_validate_json(response.content)
    assert json.loads(response.content, parse_constant=_refuse_constant) == json.loads(result.model_dump_json())
    whole: dict[str, Any] = with_every_field(result)
    return whole


def with_every_field(value: Any) -> Any:
    """A model as plain values, with the fields that JSON leaves out."""
    if isinstance(value, BaseModel):
        return {name: with_every_field(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {name: with_every_field(each) for name, each in value.items()}
    return [with_every_field(each) for each in value] if isinstance(value, list) else value


def claim(text: str, verdict: str, quote: str = "", *, reason: str = "because") -> dict[str, Any]:
    """One claim as a judge writes it."""
    return {"claim": text, "quotes": [quote] if quote else [], "reason": reason, "verdict": verdict}


def verdicts(*claims_by_sentence: Sequence[Mapping[str, Any]]) -> str:
    """A judge's reply: the claims of sentence 1, of sentence 2, ..."""
    items = [
        {"id": number, **claim}
        for number, claims in enumerate(claims_by_sentence, start=1)
        for claim in claims or [{"verdict": "not_a_claim"}]
    ]
    return json.dumps({"sentences": items}, ensure_ascii=False)


def marker_of(request: RecordedRequest) -> str:
    """The mark on the line before the data."""
    markers = [found[1] for line in user_lines(request) if (found := _BEGIN.fullmatch(line))]
    assert len(markers) == 1
    return markers[0]


def data_of(request: RecordedRequest) -> dict[str, Any]:
    """The data as we count it, from 1; a reply in these numbers goes out with the ids of the request."""
    return counted_from_1(shown_data_of(request), request.prompt)


def shown_data_of(request: RecordedRequest) -> dict[str, Any]:
    """The data in the user's message, once it is proven to be the one line between the two marked ones."""
    lines, marker = user_lines(request), marker_of(request)
    begin, end = lines.index(f"BEGIN {marker}"), lines.index(f"END {marker}")
    assert end == begin + 2
    data: dict[str, Any] = json.loads(lines[begin + 1])
    return data


def user_lines(request: RecordedRequest) -> list[str]:
    """The lines of the user's message."""
    text: str = request.json["messages"][-1]["content"]
    return text.split("\n")


def _refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} in the JSON of a result")
