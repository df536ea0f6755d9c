"""Every command of docs/how-to/jobs.md, run in its order with curl against the service."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.running.service import plain_settings, served

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "jobs.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
BASH, CURL = shutil.which("bash"), shutil.which("curl")
_BETWEEN = "--- the next commands ---"


@pytest.mark.skipif(BASH is None or CURL is None, reason="needs bash and curl")
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    app = create_app(plain_settings(data_dir=tmp_path / "data"), encoder=WordEncoder())
    with served(app) as url:
        script = f"\necho; echo '{_BETWEEN}'\n".join(COMMANDS).replace("http://127.0.0.1:8000", url)
        ran = subprocess.run(
            [str(BASH), "-euo", "pipefail", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert ran.returncode == 0, ran.stderr + ran.stdout[-2_000:]
    said = [each.strip() for each in ran.stdout.split(_BETWEEN)]
    assert len(said) == len(COMMANDS) == 12
    lines, form, body, taken, looks, rows, page, table, changes, again, gone = said[1:]
    assert [json.loads(each)["name"] for each in (lines, form, body)] == ["as lines", "as a form", "as JSON"]
    assert json.loads(taken)["status"] == "queued"
    assert '"status":"completed_with_errors"' in looks
    assert re.findall(r'"next":"(/v1/jobs\?limit=2&before=job_\w+)"', looks)
    assert [sorted(json.loads(each)) for each in rows.splitlines()] == [
        ["custom_id", "result", "row"],
        ["custom_id", "result", "row"],
        ["custom_id", "error", "line", "row"],
    ]
    assert page.count('"custom_id":"q2"') == 1
    assert 'rel="next"' in page.splitlines()[-1]
    assert (tmp_path / "results.csv").read_text(encoding="utf-8").startswith("custom_id,row,status,")
    assert table == ""
    assert re.findall(r'"status":"(\w+)"', changes) == ["paused", "queued", "cancelled"]
    # the service has no judge, so all its rows fell to a lower tier
    assert json.loads(again)["status"] == "queued"
    assert gone == ""
