"""Answers of a user's endpoint to what was retrieved, judged by a running service."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.extras.lab.folder import load_results
from plumbline.extras.lab.results import ExperimentResults, System
from plumbline.main import create_app
from tests.doubles.scripted_service import Answer, Asked, scripted
from tests.making.lab_experiments import EXPERIMENT, QUERIES, tiny_experiment
from tests.running.edge_app import serve
from tests.running.service import plain_settings

pytestmark = pytest.mark.timeout(120)


def run(experiment: Path, *arguments: str) -> int:
    return main(["lab", "run", str(experiment), "--out", str(experiment.parent / "out"), "--quiet", *arguments])


def systems(results: ExperimentResults) -> Mapping[str, System]:
    return {each.retriever: each for each in results.systems}


def test_seed_1_answers_are_asked_for_once_judged_and_held_against_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDPOINT_KEY", "secret-of-the-endpoint")
    broken = {"wing heat"}

    def endpoint(asked: Asked) -> Answer:
        assert asked.headers["authorization"] == "Bearer secret-of-the-endpoint"
        if asked.json["question"] in broken:
            return Answer([b"no"], status=500)
        said: Any = {"answer": f"It says {asked.json['contexts'][0]}."}
        return Answer([json.dumps(said).encode()])

    with scripted(endpoint) as answering, serve(create_app(plain_settings()), lifespan="on") as port:
        step = f'\n[answers]\nurl = "{answering.url}/answer"\nservice = "http://127.0.0.1:{port}"\nk = 2\n'
        step += 'systems = ["words"]\nkey_variable = "ENDPOINT_KEY"\ntiers = ["lexical"]\nreferences = "gold.jsonl"\n'
        experiment = tiny_experiment(tmp_path, EXPERIMENT + step)
        gold = [
            {"id": "q1", "reference": "It says wing slipstream lift."},
            {"id": "q2", "reference": "It says nothing"},
        ]
        (tmp_path / "gold.jsonl").write_text("\n".join(map(json.dumps, gold)), encoding="utf-8")

        assert run(experiment, "--only", "words") == 0
        answers = systems(load_results(tmp_path / "out"))["words"].answers
        assert answers is not None
        assert (answers["questions"], answers["answered"], answers["judged"]) == (4, 3, 3)
        faithfulness = answers["faithfulness.lexical"]
        assert faithfulness is not None
        assert faithfulness > 0.5
        assert answers["hallucination_rate.lexical"] == pytest.approx(1 - faithfulness)
        assert (answers["abstained"], answers["not_judged"], answers["degraded"]) == (0, 0, 0)
        # "it says slab load heat" and "it says nothing" share two words of 5 and 3
        assert answers["exact_match"] == 0.5
        assert answers["token_f1"] == pytest.approx((1 + 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3)) / 2, abs=1e-3)
        assert sorted(asked.json["question"] for asked in answering.asked) == sorted(QUERIES.values())
        assert all(
            len(asked.json["contexts"]) == 2 for asked in answering.asked if "buckling" not in asked.json["question"]
        )

        broken.clear()
        assert run(experiment, "--only", "words") == 0
        assert len(answering.asked) == 5
        again = systems(load_results(tmp_path / "out"))["words"].answers
        assert again is not None
        assert (again["answered"], again["judged"]) == (4, 4)


def test_answers_are_told_by_tier_degraded_and_abstained_apart(tmp_path: Path) -> None:
    def endpoint(asked: Asked) -> Answer:
        said = {
            "wing lift": asked.json["contexts"][0],
            "heat slab": "I don't know.",
            "buckling load": "Bananas grow in Brazil.",
            "wing heat": "",
        }[asked.json["question"]]
        return Answer([json.dumps({"answer": said}).encode()])

    # The judge of tier llm is not there, so that the answers are judged by a lower tier than the first
    settings = plain_settings(
        llm_provider="generic", llm_base_url="http://127.0.0.1:9", llm_model="none", llm_api_key="k"
    )
    with scripted(endpoint) as answering, serve(create_app(settings), lifespan="on") as port:
        step = f'\n[answers]\nurl = "{answering.url}"\nservice = "http://127.0.0.1:{port}"\nsystems = ["words"]\n'
        experiment = tiny_experiment(tmp_path, EXPERIMENT + step + 'tiers = ["llm", "lexical"]\n')

        assert run(experiment, "--only", "words") == 0

    answers = systems(load_results(tmp_path / "out"))["words"].answers
    assert answers is not None
    assert (answers["judged"], answers["abstained"], answers["empty_answer"], answers["degraded"]) == (2, 1, 1, 2)
    assert answers["passed.lexical"] == 0.5
    assert "faithfulness.llm" not in answers
    assert "faithfulness" not in answers


def test_a_service_that_is_not_there_costs_the_answers_alone(tmp_path: Path) -> None:
    def endpoint(_: Asked) -> Answer:
        return Answer([b'{"answer": "Wings lift."}'])

    with scripted(endpoint) as answering:
        step = f'\n[answers]\nurl = "{answering.url}"\nservice = "{answering.url}/none"\n'
        experiment = tiny_experiment(tmp_path, EXPERIMENT + step)

        assert run(experiment, "--only", "words") == 1

    results = load_results(tmp_path / "out")
    assert list(results.failures) == ["tiny.whole.words (answers)"]
    assert systems(results)["words"].answers is None
