"""The arrows of ARCHITECTURE.md and the fences around third parties, read off the imports themselves."""

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.making.cases import load_cases

PACKAGE = Path(__file__).parents[2] / "app" / "plumbline"

# The rules and what they mean are in tests/data/cases/architecture.toml.
ARROWS, ROOMS, FENCES = (
    {name: set(allowed) for name, allowed in load_cases("architecture", key).items()}
    for key in ("arrows", "rooms", "fences")
)
ANYWHERE, LAZY = (set(load_cases("architecture", key)) for key in ("anywhere", "lazy"))


def area_of(path: Path, package: Path = PACKAGE) -> str:
    """Return the area of a file: its folder in the package, or its own name."""
    parts = path.relative_to(package).parts
    return parts[0] if len(parts) > 1 else path.stem


def room_of(parts: Sequence[str]) -> str:
    """Return the first two names below the package, as `judging/text`."""
    return "/".join(parts[:2])


def target_of(names: list[str], package: Path) -> str:
    """Return the area that `plumbline.<names>` lies in; names of the package itself are `__init__`'s."""
    is_area = bool(names) and ((package / names[0]).exists() or (package / f"{names[0]}.py").exists())
    return names[0] if is_area else "__init__"


def is_inside(place: str, fence: set[str]) -> bool:
    """Tell whether a file lies in one of the folders, files or areas of a fence."""
    return any(place in (each, f"{each}.py") or place.startswith(f"{each}/") for each in fence)


@cache
def imports_of(path: Path) -> tuple[tuple[str, bool], ...]:
    """Return each module that a file imports, and True if it is imported when the file is."""
    return tuple(_imports(ast.parse(path.read_text(encoding="utf-8")), is_early=True))


def _imports(tree: ast.AST, *, is_early: bool) -> Iterator[tuple[str, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, is_early) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.module, is_early
                if node.module == "plumbline":
                    yield from ((f"plumbline.{alias.name}", is_early) for alias in node.names)
        elif not isinstance(node, ast.expr):
            is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            is_later = is_typing or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(node, is_early=is_early and not is_later)


def breaches(package: Path = PACKAGE) -> list[str]:
    """List every import that turns an arrow, jumps a fence or is made too early."""
    found = []
    for path in sorted(package.rglob("*.py")):
        area, relative = area_of(path, package), path.relative_to(package)
        place, room = relative.as_posix(), room_of(relative.with_suffix("").parts)
        if area not in ARROWS:
            found.append(f"{place}: area {area!r} has no arrows")
            continue
        for module, is_early in imports_of(path):
            top, *rest = module.split(".")
            if top == "plumbline":
                target = target_of(rest, package)
                if target not in ARROWS[area] | {area}:
                    found.append(f"{place}: {area} -> {target}")
                inner = room_of(rest)
                if target == area and inner not in ROOMS.get(room, {inner}) | {room}:
                    found.append(f"{place}: {room} -> {inner}")
            elif top not in sys.stdlib_module_names:
                if top not in ANYWHERE and not is_inside(place, FENCES.get(top, set())):
                    found.append(f"{place}: imports {top}")
                if top in LAZY and is_early:
                    found.append(f"{place}: imports {top} at import")
    return found


def test_every_import_follows_the_arrows_and_the_fences() -> None:
    assert breaches() == []


@pytest.mark.parametrize(("place", "line", "breach"), load_cases("architecture", "breaches"))
def test_a_planted_breach_is_found(tmp_path: Path, place: str, line: str, breach: str) -> None:
    for area in ARROWS:
        (tmp_path / f"{area}.py").touch() if (PACKAGE / f"{area}.py").exists() else (tmp_path / area).mkdir()
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(f"{line}\n", encoding="utf-8")

    found = breaches(tmp_path)

    assert any(breach in each for each in found), found


def test_the_package_has_few_areas() -> None:
    entries = {path.name for path in PACKAGE.iterdir() if path.stem != "__pycache__"} - {"__init__.py"}

    assert len(entries) <= 14, sorted(entries)


def test_no_room_has_a_name_that_says_nothing() -> None:
    nameless = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"}

    assert [path.name for path in PACKAGE.rglob("*.py") if path.stem in nameless] == []


def test_no_file_has_outgrown_its_idea() -> None:
    longest_reasonable = 450

    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}

    assert {name: lines for name, lines in lengths.items() if lines > longest_reasonable} == {}


def files_imported() -> dict[str, set[str]]:
    """For each file of ours, as a module, those that it imports; types alone count too."""
    modules = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    return {name: {module for module, _ in imports_of(path) if module in modules} for name, path in modules.items()}


def test_no_file_needs_itself_by_way_of_others() -> None:
    graph = files_imported()

    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, "plumbline.ground.errors": {"plumbline.main"}}).prepare()
