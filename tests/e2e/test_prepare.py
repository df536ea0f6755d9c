"""`plumbline doctor prepare`: says what runs the model, or in one line why nothing does."""

from pathlib import Path

import pytest

from plumbline.cli.main import main
from tests.making.small_models import save_small_model


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_model_is_made_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_EMBEDDING_MODEL", str(save_small_model(tmp_path, "bert")))
    capsys.readouterr()

    assert main(["doctor", "prepare"]) == 0

    said = capsys.readouterr().out.strip().splitlines()[-1]
    assert said.startswith("model, ")
    assert said.endswith(" cpu fp32: ready")


def test_a_model_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_EMBEDDING_MODEL", str(tmp_path))

    assert main(["doctor", "prepare"]) == 2

    assert "cannot be loaded" in capsys.readouterr().err.splitlines()[-1]
