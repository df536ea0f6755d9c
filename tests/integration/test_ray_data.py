"""Columns scored inside a data engine: on plain arrays, by a service, and in the real engines as the page shows."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from plumbline.cli.main import main
from plumbline.client import NotReached, Plumbline, Retries
from plumbline.integrations.ray_data import RESULT_FIELDS, ColumnScorer
from plumbline.main import create_app
from tests.doubles.fakes import WordEncoder
from tests.running.real_servers import free_port, python_of, servers_folder
from tests.running.service import plain_settings, served

CONTEXT = "The ferry to Hallam leaves at 7:40."
RIGHT, WRONG = "The ferry to Hallam leaves at 7:40.", "The ferry leaves at 9:15."
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "many-rows.md"
ENGINES = ("ray[data]==2.60.0", "daft==0.7.26", "polars==2.1.0", "pandas==3.1.1")
PROGRAMS = [
    block
    for block in re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "spark" not in block
]


@pytest.fixture(scope="module")
def here() -> Iterator[ColumnScorer]:
    scorer = ColumnScorer(tiers=["lexical"])
    yield scorer
    scorer.close()


def rows_of(count: int) -> list[dict[str, Any]]:
    answers = [RIGHT, WRONG, "I do not know.", ""]
    rows: list[dict[str, Any]] = [
        {"custom_id": f"r{row}", "contexts": [CONTEXT], "answer": answers[row % 4]} for row in range(count)
    ]
    rows[count // 2]["answer"] = None
    return rows


def columns_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    trace = result["trace"]
    return {**result, "trace": {**trace, "attempts": [{**each, "seconds": 0} for each in trace.get("attempts", [])]}}


def score_by_command(rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """The lines of `plumbline score`, by their ids."""
    data, out = folder / "rows.jsonl", folder / "results.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["score", str(data), "-o", str(out), "--tiers", "lexical", "--quiet", "--min-judged", "0"]) == 0
    lines = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    return {line["custom_id"]: line for line in lines}


def assert_equal(ids: list[str], results: list[str | None], errors: list[str | None], lines: dict[str, Any]) -> None:
    assert sorted(ids) == sorted(lines)
    for own_id, result, error in zip(ids, results, errors, strict=True):
        line = lines[own_id]
        if "error" in line:
            assert (result, error) == (None, line["error"]["detail"])
        else:
            assert result is not None
            assert without_seconds(json.loads(result)) == without_seconds(line["result"])


def test_results_are_those_of_the_command_and_a_bad_row_costs_itself_alone(here: ColumnScorer, tmp_path: Path) -> None:
    rows = rows_of(12)

    scored = here(columns_of(rows))

    assert scored["plumbline_status"].count("error") == 1
    lines = score_by_command(rows, tmp_path)
    assert_equal(scored["plumbline_id"], scored["plumbline_result"], scored["plumbline_error"], lines)


@pytest.mark.parametrize("form", ["lists", "numpy", "arrow"])
def test_columns_of_any_kind_come_back_with_those_of_the_results(here: ColumnScorer, form: str) -> None:
    contexts = np.empty(2, dtype=object)
    contexts[0], contexts[1] = np.array([CONTEXT]), np.array([CONTEXT, "Another."])
    batch: dict[str, Any] = {"contexts": [[CONTEXT], [CONTEXT]], "answer": [RIGHT, WRONG], "note": [1.5, None]}
    if form == "numpy":
        batch = {"contexts": contexts, "answer": np.array([RIGHT, WRONG]), "note": np.array([1.5, np.nan])}
    if form == "arrow":
        batch = {name: pyarrow.array(values) for name, values in batch.items()}

    scored = here(batch)

    assert list(scored) == ["contexts", "answer", "note", *(f"plumbline_{name}" for name in RESULT_FIELDS)]
    assert scored["note"] is batch["note"]
    assert scored["plumbline_passed"] == [True, False]
    assert scored["plumbline_id"] == [None, None]
    assert "9:15" in scored["plumbline_reason"][1]


def test_a_batch_without_rows_has_the_columns_of_the_results(here: ColumnScorer) -> None:
    assert here({"contexts": [], "answer": []})["plumbline_status"] == []


def test_rows_are_scored_by_a_service_with_the_same_results(here: ColumnScorer) -> None:
    batch = columns_of([*rows_of(6), {"custom_id": "r0", "contexts": [CONTEXT], "answer": RIGHT}])

    with served(create_app(plain_settings(), encoder=WordEncoder())) as url:
        by_service = ColumnScorer(url, tiers=["lexical"])
        found, expected = by_service(batch), here(batch)
        by_service.close()

    results = [
        [each and without_seconds(json.loads(each)) for each in way.pop("plumbline_result")]
        for way in (found, expected)
    ]
    assert results[0] == results[1]
    assert found == expected


def test_a_service_that_is_away_raises_for_the_engine_to_try_again() -> None:
    client = Plumbline(f"http://127.0.0.1:{free_port()}", retries=Retries(attempts=1))

    with pytest.raises(NotReached), client:
        ColumnScorer(client=client)({"contexts": [[CONTEXT]], "answer": [RIGHT]})


def test_a_process_that_closes_nothing_ends(tmp_path: Path) -> None:
    program = "from plumbline.integrations.ray_data import ColumnScorer\nscorer = ColumnScorer(tiers=['lexical'])\n"

    run(Path(sys.executable), tmp_path, program + "scorer({'contexts': [['One.']], 'answer': ['One.']})")


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the engines, which sees this one's packages."""
    python = python_of(servers_folder(tmp_path_factory.mktemp("engines")), "engines", *ENGINES)
    packages = next((python.parents[1] / "lib").glob("python*")) / "site-packages"
    (packages / "plumbline.pth").write_text("\n".join(each for each in sys.path if each), encoding="utf-8")
    return python


ONE_MACHINE = """
import sys
if "ray" in sys.argv[1]:
    import ray
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
exec(sys.argv[1])
"""
KILL_TRIAL = """
import json, os, signal, threading, time
import ray
from plumbline.integrations.ray_data import ColumnScorer


class Watched(ColumnScorer):
    def __call__(self, batch):
        with open(f"pids/{os.getpid()}", "a") as file:
            file.write("batch\\n")
        time.sleep(0.2)
        return super().__call__(batch)


def kill():
    while len(os.listdir("pids")) < 2:
        time.sleep(0.1)
    os.kill(int(os.listdir("pids")[0]), signal.SIGKILL)


os.mkdir("pids")
ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
killer = threading.Thread(target=kill, daemon=True)
killer.start()
pool = ray.data.ActorPoolStrategy(size=2)
rows = ray.data.read_parquet("rows.parquet").repartition(8).map_batches(
    Watched, fn_constructor_kwargs={"tiers": ["lexical"]}, compute=pool, num_cpus=0.5, batch_size=100
).take_all()
ray.shutdown()
killer.join(10)
assert len(os.listdir("pids")) == 3, os.listdir("pids")
names = ("id", "result", "error")
json.dump([[row[f"plumbline_{name}"] for row in rows] for name in names], open("scored.json", "w"))
"""


def run(python: Path, folder: Path, *command: str) -> None:
    done = subprocess.run(
        [python, "-c", *command], cwd=folder, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr[-4_000:]


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.split()[1])
def test_the_programs_of_the_page_run(engines: Path, program: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows_of(40)), tmp_path / "rows.parquet")

    run(engines, tmp_path, ONE_MACHINE, program)

    written = pyarrow.parquet.read_table(next(tmp_path.glob("scored*"))).to_pylist()
    scored = [
        {name.removeprefix("plumbline_"): each for name, each in (row.get("plumbline") or row).items()}
        for row in written
    ]
    assert sum(row["passed"] is True for row in scored) == 9
    assert sum(row["status"] == "error" for row in scored) == 1


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_an_actor_of_ray_that_is_killed_loses_and_repeats_no_row(engines: Path, tmp_path: Path) -> None:
    rows = rows_of(4_000)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")

    run(engines, tmp_path, KILL_TRIAL)

    ids, results, errors = json.loads((tmp_path / "scored.json").read_text(encoding="utf-8"))
    assert len(ids) == 4_000
    assert_equal(ids, results, errors, score_by_command(rows, tmp_path))
