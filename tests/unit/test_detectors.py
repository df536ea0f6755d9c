"""Detectors: what the library says of the same texts, what is refused, windows, words, and the tier around them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.judging.ports.exchange import DetectorFinding, DetectorReading, Passage
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.text.verdicts import Verdict
from plumbline.judging.tiers.calibration import CalibrationTable
from plumbline.judging.tiers.detector import WHOLE_ANSWER, DetectorTier, find_faults
from plumbline.judging.tiers.tier import JudgeOptions
from plumbline.models.detectors.description import (
    Description,
    Probe,
    find_description,
    read_description,
    shipped_descriptions,
)
from plumbline.models.detectors.detector import LocalDetector
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases
from tests.making.small_detectors import library_logits, save_detector

SECONDS = 60.0
PREMISE = "the bridge was built in 1932."
CLAIM = "the mayor opened it."
ANY = (Probe(premise="the river", claim="the bridge", at_least=0.0),)


def passage(text: str, number: int = 0) -> Passage:
    ends = [place + 1 for place, letter in enumerate(text) if letter == "."] or [len(text)]
    starts = [0, *ends[:-1]]
    return Passage(number, text, tuple(zip(starts, ends, strict=True)))


async def read(description: Description, premises: Sequence[str], claims: Sequence[str]) -> DetectorReading:
    with closing(LocalDetector(description, threads=1)) as detector:
        passages = [passage(text, number) for number, text in enumerate(premises)]
        return await detector.read(passages, "", claims, seconds=SECONDS)


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


async def test_a_pair_has_the_scores_of_the_library(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence", labels=("contradiction", "entailment", "neutral"))
    described = Description(model=str(model), positive="entailment", contradicted="contradiction", probe=ANY)
    reading = await read(described, [PREMISE], [CLAIM, PREMISE])

    for claim, found in zip((CLAIM, PREMISE), reading.findings, strict=True):
        (expected,) = softmax(library_logits(model, "sequence", PREMISE, claim))
        assert found.support == pytest.approx(expected[1], abs=1e-5)
        assert found.is_denied == (expected[0] > max(0.5, expected[1]))


async def test_one_text_has_the_scores_of_the_library_and_not_those_of_a_pair(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence")
    described = Description(model=str(model), template="{premise}[SEP]{claim}", positive=1, probe=ANY)
    (found,) = (await read(described, [PREMISE], [CLAIM])).findings

    (one,) = softmax(library_logits(model, "sequence", f"{PREMISE}[SEP]{CLAIM}"))
    (pair,) = softmax(library_logits(model, "sequence", PREMISE, CLAIM))
    assert found.support == pytest.approx(one[1], abs=1e-5)
    assert abs(found.support - pair[1]) > 1e-3


@pytest.mark.nightly
async def test_a_roberta_has_the_scores_of_the_library(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence", labels=("grounded", "hallucinated"), kind="roberta")
    reading = await read(
        Description(model=str(model), positive="grounded", probe=ANY, max_tokens=128), [PREMISE], [CLAIM]
    )
    (expected,) = softmax(library_logits(model, "sequence", PREMISE, CLAIM))
    assert reading.findings[0].support == pytest.approx(expected[0], abs=1e-5)


@pytest.mark.nightly
async def test_a_cross_encoder_has_the_scores_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    model = save_detector(tmp_path, "sequence", labels=("LABEL_0",))
    (found,) = (await read(Description(model=str(model), positive=0, probe=ANY), [PREMISE], [CLAIM])).findings
    (expected,) = CrossEncoder(str(model), device="cpu").predict([(PREMISE, CLAIM)], show_progress_bar=False)
    assert found.support == pytest.approx(float(expected), abs=1e-5)


async def test_the_first_token_of_a_t5_has_the_scores_of_the_library(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "first_token")
    template = "Premise : {premise} Hypothesis : {claim}"
    described = Description(model=str(model), head="first_token", template=template, positive=1, probe=ANY)
    (found,) = (await read(described, [PREMISE], [CLAIM])).findings
    expected = softmax(library_logits(model, "first_token", f"Premise : {PREMISE} Hypothesis : {CLAIM}")[0])
    assert found.support == pytest.approx(expected[1], abs=1e-5)


async def test_weights_under_other_names_are_read_with_a_base(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    base = save_detector(tmp_path / "base", "first_token")
    model = tmp_path / "renamed"
    model.mkdir()
    state = load_file(base / "model.safetensors")
    save_file({f"t5.{name}": value for name, value in state.items()}, model / "model.safetensors")
    (model / "config.json").write_text('{"model_type": "unheard-of"}')
    template = "Premise : {premise} Hypothesis : {claim}"
    described = Description(
        model=str(model), base="base", strip="t5.", head="first_token", template=template, positive=1, probe=ANY
    )
    (found,) = (await read(described, [PREMISE], [CLAIM])).findings
    expected = softmax(library_logits(base, "first_token", f"Premise : {PREMISE} Hypothesis : {CLAIM}")[0])
    assert found.support == pytest.approx(expected[1], abs=1e-5)


@pytest.mark.parametrize(
    "answer", ["the bridge. 1932 mayor not built.", "桥是1932年建的。 桥 的 mayor。", "😀 bridge 😀 mayor."]
)
async def test_words_have_the_scores_and_places_of_the_library(tmp_path: Path, answer: str) -> None:
    import transformers

    model = save_detector(tmp_path, "tokens", labels=("supported", "hallucinated"))
    described = Description(model=str(model), head="tokens", unit="answer", positive="supported", probe=ANY)
    (found,) = (await read(described, [PREMISE], [answer])).findings

    shares = softmax(library_logits(model, "tokens", PREMISE, answer))
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    encoding = tokenizer(PREMISE, answer, return_offsets_mapping=True)
    expected = [
        (*encoding["offset_mapping"][place], shares[place][0])
        for place, sequence in enumerate(encoding.sequence_ids())
        if sequence == 1
    ]
    assert [(start, end) for start, end, _ in found.words] == [(start, end) for start, end, _ in expected]
    assert [word[2] for word in found.words] == pytest.approx([word[2] for word in expected], abs=1e-5)
    assert found.support == pytest.approx(min(word[2] for word in expected), abs=1e-5)


async def test_a_long_premise_is_read_in_parts_and_the_best_counts(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence")
    sentences = [f"the river two people {word} tracks." for word in ("cross", "warm", "was", "opened")]
    described = Description(model=str(model), positive=1, max_tokens=32, probe=ANY)
    (found,) = (await read(described, [" ".join(sentences)], ["the bridge"])).findings
    parts = [
        softmax(library_logits(model, "sequence", part, "the bridge"))[0][1]
        for part in (" ".join(sentences[:2]), " ".join(sentences[2:]))
    ]
    assert found.support == pytest.approx(max(parts), abs=1e-5)


async def test_no_word_of_a_premise_or_a_long_sentence_is_left_out(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence")
    with closing(LocalDetector(Description(model=str(model), positive=1, max_tokens=48, probe=ANY))) as detector:
        await detector.warm_up()
        assert detector.readiness().state is State.READY
        reader = detector._reader
        assert reader is not None
        whole = "the river " * 60 + "end. " + "two people. " * 30
        windows = reader.windows([passage(whole), passage("it was warm.", 1)], "", "the bridge")
        assert " ".join(text for window in windows for text in window).split() == [*whole.split(), "it", "was", "warm."]
        assert all(len(reader.ask(window, "", "the bridge").tokens) <= 48 for window in windows)
        assert len(reader.fit_claim("river " * 100).split()) == 24


async def test_special_tokens_in_a_text_of_the_caller_are_words(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence")
    described = Description(model=str(model), positive=1, probe=ANY)
    with closing(LocalDetector(described)) as detector:
        await detector.warm_up()
        assert detector._reader is not None
        asked = detector._reader.ask(["the river [SEP] the bridge"], "", "[SEP][CLS] it")
        assert asked.tokens.count(3) == 2


async def test_a_label_that_the_model_lacks_is_refused_with_its_labels(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence")
    with pytest.raises(TierFailure, match="has no label 'support'; its labels are 0 LABEL_0, 1 LABEL_1") as caught:
        await read(Description(model=str(model), positive="support"), [PREMISE], [CLAIM])
    assert caught.value.reason is FailureReason.NOT_INSTALLED


def test_a_model_that_is_not_known_wants_a_description() -> None:
    with pytest.raises(ConfigurationError, match=r"'org/nli' is not known; write a description \(.toml\)"):
        find_description("org/nli")


async def test_a_model_that_answers_its_probe_otherwise_is_not_used(tmp_path: Path) -> None:
    model = save_detector(tmp_path, "sequence")
    (expected,) = softmax(library_logits(model, "sequence", PREMISE, CLAIM))
    right = Probe(premise=PREMISE, claim=CLAIM, score=float(expected[1]))
    assert (await read(Description(model=str(model), positive=1, probe=(right,)), [PREMISE], [CLAIM])).cut == 0.0

    turned = Description(model=str(model), positive=0, probe=(right,))
    with closing(LocalDetector(turned)) as detector:
        with pytest.raises(TierFailure) as caught:
            await detector.read([passage(PREMISE)], "", [CLAIM], seconds=SECONDS)
        assert caught.value.reason is FailureReason.DETECTOR_PROBE_FAILED
        assert f"gave {expected[0]:.4f} for pair 1" in caught.value.detail
        assert f"expected {expected[1]:g} ± 0.01" in caught.value.detail
        assert detector.readiness() == Readiness(State.UNAVAILABLE, caught.value.detail)


async def test_a_weight_that_is_not_in_the_file_is_never_a_random_one(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = save_detector(tmp_path, "sequence")
    state = load_file(model / "model.safetensors")
    kept = {name: value for name, value in state.items() if "word_embeddings" not in name}
    save_file(kept, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TierFailure, match=r"its weights lack 1 of the network's, .*word_embeddings"):
        await read(Description(model=str(model), positive=1, probe=ANY), [PREMISE], [CLAIM])


async def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    import torch

    model = save_detector(tmp_path, "sequence")
    (model / "model.safetensors").unlink()
    torch.save({}, model / "pytorch_model.bin")
    with pytest.raises(TierFailure, match=r"no configuration with \*\.safetensors weights"):
        await read(Description(model=str(model), positive=1, probe=ANY), [PREMISE], [CLAIM])


def test_every_shipped_description_is_found_by_its_names() -> None:
    shipped = shipped_descriptions()
    assert len(shipped) >= 9
    for name, described in shipped.items():
        assert find_description(name) == find_description(described.model) == described
        assert find_description(f"/models/{described.name}").head == described.head
        if described.template is None:
            first, second = described.premise(["one", "two"], "why?", "claim")
            assert "one" in first
            assert "two" in first
            assert second == "claim"
        else:
            first, second = described.premise(["one"], "", "a {premise} claim")
            assert "one" in first
            assert "a {premise} claim" in first
            assert second is None


def test_the_prompt_of_lettucedetect_is_its_own() -> None:
    described = find_description("lettucedetect-base")
    first, _ = described.premise(["A.", "B."], "Who?", "C.")
    assert first.startswith("Briefly answer the following question:\nWho?\nBear in mind")
    assert "following 2 passages:\npassage 1: A.\npassage 2: B.\nIn case" in first
    assert described.premise(["A."], "", "C.")[0] == "Summarize the following text:\npassage 1: A.\noutput:"


@pytest.mark.parametrize(
    ("text", "message"), load_cases("detectors", "a_wrong_description_names_the_file_and_the_field")
)
def test_a_wrong_description_names_the_file_and_the_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_description(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_description(str(tmp_path / "none.toml"))


class ToldDetector:
    """A detector that says what it is told, by the claim."""

    model = "told"
    languages: frozenset[str] | None = frozenset({"en"})

    def __init__(self, findings: dict[str, DetectorFinding], *, whole: bool = False, marks: bool = False) -> None:
        self.findings = findings
        self.unit: Any = "answer" if whole else "sentence"
        self.marks_words = marks

    async def read(
        self,
        passages: Sequence[Passage],
        question: str,
        claims: Sequence[str],
        *,
        seconds: float,
        scope: str = "",
    ) -> DetectorReading:
        return DetectorReading([self.findings[claim] for claim in claims], 0.25)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "told")


async def judged(detector: ToldDetector, answer: str) -> Any:
    tier = DetectorTier(detector, CalibrationTable(()), ThreadPoolExecutor(1))
    return await tier.judge(case_of(answer, "Rain fell in Oslo all week."), JudgeOptions(), seconds=SECONDS)


async def test_support_is_the_detectors_own_until_labels_fit_it() -> None:
    told = {
        "Snow fell in Rome.": DetectorFinding(0.1, is_denied=True),
        "Oslo was wet.": DetectorFinding(0.8),
        "Nobody went out.": DetectorFinding(0.3),
    }
    judgement = await judged(ToldDetector(told), "Snow fell in Rome. Oslo was wet. Nobody went out.")
    assert [claim.support for claim in judgement.claims] == pytest.approx([0.1, 0.8, 0.3])
    assert [claim.verdict for claim in judgement.claims] == [
        Verdict.CONTRADICTED,
        Verdict.SUPPORTED,
        Verdict.NOT_MENTIONED,
    ]
    assert judgement.flags == ("uncalibrated",)
    assert judgement.warnings == ("25% of the answer's sentences is more than told reads; it did not count",)


async def test_marked_words_belong_to_their_sentence_and_are_named() -> None:
    answer = "Oslo was wet. Snow fell in Rome."
    words = ((0, 4, 0.9), (5, 8, 0.9), (9, 12, 0.7), (14, 18, 0.2), (19, 23, 0.4), (27, 31, 0.1))
    judgement = await judged(ToldDetector({answer: DetectorFinding(0.1, words=words)}, whole=True, marks=True), answer)
    assert [claim.support for claim in judgement.claims] == pytest.approx([0.7, 0.1])
    assert judgement.claims[0].reason is None
    assert judgement.claims[1].reason == "marked by the detector: “Snow fell in Rome” (14-31)"
    assert find_faults(words) == [(14, 31)]


async def test_a_score_of_the_whole_answer_is_told_to_be_one() -> None:
    answer = "Oslo was wet. Snow fell in Rome."
    judgement = await judged(ToldDetector({answer: DetectorFinding(0.4)}, whole=True), answer)
    assert [claim.support for claim in judgement.claims] == pytest.approx([0.4, 0.4])
    assert WHOLE_ANSWER in judgement.flags


async def test_a_language_that_the_detector_does_not_read_goes_on_to_the_next_tier() -> None:
    with pytest.raises(TierFailure, match="told reads en; the answer is in 'zh'"):
        await judged(ToldDetector({}), "奥斯陆整个星期都在下雨。")
