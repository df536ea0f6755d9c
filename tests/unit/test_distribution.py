"""The base install is light: few packages, no framework, no model; what it lacks is named in one line."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import plumbline
from tests.doubles.scripted_service import batch_answer, scripted
from tests.making.cases import load_cases

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAX_PACKAGES = 17
# Importing one of these fails in the processes below, as it does where only the base is installed.
ABSENT = {
    "click", "dotenv", "fastapi", "huggingface_hub", "nltk",
    "numpy", "openai", "openvino", "opentelemetry", "prometheus_client", "psycopg", "pyarrow",
    "pydantic_settings", "rapidfuzz", "re2", "scipy", "sentence_transformers", "sklearn", "starlette",
    "structlog", "tokenizers", "torch", "tqdm", "transformers", "uvicorn",
}  # fmt: skip
LIGHT = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Absent())
"""


def run_light(code: str, *, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Python code in a process that has the packages of the base install alone."""
    return subprocess.run([sys.executable, "-c", LIGHT + code], cwd=folder, capture_output=True, text=True, check=False)


def run_command(*arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return run_light(f"from plumbline.cli.main import main; sys.exit(main({list(arguments)!r}))", folder=folder)


def test_peers_that_hold_back_numpy_can_stand_beside_the_service() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [Requirement(line) for line in (*PROJECT["dependencies"], *extras["service"], *extras["offline"])]

    # vLLM asks for numpy < 2.3: where that is impossible, pip takes a version of years ago.
    assert all(each.specifier.contains("2.2.0") for each in wanted if each.name == "numpy")


@pytest.mark.parametrize("target", ["serve", "test", "nightly", "docs"])
def test_make_says_what_it_installs_before_it_does(target: str, tmp_path: Path) -> None:
    command = ["make", "--dry-run", f"VENV={tmp_path / 'venv'}", f"TOOLS={tmp_path / 'tools'}", target]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()

    steps = [line for line in lines if line.startswith("echo 'plumbline: inst") or "pip-version-check" in line]
    assert steps
    assert all(line.startswith("echo") for line in steps[::2])
    assert not any(line.startswith("echo") for line in steps[1::2])


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_base_install_is_few_packages(platform: str) -> None:
    environment = {"sys_platform": platform, "platform_system": platform.title(), "extra": ""}
    packages = {PROJECT["name"]}
    left = [Requirement(line) for line in PROJECT["dependencies"]]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name not in packages and (requirement.marker is None or requirement.marker.evaluate(environment)):
            packages.add(name)
            left += map(Requirement, distribution(name).requires or ())

    assert len(packages) <= MAX_PACKAGES, sorted(packages)


def test_importing_the_package_loads_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import plumbline\n"
        "new = set(sys.modules) - before\n"
        "print(*sorted(each for each in new if each.partition('.')[0] not in sys.stdlib_module_names))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["plumbline"]


def test_the_client_comes_from_the_top_of_the_package_also_beside_a_package_named_app(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise ImportError('the wrong app')\n", encoding="utf-8")

    done = run_light("from plumbline import AsyncPlumbline, Plumbline; print(Plumbline.__name__)", folder=tmp_path)

    assert (done.stdout, done.stderr) == ("Plumbline\n", "")
    with pytest.raises(AttributeError, match="no attribute 'Plumline'"):
        _ = plumbline.Plumline


def test_rows_are_scored_compared_and_reported_without_a_service_installed(tmp_path: Path) -> None:
    rows = [{"id": str(number), "contexts": ["It rains."], "answer": "It rains."} for number in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked = "['score', 'rows.jsonl', '--url', url, '--quiet', '-o']"
    code = f"""
from plumbline.cli.main import main
url = sys.argv[1]
gates = ['--baseline', 'main.jsonl', '--max-drop', '0.1', '--fail-under', 'faithfulness=0.1']
codes = [
    main({asked} + ['main.jsonl']),
    main({asked} + ['branch.jsonl', *gates, '--junit', 'gates.xml', '--markdown', 'gates.md']),
    main(['report', 'branch.jsonl', '--data', 'rows.jsonl', '--lang', 'zh', '-o', 'report.html', *gates]),
    main(['report', 'branch.jsonl', '-o', 'report.json']),
]
print(*codes)
"""

    with scripted(batch_answer) as service:
        command = [sys.executable, "-c", LIGHT + code, service.url]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout == "0 0 0 0\n", done.stderr
    assert "gate baseline: passed: wanted no drop beyond 0.1, got +0.000, 3 rows" in done.stderr
    assert len((tmp_path / "branch.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert all((tmp_path / name).stat().st_size for name in ("gates.xml", "gates.md", "report.html", "report.json"))


@pytest.mark.parametrize(("url", "said"), load_cases("distribution", "addresses"))
def test_a_run_without_an_address_says_how_to_name_one(tmp_path: Path, url: str, said: str) -> None:
    (tmp_path / "rows.jsonl").write_text('{"contexts": ["It rains."], "answer": "It rains."}\n', encoding="utf-8")

    done = run_command("score", "rows.jsonl", "-o", "out.jsonl", "--url", url, folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"plumbline: {said}")


def test_integrations_need_no_service_installed(tmp_path: Path) -> None:
    code = """
from plumbline.integrations.checker import Checker
from plumbline.integrations import pytest_plugin
Checker().check("It rains.", ["It rains."])
"""

    done = run_light(code, folder=tmp_path)

    assert done.stderr.splitlines()[-1].endswith(
        "nothing judges here: name a running service by --url or PLUMBLINE_URL, or pip install 'plumbline-rag[service]'"
    )


@pytest.mark.parametrize("command", ["serve", "worker", "keys", "calibrate", "retrieval"])
def test_a_command_says_what_to_install(command: str) -> None:
    done = run_command(command, "list" if command == "keys" else "--help")

    needs, extra = ("numpy and scipy", "retrieval") if command == "retrieval" else ("the service", "service")
    said = f"plumbline {command} needs {needs}: pip install 'plumbline-rag[{extra}]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_the_retrieval_functions_say_what_to_install() -> None:
    done = run_light("import plumbline; plumbline.retrieval.evaluate")

    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: plumbline.retrieval.evaluate needs numpy: pip install 'plumbline-rag[retrieval]'"
    )


def test_retrieval_runs_with_numpy_and_scipy_alone() -> None:
    asked = "import plumbline; print(plumbline.retrieval.evaluate({'q': ['d']}, {'q': ['x', 'd']}, 'mrr'))"

    done = subprocess.run(
        [sys.executable, "-c", f"import numpy, scipy, scipy.special\n{LIGHT}\n{asked}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("0.5\n", "")


def test_the_help_and_the_version_need_no_service() -> None:
    shown, version = run_command("--help"), run_command("--version")

    assert (shown.returncode, version.returncode) == (0, 0)
    assert "serve" in shown.stdout
    assert version.stdout == f"plumbline {plumbline.__version__}\n"


def test_every_command_starts_where_the_system_has_no_fcntl() -> None:
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import pkgutil, importlib, plumbline\n"
        "for each in pkgutil.walk_packages(plumbline.__path__, 'plumbline.'):\n"
        "    try:\n"
        "        importlib.import_module(each.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        assert error.name != 'fcntl', each.name\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr == ""


def test_the_version_of_the_image_is_that_of_the_package() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")

    assert f"\nARG VERSION={plumbline.__version__}\n" in dockerfile
    assert f"image: plumbline:{plumbline.__version__}\n" in compose
