"""The worked example of docs/how-to/rates.md: each command is run, and prints what the page shows."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from plumbline.cli.main import main
from tests.making.result_rows import scored_line

PAGE = Path("docs/how-to/rates.md")
# A command, and what it prints, in two fenced blocks.
EXAMPLE = re.compile(r"```\n(plumbline [^\n]+)\n```\n\n```\n(.*?)```", re.DOTALL)
ROWS, UNFAITHFUL = 2_000, 0.1


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The files of the example; a tenth of the answers is unfaithful, and scores tell them apart in part."""
    rng = np.random.default_rng(28)
    unfaithful = rng.permutation(ROWS) < UNFAITHFUL * ROWS
    scores = np.round(np.clip(rng.normal(np.where(unfaithful, 0.35, 0.7), 0.15), 0, 1), 3)
    chosen = rng.permutation(ROWS)[:100]

    def write(name: str, rows: np.ndarray, found: np.ndarray) -> None:
        lines = [
            scored_line(f"q{row}", float(found[row]), row=int(row), tier="lexical", passed=bool(found[row] >= 0.5))
            for row in rows
        ]
        (tmp_path / name).write_bytes(b"\n".join(lines))

    def label(name: str, rows: np.ndarray) -> None:
        lines = [json.dumps({"custom_id": f"q{row}", "label": int(not unfaithful[row])}) for row in rows]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")

    write("results.jsonl", np.arange(ROWS), scores)
    label("labels.jsonl", chosen)
    label("more-labels.jsonl", rng.permutation(ROWS)[:300])
    anchors = np.arange(300)
    write("anchors-judged.jsonl", anchors, scores)
    write("now.jsonl", anchors, np.where(rng.random(ROWS) < 0.1, np.round(np.minimum(scores + 0.3, 1), 3), scores))
    monkeypatch.chdir(tmp_path)
    return unfaithful


def test_the_page_shows_what_its_commands_print(files: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.mean() == UNFAITHFUL
    page = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8")
    examples = EXAMPLE.findall(page)

    assert len(examples) == 4
    for command, shown in examples:
        code = main(shlex.split(command)[1:])
        assert (capsys.readouterr().out, code) == (shown, int(" drift " in command)), command
