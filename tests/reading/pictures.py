"""Pictures of the READMEs: their own example, judged on the page of a running service in Chromium. `make pictures`."""

import json
import re
import sys
from pathlib import Path

from plumbline.main import create_app
from tests.reading.generated_pages import EXAMPLE, READMES, ROOT
from tests.running.browser import chromium
from tests.running.service import plain_settings, served

_WIDTH = 1240


def take(url: str, readme: Path, picture: Path) -> None:
    """Judge the README's example as a person does, and take a picture of what the page found."""
    ((sent, _),) = EXAMPLE.findall(readme.read_text(encoding="utf-8"))
    language = "zh" if "zh" in readme.name else "en"
    with chromium() as browser:
        context = browser.new_context(viewport={"width": _WIDTH, "height": 900}, color_scheme="light")
        page = context.new_page()
        page.goto(f"{url}/?lang={language}")
        page.locator("details.more summary").click()
        page.locator("[name=pasted]").fill(json.dumps(json.loads(sent), ensure_ascii=False))
        page.locator("button.main").click()
        result = page.locator("#result")
        result.wait_for()
        # Below the judgement are the requests by curl and from Python
        page.locator(".codes").evaluate("codes => { codes.hidden = true; }")
        page.evaluate("document.activeElement.blur()")
        picture.parent.mkdir(parents=True, exist_ok=True)
        result.screenshot(path=str(picture))
        context.close()


if __name__ == "__main__":
    # Both examples are judged by the bundled model and by words
    with served(create_app(plain_settings(warm_up=True))) as url:
        for readme in READMES:
            (name,) = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", readme.read_text(encoding="utf-8"))
            take(url, readme, ROOT / name)
            sys.stdout.write(f"written: {name}\n")
