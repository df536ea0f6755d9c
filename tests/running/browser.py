"""Pages in a real Chromium: what a page asks for, and what it says."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Set before anything of the page runs; any of the hostile texts would change it.
WATCH = """
window.ran = null;
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; the test is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: install Debian's package `chromium`")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")
    with playwright.sync_playwright() as running:
        # In a container of root Chromium has no sandbox to start.
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in the browser, and what it asked for and said."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.blocked: dict[str, str] = {}
        self.said: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.context.on("requestfailed", lambda request: self.blocked.update({request.url: request.failure}))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.add_init_script(WATCH)
        self.page.goto(path.as_uri())
