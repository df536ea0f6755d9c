"""Every command, variable and name of the package that a document has exists."""

import ast
import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from plumbline.cli.main import build_parser
from plumbline.ground.settings import Settings, load_settings, variable_name
from plumbline.models.chat.endpoints import resolve_judges
from tests.running.peers import VERSIONS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / ".github").glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"(?<![\w./:-])(?<!from )(?:plumbline )?plumbline ((?!plumbline)(?:[a-z][a-z-]+)\b(?: [^\n|>&#;]*)?)"
)
# Read by the client, tests and the GitLab template, not settings; a mistyped one that is shown
_OTHERS = {"PLUMBLINE_API_KEY", "PLUMBLINE_URL", "PLUMBLINE_OPTIONS", "PLUMBLINE_TRESHOLD", "PLUMBLINE_TEST_SERVERS"}


def commands(page: Path) -> list[str]:
    """List the commands in the fenced code of a page, continued lines joined, comments left out."""
    fenced = "\n".join(_FENCE.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    return _COMMAND.findall(re.sub(r" #.*", "", fenced))


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_every_command_of_a_page_is_understood(page: Path) -> None:
    for command in commands(page):
        arguments = shlex.split(command.replace("…", ""))
        try:
            build_parser(arguments).parse_args(arguments)
        except SystemExit as error:
            pytest.fail(f"plumbline {command}: {error}")


def test_every_variable_of_a_page_is_a_setting() -> None:
    known = {variable_name(name) for name in Settings.model_fields} | _OTHERS
    named = {
        (page.name, variable)
        for page in PAGES
        # A changelog names settings that went.
        if page.name != "CHANGELOG.md"
        for variable in re.findall(r"\bPLUMBLINE_[A-Z_]*[A-Z](?![A-Z_.*])", page.read_text(encoding="utf-8"))
    }

    assert {(page, variable) for page, variable in named if variable not in known} == set()


@pytest.mark.parametrize("page", ["turn-on-a-judge.md", "turn-on-a-judge.zh.md"])
def test_the_variables_of_each_provider_make_a_judge(page: str) -> None:
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n((?:export .*\n)+)```$", text, re.MULTILINE)
    providers = []

    for block in blocks:
        with pytest.MonkeyPatch.context() as environment:
            # Blocks of prices, fallbacks or headers come on top of a judge
            environment.setenv("DASHSCOPE_API_KEY", "sk-of-a-test")
            for assignment in shlex.split(block.replace("export ", " "), comments=True):
                environment.setenv(*assignment.split("=", 1))
            judges = resolve_judges(load_settings())
        providers.append(judges["default"][0].provider.name)

    assert {"dashscope", "openai", "azure", "vllm", "ollama"} <= set(providers)


def test_the_versions_of_other_packages_that_are_tested_are_named() -> None:
    pages = "".join((ROOT / "docs/how-to" / name).read_text() for name in ("drop-in.md", "evaluators.md"))

    assert [name for name, version in VERSIONS.items() if f"{name} {version}" not in pages] == []


def has_name(module: str, name: str) -> bool:
    """Look a name up; of an integration, whose package nightly tests install, in its source."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not module.startswith("plumbline.integrations."):
        return hasattr(importlib.import_module(module), name)
    defined = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name for node in defined)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _PYTHON.findall(page.read_text(encoding="utf-8"))], ids=lambda page: page.name
)
def test_what_a_python_block_takes_from_the_package_is_there(page: Path) -> None:
    for block in _PYTHON.findall(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("plumbline"):
                assert [each.name for each in node.names if not has_name(module, each.name)] == []
