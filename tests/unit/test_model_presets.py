"""Embedding models by their names: languages that they read, prefixes that their texts get."""

import socket
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from plumbline.ground.errors import TierFailure
from plumbline.models.encoder import model_files
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from plumbline.models.encoder.model_files import find_model, find_preset
from plumbline.models.encoder.text_reader import TextReader
from tests.making.cases import load_cases
from tests.making.small_models import TOKENS, word_tokenizer

PREFIX = "warm: "


@pytest.mark.parametrize(("model", "languages"), load_cases("model_presets", "languages"))
def test_languages_are_known_by_the_name(model: str, languages: tuple[str, ...]) -> None:
    assert find_preset(model).languages == (set(languages) or None)


@pytest.mark.parametrize(("model", "prefix"), load_cases("model_presets", "e5_models"))
def test_e5_models_have_a_prefix(model: str, prefix: str) -> None:
    assert find_preset(model).prefix == prefix


def test_the_setting_stands_above_the_name() -> None:
    assert SharedEncoder(ModelChoice("all-MiniLM-L6-v2")).languages == frozenset({"en"})
    assert SharedEncoder(ModelChoice("all-MiniLM-L6-v2"), languages=["en", "zh"]).languages == frozenset({"en", "zh"})


def test_a_folder_is_known_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "multilingual-e5-small"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")

    assert find_model(str(folder)).prefix == "query: "


def _reader(prefix: str = PREFIX, most: int = 32) -> TextReader:
    return TextReader(word_tokenizer().to_str(), special={0, 2, 3, 4}, unknown=1, most=most, prefix=prefix)


def test_the_prefix_is_read_with_the_text_and_is_no_part_of_it() -> None:
    reader = _reader()

    reading = reader.read(["bridge river", "xx"])

    begin, end, warm, colon = 2, 3, TOKENS.index("warm"), 1
    bridge, river = TOKENS.index("bridge"), TOKENS.index("river")
    assert reading.tokens == [[begin, warm, colon, bridge, river, end], [begin, warm, colon, 1, end]]
    # The colon is unknown to this tokenizer, and not the text's fault.
    assert (reading.counts, reading.unknown) == ([2, 1], [0, 1])
    assert reader.wanted_places(reading.tokens[0]) == [3, 4]


def test_a_text_is_cut_with_its_prefix() -> None:
    reading = _reader(most=5).read(["bridge river people"])

    assert reading.is_overlong == [True]
    assert len(reading.tokens[0]) == 5
    assert reading.tokens[0][1] == TOKENS.index("warm")


def test_a_text_without_words_keeps_a_token() -> None:
    reader = _reader()

    (tokens,) = reader.read([""]).tokens

    assert reader.wanted_places(tokens)


def test_a_tokenizer_that_joins_blanks_to_words_finds_the_end_of_the_prefix() -> None:
    words = [("<s>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581query", -1.0), (":", -1.0), ("\u2581lamp", -1.0)]
    tokenizer = Tokenizer(models.Unigram([*words, ("\u2581", -2.0), ("a", -2.0)], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    reader = TextReader(tokenizer.to_str(), special={0, 1}, unknown=2, most=None, prefix="query: ")

    reading = reader.read(["lamp"])

    assert reading.tokens == [[0, 3, 4, 5, 1]]
    assert reader.wanted_places(reading.tokens[0]) == [3]


def test_a_hub_that_takes_calls_and_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "_HUB_SECONDS", 0.1)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")

        with pytest.raises(TierFailure, match="LocalEntryNotFoundError"):
            find_model("some/model")
