"""The command, HTTP and Python give one number, whatever the conventions."""

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

import plumbline
from plumbline.cli.main import main
from tests.running.service import plain_settings, running

MEASURES = ["ndcg@5", "map", "recall@3", "iprec(r=0.5)", "rbp", "rbp_resid", "num_rel_ret", "f_beta(beta=2)@5"]


def _case(seed: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]], dict[str, Any]]:
    chance = random.Random(seed)  # noqa: S311
    documents = [f"d{number}" for number in range(12)]
    queries = [f"q{number}" for number in range(4)]
    qrels = {query: {each: chance.choice([-1, 0, 1, 2]) for each in chance.sample(documents, 6)} for query in queries}
    run = {query: {each: float(chance.randint(0, 4)) for each in chance.sample(documents, 8)} for query in queries[:3]}
    conventions = {
        "preset": chance.choice(["trec_eval", "pytrec_eval", "beir", "seed-0"]),
        "rel_level": chance.choice([1, 2]),
        "ties": chance.choice(["docno_desc", "docno_asc", "input_order"]),
        "judged_only": chance.choice([True, False]),
        "missing_queries": chance.choice(["zero", "skip"]),
        "recall_points": chance.choice(["nearest", "at_least"]),
    }
    return qrels, run, conventions


async def test_three_ways_give_one_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(plain_settings()) as client:
        for seed in range(12):
            qrels, run, conventions = _case(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                here = plumbline.retrieval.evaluate(qrels, run, MEASURES, **conventions)

            body = {"qrels": qrels, "runs": [{"name": "run", "results": run}], "measures": MEASURES}
            response = await client.post("/v1/retrieval/evaluations", json={**body, "conventions": conventions})
            served = {name: each["mean"] for name, each in response.json()["runs"][0]["measures"].items()}

            (tmp_path / "qrels").write_text(
                "".join(f"{query} 0 {doc} {grade}\n" for query, own in qrels.items() for doc, grade in own.items()),
                encoding="utf-8",
            )
            (tmp_path / "run").write_text(
                "".join(f"{query} Q0 {doc} 0 {score} t\n" for query, own in run.items() for doc, score in own.items()),
                encoding="utf-8",
            )
            options = [
                f"--{name.replace('_', '-')}" if value is True else f"--{name.replace('_', '-')}={value}"
                for name, value in conventions.items()
                if value is not False
            ]
            arguments = [str(tmp_path / "qrels"), str(tmp_path / "run"), *options]
            capsys.readouterr()
            assert main(["retrieval", "evaluate", *arguments, "--json", *(f"-m{each}" for each in MEASURES)]) == 0
            said = json.loads(capsys.readouterr().out)["runs"][0]["measures"]

            assert served == here, seed
            assert {name: each["mean"] for name, each in said.items()} == here, seed
