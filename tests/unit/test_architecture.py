"""The arrows of ARCHITECTURE.md and the fences around third parties, read off the imports themselves."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "app"

# What each room may import of ours. A room that is not named here fails the test: give it its arrows first.
FLOOR = {"concurrency", "errors", "exchange", "observation", "readiness", "settings", "telemetry", "uncertainty"}
# Files that are locked, and replaced as a whole.
FILES = {"file_lock", "whole_file"}
ARROWS: dict[str, set[str]] = {
    "__init__": set(),
    "concurrency": set(),
    "errors": set(),
    "sample": set(),
    "exchange": set(),
    "file_lock": {"errors"},
    "whole_file": {"errors"},
    "readiness": set(),
    "observation": set(),
    "tracing": {"errors", "observation"},
    "metrics": {"errors", "observation", "token_vectors", "jobs"},
    "provider_batch": set(),
    "token_vectors": set(),
    "judge_settings": set(),
    "settings": {"errors", "judge_settings"},
    "uncertainty": {"errors"},
    "access": {"errors", "exchange", "settings"},
    "retrieval": {"errors", "uncertainty"},
    "agreement": {"errors", "uncertainty", "readiness", "token_vectors", "generation", "judges", "records"},
    "telemetry": set(),
    "generation": {"errors", "sample"},
    "records": {"errors", "sample"},
    "judges": {"errors", "exchange", "observation", "readiness", "token_vectors", "generation"},
    "encoding": {"concurrency", "errors", "readiness", "token_vectors"},
    "backends": FLOOR - {"telemetry", "uncertainty"} | {"provider_batch", "postgres"},
    "scored_row": {"exchange"},
    "scoring": {"errors", "exchange", "generation", "judges"},
    "schemas": {"errors"},
    "evaluation_wire": {"errors", "exchange", "settings", "generation", "judges", "schemas", "scoring"},
    "report": {"__init__", "errors", "uncertainty", "schemas", "records"},
    "rows": FLOOR | {"sample", "scored_row", "records", "schemas", "scoring", "evaluation_wire"},
    "postgres": {"errors"},
    "jobs": FLOOR | {"sample", "scored_row", "records", "postgres"},
    "batch_files": FLOOR | FILES | {"provider_batch", "records", "scored_row"},
    "batch_assembly": FLOOR | {"__init__", "judges", "backends", "batch_files", "assembly", "rows", "schemas"},
    "assembly": FLOOR | {"__init__", "postgres", "judges", "backends", "encoding", "scoring", "rows", "jobs"},
    "listeners": FLOOR | {"__init__", "backends", "judges", "metrics", "scored_row", "tracing"},
    "client": {"errors", "sample", "schemas", "records"},
    "lab": {
        "__init__",
        "errors",
        "concurrency",
        "settings",
        "generation",
        "records",
        "encoding",
        "retrieval",
        "uncertainty",
    }
    | {"client", "schemas", "report"}
    | FILES,
    "batch_scoring": FLOOR
    | {"__init__", "generation", "judges", "backends", "assembly", "records", "rows", "client", "schemas"}
    | {"scored_row", "evaluation_wire"},
    "api": FLOOR
    | {
        "access",
        "generation",
        "judges",
        "retrieval",
        "scoring",
        "schemas",
        "scored_row",
        "evaluation_wire",
        "rows",
        "jobs",
        "report",
        "records",
        "metrics",
    },
    "main": FLOOR
    | {"__init__", "access", "judges", "schemas", "api", "assembly", "rows", "jobs", "backends"}
    | {"listeners", "tracing"},
    "cluster": FLOOR | {"__init__", "sample", "scored_row", "records", "schemas", "rows", "assembly"},
    "cli": FLOOR
    | FILES
    | {"access", "batch_assembly", "batch_files", "batch_scoring", "cluster", "report", "postgres"}
    | {"listeners", "metrics", "lab"}
    | {"__init__", "main", "assembly", "retrieval", "agreement", "judges", "records", "rows", "schemas", "scored_row"},
}

# Where each third party may be imported; None: anywhere in app. A package that is not named here is refused.
FENCES: dict[str, set[str] | None] = {
    "structlog": None,
    "pydantic": None,
    "pydantic_core": None,
    "numpy": {
        "generation/places.py",
        "judges",
        "encoding",
        "retrieval",
        "agreement",
        "report",
        "uncertainty",
        "token_vectors",
        "lab",
    },
    "msgspec": {
        "retrieval",
        "schemas",
        "api",
        "cli",
        "client",
        "records",
        "report",
        "batch_files",
        "batch_scoring",
        "lab",
        "jobs/row_file.py",
        "judges/judgement_record.py",
    },
    "jinja2": {"report/page.py", "report/lone_page.py", "lab/report/page.py"},
    "markupsafe": {"report/page.py", "lab/report/page.py"},
    "re2": {"retrieval/ids.py"},
    "pyarrow": {"retrieval", "records", "cluster"},
    "ray": {"cluster/ray_engine.py"},
    "fastapi": {"api", "main"},
    "starlette": {"api"},
    "python_multipart": {"api/job_form.py"},
    "fastapi_offline": {"main"},
    "uvicorn": {"cli"},
    "tqdm": {"cli/score_progress.py", "cli/lab_progress.py"},
    "tantivy": {"lab"},
    "faiss": {"lab"},
    "yaml": {"lab/corpora/front_matter.py"},
    "openai": {"backends/completions_client.py", "backends/batch_files.py"},
    "httpx2": {"client", "backends/completions_client.py", "backends/judge_connections.py", "backends/batch_files.py"}
    | {"lab/answers/asking.py", "lab/retrievers/elastic_server.py"},
    "h11": {"backends/judge_connections.py", "cli/connections.py"},
    "tenacity": {"backends/attended_endpoint.py"},
    "psycopg": {"postgres", "jobs", "backends"},
    "psycopg_pool": {"postgres", "jobs", "backends"},
    "procrastinate": {"jobs/procrastinate_engine.py"},
    "prometheus_client": {"metrics"},
    "opentelemetry": {"tracing"},
    "torch": {"encoding/torch_model.py", "encoding/openvino_model.py"},
    "sentence_transformers": {"encoding/torch_model.py", "encoding/text_vectors.py"},
    "transformers": {"encoding/torch_model.py"},
    "openvino": {"encoding/openvino_model.py"},
    "huggingface_hub": {"encoding/model_files.py"},
    "threadpoolctl": {"encoding/work_threads.py"},
    "tokenizers": {"encoding/text_reader.py"},
    "pydantic_settings": {"settings"},
    "json_repair": {"judges/reply_reading.py"},
    "rapidfuzz": {"judges/evidence/alignment.py", "agreement/baselines.py"},
    "nltk": {"agreement/baselines.py"},
    "sklearn": {"generation/english_stop_words.py", "agreement"},
    "scipy": {"agreement", "lab"},
    "stop_words": {"generation/words.py", "agreement/baselines.py"},
}
# Seconds of import each; a process that never asks the tier never pays.
LAZY = {"sentence_transformers", "transformers", "torch", "openvino", "huggingface_hub", "tokenizers"} | {
    "pyarrow",
    "tqdm",
    "ray",
    "opentelemetry",
    "tantivy",
    "faiss",
    "yaml",
}


def room_of(path: Path, app: Path = APP) -> str:
    """The room of a file: its folder in app, or its own name."""
    parts = path.relative_to(app).parts
    return parts[0] if len(parts) > 1 else path.stem


def target_of(names: list[str], app: Path) -> str:
    """The room that `app.<names>` lies in; names of the package itself are `__init__`'s."""
    is_room = bool(names) and ((app / names[0]).exists() or (app / f"{names[0]}.py").exists())
    return names[0] if is_room else "__init__"


def imports_of(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each imported module, and whether it is imported when the file is."""
    at_import = {id(node) for node in _at_import(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, id(node) in at_import
            if node.module == "app":
                yield from ((f"app.{alias.name}", id(node) in at_import) for alias in node.names)


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not is_typing and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _at_import(node)


def breaches(app: Path = APP) -> list[str]:
    """Every import that turns an arrow, jumps a fence or is made too early."""
    found = []
    for path in sorted(app.rglob("*.py")):
        room, place = room_of(path, app), path.relative_to(app).as_posix()
        if room not in ARROWS:
            found.append(f"{place}: room {room!r} has no arrows")
            continue
        for module, is_early in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            top, *rest = module.split(".")
            if top == "app":
                target = target_of(rest, app)
                if target not in ARROWS[room] | {room}:
                    found.append(f"{place}: {room} -> {target}")
            elif top not in sys.stdlib_module_names:
                fence = FENCES.get(top, set())
                if fence is not None and room not in fence and place not in fence:
                    found.append(f"{place}: imports {top}")
                if top in LAZY and is_early:
                    found.append(f"{place}: imports {top} at import")
    return found


def test_every_import_follows_the_arrows_and_the_fences() -> None:
    assert breaches() == []


@pytest.mark.parametrize(
    ("place", "line", "breach"),
    [
        ("generation/scores.py", "from app.judges.tier import Tier", "generation/scores.py: generation -> judges"),
        ("judges/llm.py", "import app.backends.chat_models", "judges/llm.py: judges -> backends"),
        ("scoring.py", "from app.api import problems", "scoring.py: scoring -> api"),
        ("scoring.py", "import fastapi", "scoring.py: imports fastapi"),
        ("judges/llm.py", "from openai import OpenAI", "judges/llm.py: imports openai"),
        ("schemas/problem.py", "import numpy", "schemas/problem.py: imports numpy"),
        ("encoding/torch_model.py", "import sentence_transformers", "imports sentence_transformers at import"),
        ("leftovers.py", "import json", "leftovers.py: room 'leftovers' has no arrows"),
    ],
)
def test_a_planted_breach_is_found(tmp_path: Path, place: str, line: str, breach: str) -> None:
    for room in ARROWS:
        (tmp_path / f"{room}.py").touch() if (APP / f"{room}.py").exists() else (tmp_path / room).mkdir()
    (tmp_path / place).write_text(f"{line}\n", encoding="utf-8")

    found = breaches(tmp_path)

    assert any(breach in each for each in found), found


def test_no_room_has_a_name_that_says_nothing() -> None:
    nameless = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"}

    assert [path.name for path in APP.rglob("*.py") if path.stem in nameless] == []


def test_no_file_has_outgrown_its_idea() -> None:
    longest_reasonable = 300

    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in APP.rglob("*.py")}

    assert {name: lines for name, lines in lengths.items() if lines > longest_reasonable} == {}


def files_imported() -> dict[str, set[str]]:
    """For each file of ours, as a module, those that it imports; types alone count too."""
    modules = {".".join(path.relative_to(APP.parent).with_suffix("").parts): path for path in APP.rglob("*.py")}
    return {
        name: {module for module, _ in imports_of(ast.parse(path.read_text(encoding="utf-8"))) if module in modules}
        for name, path in modules.items()
    }


def test_no_file_needs_itself_by_way_of_others() -> None:
    graph = files_imported()

    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, "app.errors": {"app.main"}}).prepare()
