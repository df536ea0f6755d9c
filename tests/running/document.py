"""Run the code of a page of docs/ as its reader would: in order, in one folder, against a service."""

import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from plumbline.cli.main import main

URL = "http://127.0.0.1:8000"
_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Progress of commands, and the log of a service in this process
_EVENT = re.compile(r"^(?:\{.*\"event\": |\d{4}-\d\d-\d\d \S+ \[).*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A block of code and the output that the page prints beneath it, `...` standing for anything; None: none shown."""

    language: str
    code: str
    printed: str | None


def steps_of(page: Path) -> Iterator[Step]:
    """Yield the blocks that are run: bash, python, and files that have a title, as `cat > TITLE`."""
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    for (language, title, code), following in pairwise([*blocks, ("", "", "")]):
        printed = following[2] if following[0] == "text" else None
        if title:
            yield Step("file", f"{title}\n{code}", None)
        elif language in {"bash", "python"}:
            yield Step(language, code, printed)


def run(step: Step, url: str) -> str:
    """Run a step in the working folder and return what it printed, standard error included."""
    code = step.code.replace(URL, url)
    if step.language == "file":
        title, _, text = code.partition("\n")
        Path(title).parent.mkdir(parents=True, exist_ok=True)
        Path(title).write_text(text, encoding="utf-8")
        return ""
    out = io.StringIO()
    if step.language == "python":
        names = {"__name__": "__main__", "print": functools.partial(print, file=out)}
        with warnings.catch_warnings(action="ignore"):
            exec(compile(code, "page", "exec"), names)  # noqa: S102 - our own page
        return out.getvalue()
    for line in _commands(code):
        out.write(_command(line) if re.match(r"plumbline ", line) else _shell(line))
    return _EVENT.sub("", out.getvalue()).replace(url, URL)


def matches(output: str, printed: str) -> bool:
    """Tell if the output is what is printed, where `...` stands for anything."""
    wanted = re.escape(printed.strip()).replace(re.escape("..."), ".*")
    return re.fullmatch(wanted, output.strip(), re.DOTALL) is not None


def _commands(code: str) -> list[str]:
    """Split a block before and after each line of `plumbline`; the lines between are one script."""
    joined = code.replace("\\\n", " ")
    return [part for part in re.split(r"^(plumbline .*)$", joined, flags=re.MULTILINE) if part.strip()]


def _command(line: str) -> str:
    """Run `plumbline` in this process, which spares the start of one."""
    line, _, or_else = line.partition(" || ")
    line, _, target = line.partition(" > ")
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors if target else out):
        code = main(shlex.split(line)[1:])
    if target:
        Path(target.strip()).write_text(out.getvalue(), encoding="utf-8")
        return ""
    assert code == 0 or or_else, f"{line}: exit code {code}\n{out.getvalue()}"
    return out.getvalue() + (f"exit code {code}\n" if code else "")


def _shell(code: str) -> str:
    # `python` and `plumbline` are those of the tests, whatever is installed beside them.
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    shell = ["/bin/bash", "-euo", "pipefail", "-c", code]
    ran = subprocess.run(shell, capture_output=True, text=True, check=False, env=here)
    assert ran.returncode == 0, f"{code}\n{ran.stdout}{ran.stderr}"
    return ran.stdout
