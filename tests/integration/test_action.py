"""The action's steps and the comment on a pull request, with a stand-in of GitHub's command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from plumbline.cli.main import build_parser
from tests.doubles.scripted_service import scripted
from tests.doubles.scripted_verdicts import FALSE, judge
from tests.unit.test_distribution import LIGHT

ROOT = Path(__file__).parents[2]
TOKEN = "token-of-the-run-0001"


# A stand-in of GitHub's command line: comments are files, and each call is written down.
GH = r"""
import json, os, pathlib, sys
arguments, folder = sys.argv[1:], pathlib.Path(os.environ["COMMENTS"])
options = dict(zip(arguments, arguments[1:]))
path = next(each for each in arguments if each.startswith("repos/"))
if os.environ["GH_TOKEN"] != "token-of-the-run-0001":
    sys.exit("HTTP 403: Resource not accessible by integration")
if "--method" not in options:
    for each in sorted(folder.iterdir()):
        print(each.name, each.read_text().split("\\n")[0])
    sys.exit()
body = pathlib.Path(options["--field"].removeprefix("body=@")).read_text()
name = path.rpartition("/")[2]
(folder / ("900" if name == "comments" else name)).write_text(body)
with (folder.parent / "asked").open("a") as asked:
    print(options["--method"], path, file=asked)
"""


def run_comment(folder: Path, summary: str, **more: str) -> int:
    """Run the action's step; the comments are in `comments`."""
    (folder / "summary.md").write_text(summary, encoding="utf-8")
    (folder / "comments").mkdir(exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/gh").write_text(f"#!{sys.executable}\n{GH}", encoding="utf-8")
    (folder / "bin/gh").chmod(0o755)
    environment = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GH_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "mill/answers",
        "NUMBER": "7",
        "NAME": "answers",
        "SUMMARY": str(folder / "summary.md"),
        "COMMENTS": str(folder / "comments"),
    }
    step = ["/bin/bash", "-ec", steps()["comment"]["run"]]
    return subprocess.run(step, env={**environment, **more}, check=False).returncode


def test_the_comment_is_written_once_and_then_replaced(tmp_path: Path) -> None:
    (tmp_path / "comments").mkdir()
    (tmp_path / "comments/3").write_text("Looks good.", encoding="utf-8")

    codes = [run_comment(tmp_path, text, NAME="nightly") for text in ("## Old\n", "## Report\n\n| gate | |\n")]

    assert codes == [0, 0]
    comment = (tmp_path / "comments/900").read_text(encoding="utf-8")
    assert comment == "<!-- plumbline: nightly -->\n## Report\n\n| gate | |\n"
    assert (tmp_path / "asked").read_text(encoding="utf-8").splitlines() == [
        "POST repos/mill/answers/issues/7/comments",
        "PATCH repos/mill/answers/issues/comments/900",
    ]


def test_a_long_summary_is_cut_to_what_github_takes_between_two_characters(tmp_path: Path) -> None:
    run_comment(tmp_path, "x" + "汉" * 30_000)

    assert len((tmp_path / "comments/900").read_text(encoding="utf-8")) < 65_536


def test_a_token_that_may_not_write_fails_the_step(tmp_path: Path) -> None:
    assert run_comment(tmp_path, "text", GH_TOKEN="of a fork") == 1


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

    def run(code: str, **more: str) -> int:
        return subprocess.run(
            ["/bin/bash", "-ec", code], cwd=tmp_path, env={**environment, **more}, check=False
        ).returncode

    with scripted(judge) as service:
        environment = {
            "PATH": light_commands(tmp_path),
            "PYTHONPATH": f"{tmp_path / 'light'}{os.pathsep}{ROOT / 'app'}",
            "RUNNER_TEMP": str(tmp_path),
            **files,
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
        codes.append(run_comment(tmp_path, Path(outputs["summary"]).read_text(encoding="utf-8")))
        codes.append(run(report["run"].replace("${{ steps.answers.outputs.results }}", outputs["results"])))

    assert codes == [0, 1, 0, 0]
    assert Path(outputs["results"]).read_text(encoding="utf-8").count("\n") == 1
    assert 'failures="1"' in Path(outputs["junit"]).read_text(encoding="utf-8")
    comment = (tmp_path / "comments/900").read_text(encoding="utf-8")
    assert "65 metres" in comment
    assert Path(files["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8") in comment
    assert "65 metres" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_both_languages_show_one_workflow() -> None:
    assert documented_steps("gate-a-pull-request.zh.md") == documented_steps("gate-a-pull-request.md")


def test_the_options_of_action_and_template_are_options_of_the_command() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    template = yaml.safe_load((ROOT / "deploy/gitlab/plumbline.yml").read_text(encoding="utf-8"))

    for options in (action["inputs"]["options"]["default"], template[".plumbline"]["variables"]["PLUMBLINE_OPTIONS"]):
        build_parser(["score"]).parse_args(["score", "rows.jsonl", *options.split()])
    assert "${{" not in "".join(step["run"] for step in steps().values())
