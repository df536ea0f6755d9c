"""Every example of docs/how-to/client.md runs and prints what stands beneath it."""

import functools
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_service import NDJSON, Answer, Asked, job_info, json_answer, result_of, scripted
from tests.running.service import plain_settings, served

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
URL = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        yield url


def test_every_example_is_one_that_is_run() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 5


@pytest.mark.parametrize(
    ("code", "printed"), [each for each in EXAMPLES if "jobs" not in each[0]], ids=["one", "many", "asyncio", "errors"]
)
def test_an_example_prints_what_the_page_says(code: str, printed: str, service: str) -> None:
    assert output_of(code, service) == printed


def test_the_example_of_a_job_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [(code, printed)] = [each for each in EXAMPLES if "jobs" in each[0]]
    monkeypatch.chdir(tmp_path)
    Path("samples.jsonl").write_text("{}\n", encoding="utf-8")

    with scripted(a_job) as service:
        assert output_of(code, service.url) == printed


def output_of(code: str, url: str) -> str:
    assert URL in code
    out = io.StringIO()
    # Not standard output, which the service's log has too.
    names = {"__name__": "example", "print": functools.partial(print, file=out)}
    exec(compile(code.replace(URL, url), "docs/how-to/client.md", "exec"), names)  # noqa: S102
    return out.getvalue()


def a_job(asked: Asked) -> Answer:
    if asked.path == "/v1/jobs/job-1":
        return json_answer(job_info("completed", done=4))
    if asked.path.endswith("/results"):
        rows = [{"custom_id": f"q{row}", "row": row, "result": result_of(f"q{row}")} for row in range(4)]
        return Answer([json.dumps(row).encode() + b"\n" for row in rows], media_type=NDJSON)
    return json_answer(job_info("queued"), 202)
