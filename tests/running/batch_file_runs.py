"""`plumbline batch-file` against a scripted provider: rows that need a judge, its answers, and the steps as calls."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.ground.settings import load_settings
from plumbline.schemas.evaluation import EvaluationResult
from tests.doubles.scripted_batches import ScriptedBatches
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.running.service import JUDGE_KEY, data_of, evaluate, running, with_every_field

DAM = "The dam was built in 1932. It is 120 metres high."
ROWS: Sequence[Mapping[str, Any]] = (
    {"custom_id": "copy", "question": "How high?", "contexts": ["A lake.", DAM], "answer": DAM},
    {"custom_id": "wrong", "contexts": [DAM], "answer": "The dam was built in 1932. It leaks badly every spring."},
    {"custom_id": "empty", "contexts": [DAM], "answer": "..."},
    {"custom_id": "none", "contexts": [], "answer": DAM},
    {"custom_id": "zh", "contexts": ["大坝建于1932年。"], "answer": "大坝建于1932年。它高120米。"},
)
BAD_ROW = {"custom_id": "bad", "answer": DAM}
# The judge below quotes at first what stands nowhere, so that it is asked once more.
DOUBTED = {"custom_id": "doubted", "contexts": [DAM], "answer": "It is 120 metres high."}


def judged(request: RecordedRequest) -> Reply:
    """A judge that supports what stands in a context, word for word, and misquotes a doubted sentence at first."""
    data = data_of(request)
    contexts = data["contexts"]
    if "claims" in data:
        return completion(
            json.dumps({"claims": [{"id": each["id"], **_said(each, contexts)} for each in data["claims"]]})
        )
    asked = [each for each in data["answer"] if "id" in each]
    is_doubted = len(asked) == 1 and asked[0]["text"] == DOUBTED["answer"]
    claims = [[{"claim": each["text"], **_said(each, contexts)}] for each in asked]
    if is_doubted:
        claims[0][0] |= {"verdict": "supported", "quotes": ["It is a hundred and twenty metres tall"]}
    sentences = [{"id": each["id"], "claims": made} for each, made in zip(asked, claims, strict=True)]
    return completion(json.dumps({"sentences": sentences}, ensure_ascii=False), usage=(100 * len(contexts), 10))


def _said(item: Mapping[str, Any], contexts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if any(item["text"] in each["text"] for each in contexts):
        return {"quotes": [item["text"]], "verdict": "supported"}
    return {"quotes": [], "reason": "No word of it.", "verdict": "not_mentioned"}


@dataclass
class Run:
    """One folder with one file of rows, and the provider that its batches go to."""

    folder: Path
    judge: ScriptedJudge
    batches: ScriptedBatches

    @property
    def manifest(self) -> Path:
        return self.folder / "requests.manifest.json"

    def rows(self, *rows: Mapping[str, Any]) -> Path:
        path = self.folder / "data.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    def prepare(self, *rows: Mapping[str, Any], options: Sequence[str] = ()) -> int:
        path = self.rows(*rows) if rows else self.folder / "data.jsonl"
        return self.step("prepare", str(path), "-o", str(self.folder / "requests.jsonl"), *options)

    def submit(self) -> int:
        return self.step("submit", str(self.manifest))

    def collect(self, *options: str, fallback: str = "lexical") -> int:
        results = ["-o", str(self.folder / "results.jsonl"), "--fallback", fallback]
        return self.step("collect", str(self.manifest), *results, *options)

    def whole(self, *rows: Mapping[str, Any], fallback: str = "lexical") -> list[dict[str, Any]]:
        """The lines of the results after all steps."""
        assert self.prepare(*rows) == 0
        assert self.submit() == 0
        assert self.collect(fallback=fallback) == 0
        return self.results()

    def results(self) -> list[dict[str, Any]]:
        text = (self.folder / "results.jsonl").read_text(encoding="utf-8")
        return [json.loads(line, parse_constant=_refused) for line in text.splitlines()]

    def requests(self) -> list[dict[str, Any]]:
        """The lines of all files of requests."""
        return [
            json.loads(line)
            for file in json.loads(self.manifest.read_text())["files"]
            for line in (self.folder / file["name"]).read_text(encoding="utf-8").splitlines()
        ]

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.manifest.read_text())["files"][0]
        return found

    def step(self, *arguments: str) -> int:
        return main(["batch-file", *arguments])


@contextmanager
def a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run whose settings name the scripted provider."""
    with running_judge() as judge:
        batches = ScriptedBatches(judged)
        judge.reply_with(judged)
        judge.reply_elsewhere(batches)
        knobs = {
            "LLM_PROVIDER": "generic", "LLM_BASE_URL": judge.base_url, "LLM_MODEL": "judge-1",
            "LLM_API_KEY": JUDGE_KEY, "CACHE_TTL_SECONDS": "0", "WARM_UP": "false",
        }  # fmt: skip
        for name, value in knobs.items():
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        yield Run(folder, judge, batches)


def live(*rows: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The results of the service for the same rows, with the same settings and the same judge."""

    async def asked() -> list[dict[str, Any]]:
        async with running(load_settings()) as client:
            named = [{"id" if name == "custom_id" else name: value for name, value in row.items()} for row in rows]
            return [await evaluate(client, **row, **options, tiers=["llm"]) for row in named]

    return [timeless(result) for result in asyncio.run(asked())]


def timeless(result: Any) -> dict[str, Any]:
    """The result, given as one or as JSON, with all its fields, and without the seconds that its tiers took."""
    whole: dict[str, Any] = with_every_field(EvaluationResult.model_validate(result))
    for attempt in whole["trace"]["attempts"]:
        attempt["seconds"] = 0.0
    return whole


def _refused(name: str) -> None:
    raise AssertionError(f"{name} in a line of results")
