"""An experiment from its file to its table: what every number rests on, what a failure costs, what is refused."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from plumbline.cli.main import main
from plumbline.extras.lab.folder import load_results
from plumbline.extras.lab.results import ExperimentResults, System
from plumbline.ground.files import locked
from tests.making.lab_experiments import EXPERIMENT, QUERIES, tiny_experiment

pytestmark = pytest.mark.timeout(120)


def run(experiment: Path, *arguments: str) -> int:
    return main(["lab", "run", str(experiment), "--out", str(experiment.parent / "out"), "--quiet", *arguments])


def systems(results: ExperimentResults) -> Mapping[str, System]:
    return {each.retriever: each for each in results.systems}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment that was run."""
    experiment = tiny_experiment(tmp_path_factory.mktemp("finished"))
    assert run(experiment) == 0
    return experiment.parent / "out"


def test_every_number_is_that_of_evaluate_on_the_files(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = load_results(finished)
    runs = [str(finished / each.run_file) for each in results.systems]
    measures = [word for measure in results.measures for word in ("-m", measure)]

    assert main(["evaluate", str(finished / results.corpora["tiny"].qrels_file), *runs, *measures, "--json"]) == 0

    said = {each["name"]: each["measures"] for each in json.loads(capsys.readouterr().out)["runs"]}
    for system in results.systems:
        mine = {
            name: {"mean": each.mean, "ci95": list(each.ci95 or ()), "n": each.n}
            for name, each in system.measures.items()
        }
        assert said[f"{system.name}.run"] == mine


def test_conventions_seed_and_resamples_of_the_command_are_those_of_evaluate(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["-m", "ndcg_gains@3", "-m", "map", "--preset", "pytrec_eval", "-l", "2", "-J", "--ties", "average"]
    given += ["--gains", "1=1,2=5", "--id-rule", "strip_chunk", "--seed", "3", "--resamples", "200"]
    experiment = copied(finished, tmp_path)

    assert run(experiment, *given) == 0

    results = load_results(tmp_path / "out")
    runs = [str(tmp_path / "out" / each.run_file) for each in results.systems]
    capsys.readouterr()
    main(["evaluate", str(tmp_path / "out" / results.corpora["tiny"].qrels_file), *runs, *given, "--json"])
    said = [each["measures"] for each in json.loads(capsys.readouterr().out)["runs"]]
    assert results.measures == ("ndcg_gains@3", "map")
    assert [{name: (each.mean, each.ci95) for name, each in system.measures.items()} for system in results.systems] == [
        {name: (each["mean"], tuple(each["ci95"])) for name, each in measures.items()} for measures in said
    ]


def test_uncorrected_p_values_are_those_of_compare(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = load_results(finished)
    runs = [str(finished / each.run_file) for each in results.systems]
    qrels = str(finished / results.corpora["tiny"].qrels_file)

    main(["compare", qrels, *runs, "-m", "map", "--format", "csv", "--correction", "none"])

    pairs = [line.split(",") for line in capsys.readouterr().out.splitlines() if line.startswith("map,")]
    p_of = {frozenset((each[1], each[2])): float(each[6]) for each in pairs}
    mine = {
        frozenset((f"{each.a}.run", f"{each.b}.run")): each.p for each in results.comparisons if each.measure == "map"
    }
    assert mine == {pair: p_of[pair] for pair in mine}
    # four systems with the baseline, rrf with back, tuned with short and back
    assert len(mine) == 7


def test_the_curve_is_the_interpolated_precision_of_evaluate(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = load_results(finished)
    system = results.systems[0]
    qrels, run = finished / results.corpora["tiny"].qrels_file, finished / system.run_file

    main(["evaluate", str(qrels), str(run), "-m", "iprec(r=0.5)", "-m", "iprec(r=1)", "--json"])

    (said,) = json.loads(capsys.readouterr().out)["runs"]
    means = [each["mean"] for each in said["measures"].values()]
    assert [system.precision_at_recall[5], system.precision_at_recall[10]] == means


def test_a_tuned_blend_is_scored_on_queries_that_had_no_say(finished: Path) -> None:
    tuned = systems(load_results(finished))["tuned"]

    assert tuned.tuned is not None
    assert tuned.measures["ndcg@10"].mean == pytest.approx(tuned.tuned.held_out_score, abs=1e-12)
    assert len(tuned.tuned.fold_weights) == tuned.tuned.folds == 2
    assert set(tuned.tuned.weights) == {"words", "short", "back"}


def test_a_blend_takes_as_long_as_its_parts_and_the_fusion(finished: Path) -> None:
    milliseconds = {
        each.retriever: json.loads((finished / "latency" / f"{each.name}.json").read_text())
        for each in load_results(finished).systems
    }

    for query in QUERIES:
        assert milliseconds["rrf"][query] > milliseconds["words"][query] + milliseconds["back"][query]


def test_the_folder_has_the_table_the_page_and_what_they_were_made_of(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "table", str(finished), "--format", "markdown"]) == 0

    shown = capsys.readouterr().out
    assert shown == (finished / "table.md").read_text()
    assert "tiny.whole.tuned" in shown
    assert (finished / "experiment.toml").read_text() == EXPERIMENT
    assert "<table" in (finished / "report.html").read_text()
    assert "ndcg@10" in (finished / "table.csv").read_text()
    built = systems(load_results(finished))["words"].built
    assert built is not None
    assert (built.documents, built.facts.chunks, built.facts.index_bytes) == (6, 6, 4)
    assert list((finished / "work").iterdir()) == []


def test_what_is_done_is_not_done_again(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = load_results(finished)

    assert (
        main(["lab", "run", str(finished / "experiment.toml"), "--data", str(finished.parent), "--out", str(finished)])
        == 0
    )

    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["was_there"] for each in said if each["event"] == "done"] == [True] * 5
    assert load_results(finished) == before


FAILING = """
[retrievers.slow]
kind = "python"
object = "tiny_retrievers:Words"
options = { build_nap = 0.2, search_nap = 0.02, prints = "chatter" }

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
    experiment = tiny_experiment(tmp_path, head.replace("[experiment]", '[experiment]\nbaseline = "slow"') + FAILING)

    assert run(experiment) == 1

    results = load_results(tmp_path / "out")
    slow = systems(results)["slow"]
    assert slow.latency is not None
    assert slow.built is not None
    assert slow.latency.mean >= 20
    assert slow.built.build_seconds >= 0.2
    assert results.failures == {
        "tiny.whole.broken": "RuntimeError: the index is upside down (see logs/tiny.whole.broken.log)",
        "tiny.whole.absent": "object: there is no module 'no_such_module'; expected a module next to the experiment "
        "file, or an installed one",
        "tiny.whole.half": "there is no tiny.whole.broken to blend",
    }
    assert "Traceback" in (tmp_path / "out" / "logs" / "tiny.whole.broken.log").read_text()
    said = capsys.readouterr()
    assert "plumbline: tiny.whole.broken failed: RuntimeError: the index is upside down (see " in said.err
    assert "chatter" in said.err
    assert "chatter" not in said.out


def test_results_of_other_settings_or_documents_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = tiny_experiment(tmp_path)
    assert run(experiment, "--only", "short") == 0
    shown = load_results(tmp_path / "out")
    assert [each.retriever for each in shown.systems] == ["short"]

    experiment.write_text(EXPERIMENT.replace("weigh = 0.3", "weigh = 0.4"))
    assert run(experiment, "--only", "short") == 2
    assert (
        "holds results of tiny.whole.short with another retrievers.short; name another folder"
        in capsys.readouterr().err
    )
    experiment.write_text(EXPERIMENT)
    (tmp_path / "data" / "queries.jsonl").write_text('{"_id": "q1", "text": "drag"}\n{"_id": "q2", "text": "slab"}\n')
    (tmp_path / "data" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t1\n")
    assert run(experiment, "--only", "short") == 2
    assert "with another corpora.tiny" in capsys.readouterr().err
    assert load_results(tmp_path / "out") == shown

    assert run(experiment, "--only", "short", "--fresh") == 0
    assert load_results(tmp_path / "out").corpora["tiny"].queries == 2


def test_a_folder_is_one_processs_at_a_time_and_takes_nobody_elses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = tiny_experiment(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    with locked(out / "lock", place="out", busy=""):
        assert run(experiment) == 2
    assert "out: another process works on this experiment" in capsys.readouterr().err

    (out / "thesis.txt").write_text("mine")
    assert run(experiment, "--fresh") == 2
    assert "out: holds something else than a lab's results" in capsys.readouterr().err
    assert (out / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("arguments", [["check"], ["run", "--quiet"]])
def test_what_the_user_can_mend_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    experiment = tiny_experiment(tmp_path, EXPERIMENT.replace("weigh", "=weigh"))

    assert main(["lab", arguments[0], str(experiment), *arguments[1:]]) == 2

    assert capsys.readouterr().err.startswith("plumbline: tiny.toml: is no TOML: ")


def test_check_says_what_would_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "check", str(tiny_experiment(tmp_path))]) == 0

    assert capsys.readouterr().out.splitlines()[-2:] == [
        "tiny.whole.rrf = words + back",
        "tiny.whole.tuned = words + short + back",
    ]


def test_a_corpus_that_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = tiny_experiment(tmp_path)
    (tmp_path / "data" / "corpus.jsonl").unlink()

    assert run(experiment) == 2

    said = capsys.readouterr().err
    assert said.startswith("plumbline: ")
    assert "corpus.jsonl" in said
    assert said.count("\n") == 1


def test_a_full_disk_is_one_line_and_leaves_no_half_run(tmp_path: Path) -> None:
    # A file of 2,000 bytes is the largest that may be written: results.json is larger
    code = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)); "
    code += "from plumbline.cli.main import main; sys.exit(main(sys.argv[1:]))"
    experiment = tiny_experiment(tmp_path)
    command = [sys.executable, "-c", code, "lab", "run", str(experiment), "--only", "words", "--quiet"]
    # Or the process leaves cut bytecode of whatever it imports first
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)

    assert (ran.returncode, ran.stderr) == (2, "plumbline: results.json: cannot be written (File too large)\n")
    assert not (tmp_path / "tiny" / "results.json").exists()
    assert run(experiment, "--only", "words") == 0


def copied(finished: Path, to: Path) -> Path:
    """A finished experiment to do something to; its file."""
    shutil.copytree(finished.parent, to, dirs_exist_ok=True)
    return to / "tiny.toml"


def done(capsys: pytest.CaptureFixture[str], experiment: Path) -> dict[str, bool]:
    """Whether each system was there when the experiment was run again."""
    assert main(["lab", "run", str(experiment), "--out", str(experiment.parent / "out")]) == 0
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return {each["name"].rpartition(".")[2]: each["was_there"] for each in said if each["event"] == "done"}


def test_a_run_that_was_edited_is_made_again_with_what_is_made_of_it(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment, before = copied(finished, tmp_path), load_results(finished)
    run_file = tmp_path / "out" / "runs" / "tiny.whole.words.run"
    run_file.write_text(run_file.read_text().replace("d1", "d5", 1))

    found = done(capsys, experiment)

    assert found == {"words": False, "short": True, "back": True, "rrf": False, "tuned": False}
    after = load_results(tmp_path / "out")
    assert [each.measures for each in after.systems] == [each.measures for each in before.systems]


def test_blends_measures_and_tests_may_change_and_retrievers_be_added(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = copied(finished, tmp_path)
    more = '[retrievers.more]\nkind = "python"\nobject = "tiny_retrievers:Words"\noptions = { weigh = 0.1 }\n\n'
    changed = EXPERIMENT.replace('"map", ', '"mrr", ').replace("step = 0.5", "step = 0.25")
    experiment.write_text(changed.replace("[blends.rrf]", f"{more}[blends.rrf]"))

    found = done(capsys, experiment)

    assert found == {"words": True, "short": True, "back": True, "more": False, "rrf": True, "tuned": False}
    assert load_results(tmp_path / "out").measures == ("ndcg@10", "mrr", "precision@2")
