"""What the README shows of files, of the client and of jobs, run as it stands there."""

import json
import re
import shlex
from pathlib import Path

import httpx2
import pytest

from plumbline.cli.main import main
from plumbline.main import create_app
from plumbline.models.encoder.encoder import SharedEncoder
from plumbline.schemas.jobs import JobInfo
from tests.running.service import plain_settings, served

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FILES = README.partition("## Score a file")[2].partition("## From Python")[0]
CLIENT = README.partition("## From Python")[2].partition("## Leave it")[0]
JOBS = README.partition("## Leave it to the service")[2].partition("\n## ")[0]


def block(text: str, language: str) -> str:
    """The first block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_commands_of_the_readme_score_report_and_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text(block(FILES, "json"), encoding="utf-8")
    commands = [line for found in re.findall(r"```bash\n(.*?)```", FILES, re.DOTALL) for line in found.splitlines()]

    codes = [main(shlex.split(command)[1:]) for command in commands]

    told = capsys.readouterr()
    lines = [json.loads(line) for line in Path("results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert codes == [0, 0, 0, 1]
    assert "rows" in told.out
    assert [(line["custom_id"], line["result"]["passed"]) for line in lines] == [("opened", True), ("invented", False)]
    assert "Penguins" in Path("report.html").read_text(encoding="utf-8")
    gates = dict(re.findall(r"gate (\w+): (\w+):", told.err))
    assert gates == {
        "faithfulness": "passed",
        "unsupported_share": "passed",
        "degraded": "FAILED",
        "baseline": "passed",
    }
    assert Path("gates.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert "faithfulness" in Path("summary.md").read_text(encoding="utf-8")


def test_the_client_of_the_readme_prints_what_it_says(
    real_encoder: SharedEncoder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with served(create_app(plain_settings(data_dir=tmp_path), encoder=real_encoder)) as url:
        exec(block(CLIENT, "python").replace("http://127.0.0.1:8000", url), {})  # noqa: S102 - our own README

    printed = re.search(r"^prints `(.*?)`", CLIENT, re.MULTILINE)
    assert printed is not None
    # among the lines of the service's log
    assert printed[1] in capsys.readouterr().out.splitlines()


def test_the_job_of_the_readme_is_taken(tmp_path: Path) -> None:
    command = shlex.split(block(JOBS, "bash"))
    assert command[:3] == ["curl", "-s", "http://127.0.0.1:8000/v1/jobs"]
    parts = dict(part.split("=", 1) for part in command[4::2])
    assert parts["file"] == "@data.jsonl"

    with served(create_app(plain_settings(data_dir=tmp_path))) as url:
        files = {"file": ("data.jsonl", block(FILES, "json").encode())}
        answer = httpx2.post(f"{url}/v1/jobs", files=files, data={"choices": parts["choices"]})

    assert answer.status_code == 202
    assert JobInfo.model_validate_json(answer.content).name == "nightly"
