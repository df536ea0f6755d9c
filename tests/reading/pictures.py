"""Pictures of the READMEs: the page of a report with one judged answer, taken in Chromium. `make pictures`."""

import json
import re
import sys
import tempfile
from pathlib import Path

from plumbline.cli.main import main
from tests.reading.generated_pages import EXAMPLE, READMES, ROOT
from tests.running.browser import Opened, chromium

_WIDTH = 900


def take(language: str, readme: Path, picture: Path, folder: Path) -> None:
    """Score the README's own example, and take a picture of its row in the report."""
    (sent,) = (sent for sent, _ in EXAMPLE.findall(readme.read_text(encoding="utf-8")))
    sample = json.loads(sent)
    rows, results, page = (folder / f"{language}{name}" for name in (".jsonl", ".results.jsonl", ".html"))
    rows.write_text(json.dumps(sample) + "\n", encoding="utf-8")
    if main(["score", str(rows), "-o", str(results)]) or main(
        ["report", str(results), "-o", str(page), "--lang", language]
    ):
        raise RuntimeError("the example was not scored")
    with chromium() as browser:
        it = Opened(browser, page, viewport={"width": _WIDTH, "height": 900})
        row = it.page.locator("details.row").first
        row.evaluate("row => { row.open = true; }")
        # It sticks to the top of the window, over the row
        it.page.locator("[data-controls]").evaluate("bar => { bar.hidden = true; bar.style.display = 'none'; }")
        picture.parent.mkdir(parents=True, exist_ok=True)
        row.screenshot(path=str(picture))
        it.context.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for language, readme in zip(("en", "zh"), READMES, strict=True):
            (name,) = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", readme.read_text(encoding="utf-8"))
            take(language, readme, ROOT / name, Path(made))
            sys.stdout.write(f"written: {name}\n")
