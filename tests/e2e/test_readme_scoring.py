"""Run the files, gates and client of both READMEs as they are printed."""

import json
import re
import shlex
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.main import create_app
from plumbline.models.encoder.encoder import SharedEncoder
from tests.reading.generated_pages import READMES
from tests.running.service import plain_settings, served

ENGLISH, CHINESE = (readme.read_text(encoding="utf-8") for readme in READMES)


def part(text: str, heading: str) -> str:
    """The text below a heading."""
    found = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert found
    return found


GATES = {"en": part(ENGLISH, "Gate a pull request"), "zh": part(CHINESE, "作为合并请求的门禁")}
CLIENTS = {"en": part(ENGLISH, "From Python"), "zh": part(CHINESE, "在 Python 里使用")}


def block(text: str, language: str) -> str:
    """The first block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_gate_of_the_readme_fails_and_says_why(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text(block(GATES[language], "json"), encoding="utf-8")
    commands = block(GATES[language], "bash").splitlines()

    codes = [main(shlex.split(command)[1:]) for command in commands]

    lines = [json.loads(line) for line in Path("results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert codes == [1, 0]
    assert [line["result"]["passed"] for line in lines] == [True, False]
    # Rows of different tiers have gates of their own
    assert re.search(r"^gate (\w+:)?unsupported_share: FAILED", capsys.readouterr().err, re.MULTILINE)
    assert Path("gates.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert "faithfulness" in Path("summary.md").read_text(encoding="utf-8")
    page = Path("report.html").read_text(encoding="utf-8")
    assert f'lang="{"en" if language == "en" else "zh-Hans"}"' in page


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_client_of_the_readme_prints_what_it_says(
    language: str, real_encoder: SharedEncoder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = CLIENTS[language]
    with served(create_app(plain_settings(data_dir=tmp_path), encoder=real_encoder)) as url:
        exec(block(shown, "python").replace("http://127.0.0.1:8000", url), {})  # noqa: S102 - our own README

    printed = re.search(r"^(?:prints|输出) `(.*?)`", shown, re.MULTILINE)
    assert printed is not None
    # among the lines of the service's log
    assert printed[1] in capsys.readouterr().out.splitlines()
