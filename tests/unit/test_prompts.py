"""Prompts: files with a digest, and values that cannot become instructions."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from plumbline.judging.judge.metrics import METRICS
from plumbline.judging.judge.questions import PROMPT_VERSION, Prompt, read_prompts
from plumbline.judging.text.verdicts import Verdict
from plumbline.judging.text.words import Language
from tests.making.cases import load_cases

ROOT = Path(__file__).parents[2] / "prompts"


def built_in() -> list[Prompt]:
    """Every prompt there is, of every name, version and language."""
    versions = sorted({(file.parent.name, file.name.split(".")[0]) for file in ROOT.glob("*/*.toml")})
    prompts = [read_prompts(*each) for each in versions]
    return [prompt for by_language in prompts for prompt in (by_language["en"], by_language["zh"])]


def of_chats() -> list[Prompt]:
    """All but the questions to decision models, which have no data and no reply in words."""
    return [prompt for prompt in built_in() if prompt.name != "decide_claims"]


def test_no_prompt_that_was_given_out_is_changed() -> None:
    digests = {prompt.label: prompt.digest[:12] for prompt in built_in()}

    assert digests == {
        "ask_metrics/v4.en": "749df6ffec91",
        "ask_metrics/v4.zh": "0d6cf72c3407",
        "check_claims/v4.en": "d5881753fee7",
        "check_claims/v4.zh": "d76b207f2bc5",
        "decide_claims/v1.en": "fef87ef7f8f3",
        "decide_claims/v1.zh": "bd3d71bc4d70",
        "verify_claims/v4.en": "854a9b5f513b",
        "verify_claims/v4.zh": "080590e4bc56",
    }


@pytest.mark.parametrize("prompt", built_in(), ids=lambda prompt: prompt.label)
def test_the_digest_is_the_sha256_of_the_file(prompt: Prompt) -> None:
    content = (ROOT / f"{prompt.label}.toml").read_bytes()

    assert prompt.digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("prompt", of_chats(), ids=lambda prompt: prompt.label)
@pytest.mark.parametrize("hostile", load_cases("prompts", "hostile"))
def test_hostile_text_is_neither_expanded_nor_let_out_of_its_block(prompt: Prompt, hostile: str) -> None:
    data = json.dumps({"contexts": [{"id": 1, "text": hostile}]}, ensure_ascii=False)

    user = prompt.render_user(marker="0123456789abcdef", data=data)

    before, inside, after = re.split(r"(?:^|(?<=\n))(?:BEGIN|END) 0123456789abcdef(?:\n|$)", user)
    assert json.loads(inside)["contexts"][0]["text"] == hostile
    assert hostile not in before + after
    assert "{{" not in before + after + prompt.system


@pytest.mark.parametrize("name", ["verify_claims", "check_claims"])
def test_all_but_one_closing_line_stands_before_the_mark_and_is_the_same_in_every_request(name: str) -> None:
    for prompt in read_prompts(name, "v4").values():
        users = [prompt.render_user(marker=marker, data="{}") for marker in ("a" * 16, "b" * 16)]

        before, after = prompt.user.split("{{marker}}", 1)[0], prompt.user.split("END {{marker}}\n")[1]

        assert all(user.startswith(before) and before.endswith("\nBEGIN ") for user in users)
        assert "\n" not in after
        assert len(prompt.system) > 10 * len(after)


@pytest.mark.parametrize("prompt", of_chats(), ids=lambda prompt: prompt.label)
def test_every_verdict_and_the_word_json_stand_in_the_built_in_prompts(prompt: Prompt) -> None:
    verdicts = (
        [verdict for metric in METRICS.values() for probe in metric.probes for verdict in probe.words]
        if prompt.parts
        # A sentence that says more than the contexts is split.
        else [verdict for verdict in Verdict if prompt.name == "check_claims" or verdict is not Verdict.PARTIAL]
    )
    text = "\n".join((prompt.system, *prompt.parts.values()))
    for word in (*verdicts, "JSON"):
        assert word in text


@pytest.mark.parametrize(("name", "language", "most"), load_cases("prompts", "short"))
def test_the_system_text_that_every_call_pays_for_is_short(name: str, language: Language, most: int) -> None:
    assert len(read_prompts(name, PROMPT_VERSION)[language].system) <= most


@pytest.mark.parametrize("prompt", of_chats(), ids=lambda prompt: prompt.label)
def test_the_reply_begins_with_the_mark_as_the_request_ends_by_saying(prompt: Prompt) -> None:
    assert prompt.user.endswith(('{"mark":"{{marker}}",', '{"mark":"{{marker}}","sentences":[', '","claims":['))
    # No mark that could be copied in place of the request's own.
    assert '"mark"' in prompt.system
    assert not re.search(r'"mark":\s*"[0-9a-f]', prompt.system)


def test_an_answer_in_another_language_is_judged_with_the_english_prompt() -> None:
    assert read_prompts("verify_claims", "v4")["other"].language == "en"


@pytest.mark.parametrize("prompt", built_in(), ids=lambda prompt: prompt.label)
def test_a_prompt_uses_the_variables_that_are_filled_and_no_others(prompt: Prompt) -> None:
    filled = {"statement"} if prompt.name == "decide_claims" else {"marker", "data"}

    assert set(re.findall(r"\{\{(\w+)\}\}", prompt.user)) == filled
    assert "{{" not in "".join((prompt.system, *prompt.parts.values()))
