"""What is installed from the built wheel has everything that the checkout has."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from plumbline.judging.judge.questions import read_prompts
from plumbline.judging.tiers.calibration import load_calibrations

ROOT = Path(__file__).parents[2]

READ_PROMPTS = """
import json, plumbline
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.judge.questions import read_prompts
print(json.dumps({
    "place": plumbline.__file__,
    "digests": {p.label: p.digest for p in read_prompts("verify_claims", "v4").values()},
    "calibrations": len(load_calibrations(None).entries),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the unpacked wheel and nothing of the checkout."""
    out, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    zipfile.ZipFile(next(out.glob("*.whl"))).extractall(site)
    return site


def test_prompts_and_calibrations_are_read_from_an_installed_wheel(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    run = subprocess.run(
        [sys.executable, "-P", "-c", READ_PROMPTS], cwd=installed, env=environment, check=True, capture_output=True
    )

    said = json.loads(run.stdout)
    assert Path(said["place"]).is_relative_to(installed)
    assert said["digests"] == {prompt.label: prompt.digest for prompt in read_prompts("verify_claims", "v4").values()}
    assert said["calibrations"] == len(load_calibrations(None).entries)


def test_the_wheel_holds_no_test_and_no_benchmark(installed: Path) -> None:
    tops = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}

    assert tops == {"plumbline"}


def test_the_wheel_is_typed_and_carries_its_license(installed: Path) -> None:
    (licence,) = installed.glob("*.dist-info/licenses/LICENSE")

    assert (installed / "plumbline" / "py.typed").is_file()
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_console_script_names_a_function_that_is_there(installed: Path) -> None:
    (declared,) = installed.glob("*.dist-info/entry_points.txt")
    entries = ConfigParser()
    entries.read_string(declared.read_text(encoding="utf-8"))
    module, _, function = entries["console_scripts"]["plumbline"].partition(":")

    assert callable(getattr(importlib.import_module(module), function))
    assert importlib.util.find_spec(entries["pytest11"]["plumbline"]) is not None
