"""The action's steps and the comment on a pull request, against a stand-in of GitHub's and GitLab's API."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from plumbline.cli.main import build_parser
from plumbline.integrations.review_comment import main
from tests.doubles.scripted_service import Answer, Asked, ScriptedService, json_answer, scripted
from tests.doubles.scripted_verdicts import FALSE, judge
from tests.unit.test_distribution import LIGHT

ROOT = Path(__file__).parents[2]
TOKEN = "token-of-the-run-0001"


class CommentApi:
    """Comments as both sites keep them: listed a page at a time, made by POST, changed by PATCH or PUT."""

    def __init__(self, comments: list[dict[str, Any]]) -> None:
        self.comments = comments
        self.status = 200

    def __call__(self, asked: Asked) -> Answer:
        assert asked.headers["authorization"] == f"Bearer {TOKEN}"
        if self.status != 200:
            return json_answer({"message": "Resource not accessible by integration"}, self.status)
        if asked.method == "GET":
            first = (int(asked.params["page"]) - 1) * int(asked.params["per_page"])
            return json_answer(self.comments[first : first + int(asked.params["per_page"])])
        if asked.method == "POST":
            self.comments.append({"id": 900, **asked.json})
            return json_answer({}, 201)
        (changed,) = [each for each in self.comments if asked.path.endswith(f"/{each['id']}")]
        changed.update(asked.json)
        return json_answer({})


@contextmanager
def github(folder: Path, api: CommentApi) -> Iterator[tuple[ScriptedService, dict[str, str]]]:
    event = folder / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}), encoding="utf-8")
    with scripted(api) as site:
        yield (
            site,
            {
                "GITHUB_API_URL": site.url,
                "GITHUB_REPOSITORY": "mill/answers",
                "GITHUB_EVENT_PATH": str(event),
                "GITHUB_TOKEN": TOKEN,
            },
        )


@pytest.fixture
def summary(tmp_path: Path) -> str:
    (tmp_path / "summary.md").write_text("## Report\n\n| gate | |\n", encoding="utf-8")
    return str(tmp_path / "summary.md")


def test_the_comment_is_written_once_and_then_replaced(tmp_path: Path, summary: str) -> None:
    others = [{"id": number, "body": "Looks good."} for number in range(100)]
    api = CommentApi(others)

    with github(tmp_path, api) as (site, variables):
        codes = [main([summary, "nightly"], variables), main([summary, "nightly"], variables)]

    assert codes == [0, 0]
    assert [each["body"] for each in api.comments[100:]] == ["<!-- plumbline: nightly -->\n## Report\n\n| gate | |\n"]
    changes = [(each.method, each.path) for each in site.asked if each.method != "GET"]
    assert changes == [
        ("POST", "/repos/mill/answers/issues/7/comments"),
        ("PATCH", "/repos/mill/answers/issues/comments/900"),
    ]


def test_a_merge_request_of_gitlab_gets_a_note(summary: str) -> None:
    api = CommentApi([{"id": 3, "body": "<!-- plumbline: answers -->\nold"}])

    with scripted(api) as site:
        variables = {
            "CI_API_V4_URL": f"{site.url}/api/v4",
            "CI_PROJECT_ID": "12",
            "CI_MERGE_REQUEST_IID": "7",
            "PLUMBLINE_GITLAB_TOKEN": TOKEN,
        }
        code = main([summary], variables)

    assert code == 0
    assert (site.asked[-1].method, site.asked[-1].path) == ("PUT", "/api/v4/projects/12/merge_requests/7/notes/3")
    assert "## Report" in api.comments[0]["body"]


def test_a_long_summary_is_cut_to_what_the_site_takes(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("x" * 100_000, encoding="utf-8")
    api = CommentApi([])

    with github(tmp_path, api) as (_, variables):
        main([str(tmp_path / "long.md")], variables)

    assert len(api.comments[0]["body"]) < 65_536


def test_a_token_that_may_not_write_is_told_in_one_line_without_the_token(
    tmp_path: Path, summary: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api = CommentApi([])
    api.status = 403

    with github(tmp_path, api) as (_, variables):
        code = main([summary], variables)

    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (1, 1)
    assert "no comment: 403 Forbidden; may the token write comments?" in said
    assert TOKEN not in said


def test_a_run_of_no_pull_request_writes_nothing(summary: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([summary], {"GITHUB_TOKEN": TOKEN}) == 0
    assert "this run is of no pull or merge request" in capsys.readouterr().err


def steps() -> dict[str, dict[str, Any]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return {each["id"]: each for each in action["runs"]["steps"]}


def documented_steps(page: str) -> list[dict[str, Any]]:
    """The steps of the workflow that the page shows."""
    text = (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    workflow = re.search(
        r"^```yaml title=\"\.github/workflows/answers\.yml\"\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    assert workflow is not None
    (job,) = yaml.safe_load(workflow[1])["jobs"].values()
    return list(job["steps"])


def light_commands(folder: Path) -> str:
    """A PATH whose Python has the packages of the light install alone."""
    (folder / "bin").mkdir()
    (folder / "light").mkdir()
    (folder / "light/sitecustomize.py").write_text(LIGHT, encoding="utf-8")
    for name in ("python", "python3", "plumbline"):
        started = f"{sys.executable} -m plumbline.cli.main" if name == "plumbline" else sys.executable
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec {started} "$@"\n', encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    return f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def test_the_documented_workflow_runs_with_the_light_install_against_a_service(tmp_path: Path) -> None:
    ask, action, report = [
        each for each in documented_steps("gate-a-pull-request.md") if not each.get("uses", "").startswith("actions/")
    ]
    row = json.dumps({"contexts": ["It is 41 metres high."], "answer": FALSE})
    (tmp_path / "ask_my_app.py").write_text(f"print({row!r})", encoding="utf-8")
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    api = CommentApi([])

    def run(code: str, **more: str) -> int:
        return subprocess.run(
            ["/bin/bash", "-ec", code], cwd=tmp_path, env={**environment, **more}, check=False
        ).returncode

    with scripted(judge) as service, github(tmp_path, api) as (_, variables):
        environment = {
            "PATH": light_commands(tmp_path),
            "PYTHONPATH": f"{tmp_path / 'light'}{os.pathsep}{ROOT / 'app'}",
            "RUNNER_TEMP": str(tmp_path),
            **files,
            **variables,
        }
        codes = [run(ask["run"])]
        inputs = {
            "FILE": action["with"]["file"],
            "OPTIONS": action["with"]["options"],
            "MIN_JUDGED": "0.95",
            "URL": service.url,
            "NAME": "answers",
        }
        codes.append(run(steps()["score"]["run"], **inputs))
        outputs = dict(line.split("=") for line in Path(files["GITHUB_OUTPUT"]).read_text().splitlines())
        codes.append(run(steps()["comment"]["run"], **inputs, SUMMARY=outputs["summary"]))
        codes.append(run(report["run"].replace("${{ steps.answers.outputs.results }}", outputs["results"])))

    assert codes == [0, 1, 0, 0]
    assert Path(outputs["results"]).read_text(encoding="utf-8").count("\n") == 1
    assert 'failures="1"' in Path(outputs["junit"]).read_text(encoding="utf-8")
    (comment,) = api.comments
    assert "65 metres" in comment["body"]
    assert Path(files["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8") in comment["body"]
    assert "65 metres" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_both_languages_show_one_workflow() -> None:
    assert documented_steps("gate-a-pull-request.zh.md") == documented_steps("gate-a-pull-request.md")


def test_the_options_of_action_and_template_are_options_of_the_command() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    template = yaml.safe_load((ROOT / "deploy/gitlab/plumbline.yml").read_text(encoding="utf-8"))

    for options in (action["inputs"]["options"]["default"], template[".plumbline"]["variables"]["PLUMBLINE_OPTIONS"]):
        build_parser(["score"]).parse_args(["score", "rows.jsonl", *options.split()])
    assert "${{" not in "".join(step["run"] for step in steps().values())
