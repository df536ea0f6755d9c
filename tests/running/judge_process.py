"""A scripted judge in a process of its own, which counts, for services that run in others and are killed."""

import asyncio
import json
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion

_DATA = re.compile(r"^\{.*\}$", re.MULTILINE)
_ROW = re.compile(r"Row (\d+) ")


class JudgeProcess:
    """The judge from outside: its address, and what it counted."""

    def __init__(self, base_url: str, pipe: Connection) -> None:
        self.base_url = base_url
        self._pipe = pipe

    def calls_by_row(self) -> Counter[int]:
        """How often the judge was asked about each row."""
        self._pipe.send("count")
        counted: Counter[int] = self._pipe.recv()
        return counted


@contextmanager
def judge_process(*, latency_seconds: float) -> Iterator[JudgeProcess]:
    """A judge that finds supported what stands in a context, for as long as the context lasts."""
    with served_apart(_serve, latency_seconds) as pipe:
        yield JudgeProcess(pipe.recv(), pipe)


@contextmanager
def served_apart(serve: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A pipe to `serve` in a process of its own: it is given the other end, then the arguments, and told "end"."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        ours.send("end")
        process.join(5)
        process.terminate()


def row(number: int) -> dict[str, Any]:
    """A row whose number the judge can read, and that it finds supported."""
    context = f"Row {number} says that the Marlow Bridge was opened in 1931."
    return {"custom_id": f"q{number}", "question": "When?", "contexts": [context], "answer": context}


def _serve(pipe: Connection, latency_seconds: float) -> None:
    async def run() -> None:
        counted: Counter[int] = Counter()

        def step(request: RecordedRequest) -> Step:
            # By the context: an edited sentence beside the answer, which probes the judge, names another row.
            counted.update({int(number) for number in _ROW.findall(json.dumps(_data(request).get("contexts", [])))})
            # What it records would fill the memory.
            judge.requests.clear()
            return completion(_verdicts(request), delay_seconds=latency_seconds, usage=(1_000, 100))

        async with ScriptedJudge() as judge:
            judge.reply_with(step)
            pipe.send(judge.base_url)
            while await asyncio.to_thread(pipe.recv) == "count":
                pipe.send(counted)

    asyncio.run(run())


def _verdicts(request: RecordedRequest) -> str:
    data = _data(request)
    name, asked = ("claims", data["claims"]) if "claims" in data else ("sentences", data["answer"])
    contexts = json.dumps(data.get("contexts", []))
    return json.dumps({name: [_verdict(each, is_true=each["text"] in contexts) for each in asked]})


def _data(request: RecordedRequest) -> dict[str, Any]:
    found = _DATA.search(request.json["messages"][1]["content"])
    data: dict[str, Any] = json.loads(found[0]) if found else {"answer": []}
    return data


def _verdict(item: dict[str, Any], *, is_true: bool) -> dict[str, Any]:
    """A control that was made false stands in no context."""
    said = {"quotes": [item["text"]], "reason": "The context says so.", "verdict": "supported"}
    return {"id": item["id"], **(said if is_true else {"quotes": [], "reason": "", "verdict": "not_mentioned"})}
