"""An experiment from its file to its table: what every number rests on, what a failure costs, what is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.extras.lab.results import ExperimentResults, SystemResult
from tests.making.lab_experiments import EXPERIMENT, QUERIES, load_results, tiny_experiment

pytestmark = pytest.mark.timeout(120)


def run(experiment: Path, *arguments: str) -> int:
    return main(["lab", "run", str(experiment), "--out", str(experiment.parent / "out"), "--quiet", *arguments])


def systems(results: ExperimentResults) -> Mapping[str, SystemResult]:
    return {each.name: each for each in results.systems}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment that was run."""
    experiment = tiny_experiment(tmp_path_factory.mktemp("finished"))
    assert run(experiment) == 0
    return experiment.parent / "out"


def test_every_number_is_that_of_evaluate_on_the_files(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = load_results(finished)
    runs = [str(finished / "runs" / f"{each.name}.json") for each in results.systems]
    measures = [word for measure in results.systems[0].measures for word in ("-m", measure)]
    qrels = str(finished / "qrels.json")

    assert main(["retrieval", "evaluate", qrels, *runs, *measures, "--json"]) == 0

    said = {each["name"]: each["measures"] for each in json.loads(capsys.readouterr().out)["runs"]}
    for system in results.systems:
        mine = {
            name: {"mean": each.mean, "ci95": list(each.ci95 or ()), "n": each.n}
            for name, each in system.measures.items()
        }
        assert said[f"{system.name}.json"] == mine


def test_uncorrected_p_values_are_those_of_compare(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = load_results(finished)
    runs = [str(finished / "runs" / f"{each.name}.json") for each in results.systems]
    qrels = str(finished / "qrels.json")

    main(["retrieval", "compare", qrels, *runs, "-m", "map", "--format", "csv", "--correction", "none"])

    pairs = [line.split(",") for line in capsys.readouterr().out.splitlines() if line.startswith("map,")]
    p_of = {frozenset((each[1], each[2])): float(each[6]) for each in pairs}
    mine = {
        frozenset((f"{each.a}.json", f"{each.b}.json")): each.p for each in results.comparisons if each.measure == "map"
    }
    assert mine == {pair: p_of[pair] for pair in mine}
    # four systems with the baseline, rrf with back, weighted with short and back
    assert len(mine) == 7


def test_a_blend_takes_as_long_as_its_parts_and_the_fusion(finished: Path) -> None:
    milliseconds = {
        each.name: json.loads((finished / "systems" / f"{each.name}.json").read_text())["milliseconds"]
        for each in load_results(finished).systems
    }

    for query in QUERIES:
        assert milliseconds["rrf"][query] > milliseconds["words"][query] + milliseconds["back"][query]


def test_the_folder_has_the_table_the_page_and_what_they_were_made_of(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(finished.parent / "tiny.toml", "--format", "csv") == 0

    shown = capsys.readouterr().out
    assert shown == (finished / "table.csv").read_bytes().decode()
    assert "weighted" in shown
    assert "<td>weighted</td>" in (finished / "table.html").read_text()
    built = systems(load_results(finished))["words"].built
    assert built is not None
    assert (built.chunks, built.index_bytes) == (6, 4)


def test_what_is_done_is_not_done_again(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = load_results(finished)

    assert main(["lab", "run", str(finished.parent / "tiny.toml"), "--out", str(finished)]) == 0

    said = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == ["6 documents, 4 queries, 0 without judgments"] + ["was there"] * 3 + ["measuring"] * 2
    assert [each.built for each in load_results(finished).systems] == [each.built for each in before.systems]


FAILING = """
[retrievers.slow]
kind = "python"
object = "tiny_retrievers:Words"
options = { build_nap = 0.05, search_nap = 0.005, prints = "chatter" }

[retrievers.broken]
kind = "python"
object = "tiny_retrievers:Words"
options = { fails = "the index is upside down" }

[retrievers.absent]
kind = "python"
object = "no_such_module:Words"

[blends.half]
parts = ["slow", "broken"]
"""


def test_a_nap_is_in_the_table_and_who_fails_stops_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = EXPERIMENT[: EXPERIMENT.index("[retrievers.words]")]
    experiment = tiny_experiment(tmp_path, head + FAILING)

    assert run(experiment) == 1

    results = load_results(tmp_path / "out")
    slow = systems(results)["slow"]
    assert slow.latency is not None
    assert slow.built is not None
    assert slow.latency.mean >= 5
    assert slow.built.build_seconds >= 0.05
    assert results.failures == {
        "broken": "the index is upside down",
        "absent": "No module named 'no_such_module'",
        "half": "there is no broken to blend",
    }
    said = capsys.readouterr()
    assert "RuntimeError: the index is upside down" in said.err
    assert "plumbline: broken failed: the index is upside down\n" in said.err
    assert "chatter" in said.err
    assert "chatter" not in said.out


def test_other_settings_or_documents_are_measured_again_and_no_other_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = tiny_experiment(tmp_path)
    assert run(experiment) == 0
    experiment.write_text(EXPERIMENT.replace("weigh = 0.3", "weigh = 0.4").replace('"map", ', '"mrr", '))

    assert _was_there(experiment, capsys) == {"words": True, "short": False, "back": True}

    assert list(load_results(tmp_path / "out").systems[0].measures) == ["ndcg@10", "mrr", "precision@2"]
    queries = tmp_path / "data" / "queries.jsonl"
    queries.write_text(queries.read_text().replace("wing lift", "wing drag"))
    assert _was_there(experiment, capsys) == {"words": False, "short": False, "back": False}


def test_a_killed_run_resumes_after_its_last_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = EXPERIMENT.replace("weigh = 0.3", "weigh = 0.3, search_nap = 60")
    experiment = tiny_experiment(tmp_path, slow)
    command = [sys.executable, "-m", "plumbline.cli.main", "lab", "run", str(experiment)]
    command += ["--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "short: measuring" in line)
        process.kill()
    experiment.write_text(EXPERIMENT)

    assert _was_there(experiment, capsys) == {"words": True, "short": False, "back": False}


def test_chunks_are_judged_as_their_documents(tmp_path: Path) -> None:
    cut = '[experiment]\nchunkings = ["tokens-2", "whole"]'
    experiment = tiny_experiment(tmp_path, EXPERIMENT.replace("[experiment]", cut))

    assert run(experiment) == 0

    results = load_results(tmp_path / "out")
    found = {each.name: each.built.chunks for each in results.systems if each.built}
    # Five documents of three words or two give nine halves
    assert (found["words.tokens-2"], found["words.whole"]) == (11, 6)
    assert "#" not in (tmp_path / "out" / "runs" / "words.tokens-2.json").read_text()
    assert ("words.whole", "words.tokens-2") in {(each.a, each.b) for each in results.comparisons}


def test_what_the_user_can_mend_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = tiny_experiment(tmp_path, EXPERIMENT.replace("weigh", "=weigh"))

    assert run(experiment) == 2

    assert capsys.readouterr().err.startswith("plumbline: tiny.toml: is no TOML: ")


def test_warnings_of_ours_are_written_with_the_results(tmp_path: Path) -> None:
    raw = '\n[blends.raw]\nparts = ["words", "back"]\nmethod = "wsum"\nnorm = "none"\n'
    large = EXPERIMENT.replace('Words"', 'Words"\noptions = { weigh = -300.0 }', 1)

    assert run(tiny_experiment(tmp_path, large + raw)) == 0

    (warned,) = (each for each in load_results(tmp_path / "out").systems if each.name == "raw")
    assert "mixes raw scores of different scales" in warned.warnings[0]


def test_a_full_disk_is_one_line_and_leaves_no_half_run(tmp_path: Path) -> None:
    # A file of 2,000 bytes is the largest that may be written: results.json is larger
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)); "
    code += "from plumbline.cli.main import main; sys.exit(main(sys.argv[1:]))"
    experiment = tiny_experiment(tmp_path)
    command = [sys.executable, "-c", code, "lab", "run", str(experiment), "--quiet"]
    # Or the process leaves cut bytecode of whatever it imports first
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)

    assert (ran.returncode, ran.stderr) == (2, "plumbline: results.json: cannot be written (File too large)\n")
    assert not (tmp_path / "tiny" / "results.json").exists()
    assert run(experiment) == 0


def _was_there(experiment: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, bool]:
    """Run the experiment again; return whether each retriever was measured already."""
    capsys.readouterr()
    assert main(["lab", "run", str(experiment), "--out", str(experiment.parent / "out")]) == 0
    said = capsys.readouterr().err
    return {name: f"{name}: was there" in said for name in ("words", "short", "back")}
