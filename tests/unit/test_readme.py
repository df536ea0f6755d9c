"""The README says what the code does."""

import re
from pathlib import Path

from plumbline.ground.settings import Settings, variable_name
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.tier import TierName

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_settings_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.+?) \| (.+) \|$", README, re.MULTILINE)

    assert rows == [
        (variable_name(name), _default(field.default), field.description)
        for name, field in Settings.model_fields.items()
    ]


def test_every_make_target_and_file_that_the_readme_names_exists() -> None:
    targets = set(re.findall(r"make ([a-z]+)", README))
    files = set(re.findall(r"`((?:docs/[\w/.-]+)|[A-Z]+\.md)`", README))

    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()
    assert {file for file in files if not (ROOT / file).exists()} == set()


def test_the_highest_score_of_each_tier_is_that_of_its_calibrations() -> None:
    table = load_calibrations(None)
    highest = [f"{table.highest(tier):g} in tier {tier}" for tier in TierName]

    assert f"The highest score is {', '.join(highest[:2])} and {highest[2]}:" in README


def _default(value: object) -> str:
    if value is None or value == ():
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
