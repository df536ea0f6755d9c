"""What the image installs: by hash, all that is needed and nothing else, under licences that are accepted."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.reading.dockerfile import read_stages
from tests.reading.licences import licence_of, locked_versions, table

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
LOCKS = ["requirements-image.lock", "requirements-torch.lock", "requirements-build.lock"]
EXTRAS = ("offline", "openvino", "otel", "postgres")
IMAGE = {"python_version": "3.11", "python_full_version": "3.11.9", "sys_platform": "linux", "platform_system": "Linux",
         "platform_machine": "x86_64", "os_name": "posix", "implementation_name": "cpython",
         "platform_python_implementation": "CPython"}  # fmt: skip
# Those with conditions that are met: LGPL for a library that can be replaced, MPL for files that are not changed.
ACCEPTED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "CNRI-Python", "ISC", "LGPL-3.0-only", "MIT", "MPL-2.0", "PSF-2.0", "Zlib",
}  # fmt: skip


def entries(lock: str) -> dict[str, list[str]]:
    """The hashes of each pinned package."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / lock).read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return {line.split()[0]: re.findall(r"--hash=(\S+)", line) for line in text.splitlines()}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_with_hashes(lock: str) -> None:
    found = entries(lock)

    assert found
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", pin) for pin in found)
    assert all(
        hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes) for hashes in found.values()
    )


@pytest.mark.parametrize("lock", [*LOCKS, "requirements.lock"])
def test_no_lock_names_a_place(lock: str) -> None:
    assert "://" not in (DEPLOY / lock).read_text(encoding="utf-8")


@pytest.mark.parametrize("lock", LOCKS)
def test_the_versions_are_those_of_the_tests(lock: str) -> None:
    tested = (DEPLOY / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = {line.partition(" ;")[0] for line in tested}

    assert {pin.removesuffix("+cpu") for pin in entries(lock)} <= pins


def test_the_image_has_all_that_is_needed_and_nothing_else() -> None:
    needed: set[str] = set()
    left = [own_requirements()]
    while left:
        for requirement in left.pop():
            name = canonicalize_name(requirement.name)
            version = locked_versions().get(name)
            assert version is not None, f"{name} is needed and not locked: make lock-image"
            assert requirement.specifier.contains(version, prereleases=True), f"{requirement}, locked {version}"
            if name not in needed or requirement.extras:
                needed.add(name)
                left.append(list(required(name, requirement.extras)))

    assert {canonicalize_name(name) for name in locked_versions()} == needed


def own_requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left, found = [Requirement(line) for line in project["dependencies"]], []
    left.append(Requirement(f"{project['name']}[{','.join(EXTRAS)}]"))
    while left:
        requirement = left.pop()
        if requirement.name == project["name"]:
            left += [
                Requirement(line) for each in requirement.extras for line in project["optional-dependencies"][each]
            ]
        else:
            found.append(requirement)
    return found


def required(name: str, extras: Iterable[str]) -> Iterator[Requirement]:
    for each in map(Requirement, distribution(name).requires or ()):
        environments = [{**IMAGE, "extra": extra} for extra in (*extras, "")]
        if each.marker is None or any(each.marker.evaluate(environment) for environment in environments):
            yield each


def test_the_extras_are_those_of_the_makefile_and_all_is_installed_by_hash() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    stages = read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    steps = [step for stage in stages for run in stage.all("RUN") for step in run.value.split("&&")]
    installs = [step for step in steps if "pip install" in step]

    assert re.search(r"^IMAGE_EXTRAS := (.*)$", makefile, re.MULTILINE)[1].split() == list(EXTRAS)  # type: ignore[index]
    assert len(installs) == 3
    assert all("--require-hashes" in step or "--no-deps --no-index" in step for step in installs)
    assert {lock for step in installs for lock in re.findall(r"wheels/([\w.-]+\.lock)", step)} == set(LOCKS)


def test_no_package_runs_code_at_every_start_of_python() -> None:
    found = {
        file.name for name in locked_versions() for file in distribution(name).files or () if file.suffix == ".pth"
    }

    assert found <= {"distutils-precedence.pth"}, "a .pth file is read, and may be run, whenever Python starts"


def test_every_licence_is_accepted() -> None:
    parts = {name: re.split(r" (?:AND|OR) ", licence_of(name).strip("()")) for name in locked_versions()}

    assert {name: found for name, found in parts.items() if not set(found) <= ACCEPTED} == {}


def test_the_page_of_licences_is_that_of_the_locks() -> None:
    assert (ROOT / "docs" / "reference" / "licences.md").read_text(encoding="utf-8") == table()
