"""Tier detector through the service: a real small model answers, a wrong probe goes on to the next tier."""

from pathlib import Path

import pytest

from plumbline.ground.errors import ConfigurationError
from tests.making.small_detectors import save_detector
from tests.running.service import URL, plain_settings, running

SAMPLE = {"contexts": ["The bridge was built in 1932."], "answer": "The mayor opened it in 1932. The river was warm."}


def described(folder: Path, probe: str) -> str:
    path = folder / "mine.toml"
    path.write_text(f'model = "{save_detector(folder / "mine", "sequence")}"\npositive = 1\nprobe = [{probe}]\n')
    return str(path)


async def test_a_detector_answers_before_the_embedding_model(tmp_path: Path) -> None:
    probe = '{premise = "the river", claim = "the bridge", at_least = 0.0}'
    async with running(plain_settings(detector=described(tmp_path, probe))) as client:
        result = (await client.post(URL, json=SAMPLE)).json()
        ready = (await client.get("/readyz")).json()
    assert result["tier"] == "detector"
    assert [attempt["tier"] for attempt in result["trace"]["attempts"]] == ["llm", "detector"]
    assert result["trace"]["judge"]["model"] == "mine"
    assert "uncalibrated" in result["flags"]
    assert 0.0 < result["claims"][0]["support"] < 1.0
    assert ready["tiers"]["detector"]["state"] == "ready"
    assert list(ready["tiers"]) == ["llm", "detector", "embedding", "lexical"]


async def test_a_detector_that_fails_its_probe_is_told_with_both_numbers(tmp_path: Path) -> None:
    probe = '{premise = "the river", claim = "the bridge", at_least = 1.0}'
    async with running(plain_settings(detector=described(tmp_path, probe))) as client:
        result = (await client.post(URL, json=SAMPLE)).json()
        ready = (await client.get("/readyz")).json()
    assert result["tier"] == "embedding"
    failed = result["trace"]["attempts"][1]
    assert (failed["tier"], failed["reason"]) == ("detector", "detector_probe_failed")
    assert "for pair 1 of its probe, expected at least 1" in failed["detail"]
    assert ready["tiers"]["detector"] == {"state": "unavailable", "detail": failed["detail"]}


async def test_without_a_detector_only_a_request_that_names_it_hears_of_it() -> None:
    async with running(plain_settings()) as client:
        result = (await client.post(URL, json=SAMPLE)).json()
        named = (await client.post(URL, json={**SAMPLE, "tiers": ["detector", "lexical"]})).json()
        ready = (await client.get("/readyz")).json()
    assert "detector" not in [attempt["tier"] for attempt in result["trace"]["attempts"]]
    assert [(each["tier"], each.get("reason")) for each in named["trace"]["attempts"]] == [
        ("detector", "not_configured"),
        ("lexical", None),
    ]
    assert "detector" not in ready["tiers"]


async def test_a_wrong_description_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: cannot be read"):
        async with running(plain_settings(detector=str(tmp_path / "none.toml"))):
            pass
