"""Every request that a page sends with its body is answered, and every Python block names what the package has."""

import ast
import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.running.service import plain_settings, running

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("README*.md"),
    *sorted((ROOT / "docs").glob("tutorial*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CURL = re.compile(r"curl (?:[^'\n]|'[^']*')*")
_SENT = re.compile(r"http://127\.0\.0\.1:8000(/v1/\S+).* (?:-d|--data) '(\{.*\})'", re.DOTALL)


class Sent(NamedTuple):
    """A request of a page."""

    page: str
    path: str
    body: str


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in these languages, continued lines joined."""
    fenced = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [body.replace("\\\n", " ") for language, body in fenced if language in languages]


SENT = [
    Sent(page.name, *found.groups())
    for page in PAGES
    for block in blocks(page, "", "sh", "bash")
    for curl in _CURL.findall(block)
    if (found := _SENT.search(curl))
]


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: f"{sent.page}{sent.path}")
async def test_a_request_of_a_page_is_answered(sent: Sent) -> None:
    async with running(plain_settings()) as client:
        answer = await client.post(sent.path, json=json.loads(sent.body))

    assert answer.status_code in (200, 202), answer.text


def test_the_pages_send_requests() -> None:
    assert len(SENT) >= 8


def has_name(module: str, name: str) -> bool:
    """Look a name up; of an integration, whose package nightly tests install, in its source."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not module.startswith("plumbline.integrations."):
        return hasattr(importlib.import_module(module), name)
    defined = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name for node in defined)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_what_a_python_block_takes_from_the_package_is_there(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("plumbline"):
                assert [each.name for each in node.names if not has_name(module, each.name)] == []
