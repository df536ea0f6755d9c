"""The retrieval commands of the README, docs/reference/retrieval.md and docs/how-to/lab.md work as printed."""

import json
import re
import shlex
from pathlib import Path

import pytest

from plumbline.cli.main import main
from tests.running.service import plain_settings, running

ROOT = Path(__file__).parents[2]
README, RETRIEVAL, LAB = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/reference/retrieval.md", "docs/how-to/lab.md")
)
QUICK_START = RETRIEVAL.partition("## Quick start")[2].partition("\nNotation")[0]
COMMANDS = list(
    dict.fromkeys(
        re.findall(r"^plumbline (retrieval (?:evaluate|compare|fuse) [^\n]+)$", README + QUICK_START, re.MULTILINE)
    )
)


async def test_the_curl_is_answered() -> None:
    (body,) = re.findall(r"/v1/retrieval/evaluations .*?-d '(\{.*?\})' \|", QUICK_START, re.DOTALL)

    async with running(plain_settings()) as client:
        response = await client.post("/v1/retrieval/evaluations", json=json.loads(body))

    # d1 first, d4 second.
    assert response.json()["runs"][0]["measures"]["mrr"]["mean"] == 0.75


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n", encoding="utf-8")
    for name in ("bm25.txt", "dense.txt.gz"):
        Path(name).write_text("q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\nq2 Q0 d2 1 3.0 t\n", encoding="utf-8")
    Path("questions.tsv").write_text("qid\tdocument_ids\nq1\t['d1']\n", encoding="utf-8")
    Path("answers.tsv").write_text("qid\tdoc_ids\nq1\t['d1', 'd2']\n", encoding="utf-8")

    code = main(shlex.split(command.split(">", maxsplit=1)[0]))

    assert code == 0
    assert capsys.readouterr().out


def test_every_command_is_shown() -> None:
    assert {command.split()[1] for command in COMMANDS} == {"evaluate", "compare", "fuse"}


def test_the_experiment_of_ones_own_passages_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    passages = LAB.partition("### Passages of your own")[2].partition("\n## ")[0]
    (experiment,) = re.findall(r"```toml\n(\[corpora\..*?)```", passages, re.DOTALL)
    (command,) = re.findall(r"^plumbline (lab [^\n]+)$", passages, re.MULTILINE)
    Path("experiment.toml").write_text(experiment, encoding="utf-8")
    texts, questions = ["the pump leaks oil", "the valve is shut"], ["why does the pump leak", "is the valve shut"]
    rows = {"passages": texts, "questions": questions}
    for name, those in rows.items():
        lines = [json.dumps({"id": f"{name[0]}{place}", "text": text}) for place, text in enumerate(those)]
        Path(f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    Path("qrels.txt").write_text("q0 0 p0 1\nq1 0 p1 1\n", encoding="utf-8")

    code = main(shlex.split(command))

    printed = capsys.readouterr().out
    assert code == 0
    assert [line.split()[1:3] for line in printed.splitlines()[1:]] == [
        [f"manuals.whole.{name}", "1.0000"] for name in ("bm25", "dense", "both")
    ]
    assert "manuals.whole.both" in Path("experiment/table.csv").read_text(encoding="utf-8")
