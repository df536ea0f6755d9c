"""A detector on a server: what is sent, what is read, and what every fault becomes."""

from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.judging.ports.exchange import Passage
from plumbline.judging.ports.observation import State
from plumbline.models.detectors.description import Description, Probe
from plumbline.models.detectors.remote_detector import RemoteDetector, build_remote_detector
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, status
from tests.running.service import URL, plain_settings, running

SECONDS = 5.0
PROBE = (
    Probe(premise="Rain fell.", claim="Rain fell.", at_least=0.5),
    Probe(premise="Rain.", claim="Sun.", at_most=0.5),
)
NLI = Description(model="my/nli", contradicted="contradiction", probe=PROBE)


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    with running_judge() as judge:
        yield judge


def labels(*shares: float, names: tuple[str, ...] = ("entailment", "neutral", "contradiction")) -> list[dict[str, Any]]:
    """The labels of one text, the likeliest first, as the server sends them."""
    found = [{"label": name, "score": share} for name, share in zip(names, shares, strict=True)]
    return sorted(found, key=lambda each: -float(each["score"]))


def by_containment(text: list[str]) -> list[dict[str, Any]]:
    """A claim that stands in its premise is entailed; one with "no" is denied."""
    premise, claim = text
    if claim.rstrip(".") in premise:
        return labels(0.9, 0.08, 0.02)
    return labels(0.05, 0.05, 0.9) if "no" in claim.split() else labels(0.1, 0.85, 0.05)


def predict(answer: Callable[[list[str]], list[dict[str, Any]]] = by_containment) -> Callable[[RecordedRequest], Reply]:
    return lambda request: status(200, [answer(text) for text in request.json["inputs"]])


def detector_at(server: ScriptedJudge, description: Description = NLI, **knobs: Any) -> RemoteDetector:
    return build_remote_detector(description, plain_settings(llm_backoff_seconds=0.001, **knobs), server.base_url)


def passage(text: str) -> Passage:
    ends = [place + 1 for place, letter in enumerate(text) if letter == "."]
    return Passage(0, text, tuple(zip([0, *ends[:-1]], ends, strict=True)))


async def test_pairs_are_sent_and_labels_are_read_by_name(server: ScriptedJudge) -> None:
    server.reply_with(predict())
    async with aclosing(detector_at(server, detector_api_key="sk-detector-0001")) as detector:
        assert detector.readiness().state is State.IDLE
        reading = await detector.read(
            [passage("Oslo is wet. Rome is dry.")],
            "",
            ["Rome is dry.", "Oslo is no town.", "Ada sings."],
            seconds=SECONDS,
        )
        assert detector.readiness().state is State.READY
    assert [found.support for found in reading.findings] == pytest.approx([0.9, 0.05, 0.1])
    assert [found.is_denied for found in reading.findings] == [False, True, False]
    sent = server.requests[-1]
    assert (sent.method, sent.path.rpartition("/")[2]) == ("POST", "predict")
    assert sent.headers["authorization"] == "Bearer sk-detector-0001"
    assert sent.json == {
        "inputs": [
            ["Oslo is wet. Rome is dry.", "Rome is dry."],
            ["Oslo is wet. Rome is dry.", "Oslo is no town."],
            ["Oslo is wet. Rome is dry.", "Ada sings."],
        ],
        "raw_scores": False,
        "truncate": False,
    }


async def test_a_long_premise_is_sent_in_parts_of_at_most_32_a_call(server: ScriptedJudge) -> None:
    server.reply_with(predict())
    described = NLI.model_copy(update={"max_tokens": 64})
    text = "".join(f"The river of town {number} is very long and very cold. " for number in range(90)) + "Ada sings."
    async with aclosing(detector_at(server, described)) as detector:
        (found,) = (await detector.read([passage(text)], "", ["Ada sings."], seconds=SECONDS)).findings
    assert found.support == pytest.approx(0.9)
    sent = [pair for request in server.requests[2:] for pair in request.json["inputs"]]
    assert max(len(request.json["inputs"]) for request in server.requests) == 32
    assert "".join(premise for premise, _ in sent).replace(" ", "") == text.replace(" ", "")


async def test_a_probe_that_is_answered_otherwise_is_told_once_and_for_all(server: ScriptedJudge) -> None:
    server.reply_with(predict(lambda _: labels(0.2, 0.7, 0.1)))
    async with aclosing(detector_at(server)) as detector:
        for _ in range(2):
            with pytest.raises(TierFailure, match=r"nli gave 0\.2000 for pair 1 .* expected at least 0\.5") as caught:
                await detector.read([passage("Rain.")], "", ["Rain."], seconds=SECONDS)
            assert caught.value.reason is FailureReason.DETECTOR_PROBE_FAILED
        assert detector.readiness().state is State.UNAVAILABLE
    assert len(server.requests) == 1


async def test_numbered_labels_are_read_by_their_number(server: ScriptedJudge) -> None:
    server.reply_with(predict(lambda text: labels(0.8, 0.2, names=("LABEL_1", "LABEL_0")) if "Rain" in text[1]
                              else labels(0.3, 0.7, names=("LABEL_1", "LABEL_0"))))  # fmt: skip
    described = Description(model="m", positive=1, probe=PROBE)
    async with aclosing(detector_at(server, described)) as detector:
        (found,) = (await detector.read([passage("Rain.")], "", ["Rain."], seconds=SECONDS)).findings
    assert found.support == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (status(200, []), FailureReason.INVALID_REPLY),
        (status(200, [[]]), FailureReason.INVALID_REPLY),
        (status(200, {"error": "busy"}), FailureReason.INVALID_REPLY),
        (status(200, b'[[{"label": "entailment", "score": NaN}]]'), FailureReason.INVALID_REPLY),
        (status(200, [labels(0.6, 0.4, names=("LABEL_0", "LABEL_1"))]), FailureReason.INVALID_REPLY),
        (status(413, {"error": "too long"}), None),
        (status(503, {"error": "overloaded"}), None),
        (status(401, {"error": "who"}), FailureReason.AUTHENTICATION),
    ],
)
async def test_every_fault_is_a_failure_of_the_tier(
    server: ScriptedJudge, reply: Reply, reason: FailureReason | None
) -> None:
    server.reply_with(reply)
    async with aclosing(detector_at(server)) as detector:
        with pytest.raises(TierFailure) as caught:
            await detector.read([passage("Rain.")], "", ["Rain."], seconds=SECONDS)
        assert caught.value.reason is (reason or caught.value.reason)
        assert caught.value.reason is not FailureReason.DETECTOR_PROBE_FAILED


@pytest.mark.parametrize("head", ["lettucedetect-base", "hhem-2.1-open"])
def test_heads_that_a_server_does_not_run_are_refused(server: ScriptedJudge, head: str) -> None:
    from plumbline.models.detectors.description import find_description

    with pytest.raises(ConfigurationError, match="cannot be read from a server"):
        detector_at(server, find_description(head))


async def test_the_service_asks_the_server_and_falls_back_without_it(server: ScriptedJudge) -> None:
    server.reply_with(predict(lambda text: by_containment(text) if "town hall" not in text[0] else
                              (labels(0.9, 0.1, 0.0) if "hall" in text[1] else labels(0.1, 0.9, 0.0))))  # fmt: skip
    sample = {"contexts": ["Oslo is wet in autumn."], "answer": "Oslo is no dry place."}
    settings = plain_settings(detector="nli-deberta-v3-base", detector_url=server.base_url, llm_backoff_seconds=0.001)
    async with running(settings) as client:
        result = (await client.post(URL, json=sample)).json()
        assert result["tier"] == "detector"
        assert result["claims"][0]["verdict"] == "contradicted"
        server.reply_with(status(500, b""))
        result = (await client.post(URL, json={**sample, "answer": "Oslo is far away."})).json()
    assert [attempt["tier"] for attempt in result["trace"]["attempts"]] == ["llm", "detector", "embedding"]
