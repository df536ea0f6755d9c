"""Experiment files: what they mean, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from plumbline.extras.lab.experiment import Experiment
from plumbline.extras.lab.experiment_file import read_experiment
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import as_dict, build_conventions

CORPUS = '[corpora.c]\nkind = "beir"\nfolder = "data"\n'
RETRIEVER = '[retrievers.bm25]\nkind = "keyword"\n'
OTHER = '[retrievers.other]\nkind = "python"\nobject = "mine:Other"\n'


def read(tmp_path: Path, text: str) -> Experiment:
    path = tmp_path / "my experiment.toml"
    path.write_text(text, encoding="utf-8")
    return read_experiment(path)


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    experiment = read(tmp_path, CORPUS + RETRIEVER)

    assert experiment.table.name == "my-experiment"
    assert experiment.baseline == "bm25"
    assert experiment.table.measures == ("ndcg@10", "map", "precision@20", "recall@100")
    assert (experiment.table.depth, experiment.table.preset, experiment.table.seed) == (1_000, "trec_eval", 0)
    assert (experiment.table.test, experiment.table.correction) == ("randomization", "holm")
    assert list(experiment.chunkings) == ["whole"]
    assert experiment.base == tmp_path.resolve()
    assert experiment.settings()["experiment"]["baseline"] == "bm25"


def test_every_corpus_is_cut_in_every_way_and_searched_by_every_retriever(tmp_path: Path) -> None:
    text = CORPUS + CORPUS.replace(".c]", ".d]") + RETRIEVER + OTHER
    text += '[chunkings.whole]\nkind = "whole"\n[chunkings.small]\nkind = "tokens"\nsize = 50\noverlap = 10\n'
    text += '[blends.both]\nparts = ["bm25", "other"]\n'

    experiment = read(tmp_path, text)

    assert [each.name for each in experiment.systems()] == [
        f"{corpus}.{chunking}.{retriever}"
        for corpus in ("c", "d")
        for chunking in ("whole", "small")
        for retriever in ("bm25", "other", "both")
    ]
    assert experiment.baseline_of("d") == "d.whole.bm25"
    blend = next(each for each in experiment.systems() if each.parts)
    assert blend.part_names == ("c.whole.bm25", "c.whole.other")


BLEND = '[blends.b]\nparts = ["bm25", "other"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "corpora: there is none; expected a table [corpora.NAME]"),
        (CORPUS, "retrievers: there is none; expected a table [retrievers.NAME]"),
        ("[experiment", "is no TOML: "),
        ("[experimnt]\n" + CORPUS + RETRIEVER, "there is no table 'experimnt'; did you mean 'experiment'?"),
        (
            "[experiment]\nmeasure = []\n" + CORPUS + RETRIEVER,
            "experiment.measure: there is no key 'measure'; did you mean 'measures'?",
        ),
        (
            '[experiment]\nmeasures = ["ndgc@10"]\n' + CORPUS + RETRIEVER,
            "experiment.measures: unknown measure 'ndgc@10'",
        ),
        (
            '[experiment]\nmeasures = ["map", "MAP"]\n' + CORPUS + RETRIEVER,
            "experiment.measures: a measure is named twice",
        ),
        ("[experiment]\npreset = 'trec'\n" + CORPUS + RETRIEVER, "experiment.preset: unknown preset 'trec'"),
        (
            "[conventions]\nrel_levl = 2\n" + CORPUS + RETRIEVER,
            "conventions: rel_levl: unknown convention 'rel_levl'; did",
        ),
        (
            "[conventions]\nties = 'random'\n" + CORPUS + RETRIEVER,
            "conventions: ties: unknown value 'random'; known are",
        ),
        ("[conventions]\nid_rule = 'regex'\n" + CORPUS + RETRIEVER, "conventions: the id rule 'regex' needs a pattern"),
        ("[experiment]\ndepth = 0\n" + CORPUS + RETRIEVER, "experiment.depth: Input should be greater than or equal"),
        (
            "[experiment]\nbaseline = 'bm52'\n" + CORPUS + RETRIEVER,
            "experiment.baseline: there is no retriever or blend 'bm52'; did you mean 'bm25'?",
        ),
        (CORPUS.replace("beir", "bier") + RETRIEVER, "corpora.c.kind: there is no kind 'bier'; did you mean 'beir'?"),
        (CORPUS.replace('kind = "beir"', "") + RETRIEVER, "corpora.c.kind: is missing"),
        ('[corpora."a.b"]\nkind = "beir"\n' + RETRIEVER, "corpora.a.b: a name has 1 to 40 of"),
        ('[corpora.c]\nkind = "beir"\n' + RETRIEVER, "corpora.c.folder: is missing"),
        (
            CORPUS + '[retrievers.bm25]\nkind = "keyword"\nfeilds = {}\n',
            "retrievers.bm25.feilds: there is no key 'feilds'; did you mean 'fields'?",
        ),
        (CORPUS + '[retrievers.bm25]\nkind = "keyword"\nfields = "title"\n', "retrievers.bm25.fields: Input should be"),
        (
            CORPUS + '[retrievers.bm25]\nkind = "keyword"\nfields = {title = -1}\n',
            "retrievers.bm25.fields.title: Input should be greater than 0",
        ),
        (CORPUS + RETRIEVER + RETRIEVER.replace("bm25", "BM25"), "retrievers.BM25: differs from another name by case"),
        (CORPUS + RETRIEVER + BLEND, "blends.b.parts: there is no retriever 'other'; known are bm25"),
        (CORPUS + RETRIEVER + '[blends.b]\nparts = ["bm25"]\n', "blends.b.parts: "),
        (CORPUS + RETRIEVER + '[blends.b]\nparts = ["bm25", "bm25"]\n', "blends.b.parts: a retriever is named twice"),
        (CORPUS + RETRIEVER + OTHER + BLEND.replace(".b]", ".bm25]"), "blends.bm25: a retriever has this name too"),
        (
            CORPUS + RETRIEVER + OTHER + BLEND + '[blends.c]\nparts = ["b", "bm25"]\n',
            "blends.c.parts: 'b' is a blend itself; name the retrievers it is made of",
        ),
        (CORPUS + RETRIEVER + OTHER + BLEND + "method = 'rff'\n", "blends.b: unknown fusion method 'rff'"),
        (
            CORPUS + RETRIEVER + OTHER + BLEND + "weights = {bm25 = 1}\n",
            "blends.b.weights: expected one for each of bm25, other",
        ),
        (
            CORPUS + RETRIEVER + OTHER + BLEND + "weights = {bm25 = 1, other = 2}\ntune = 'map'\n",
            "blends.b.tune: give weights or tune them, not both",
        ),
        (
            CORPUS + RETRIEVER + OTHER + BLEND + "method = 'combmnz'\ntune = 'map'\n",
            "blends.b.method: combmnz takes no weights",
        ),
        (CORPUS + RETRIEVER + OTHER + BLEND + "tune = 'mapp'\n", "blends.b.tune: unknown measure 'mapp'"),
        (CORPUS + RETRIEVER + OTHER + BLEND + "tune = 'map'\nstep = 0.3\n", "blends.b.step: step must be 1 divided"),
        (CORPUS + RETRIEVER + "[answers]\nk = 3\n", "answers.url: is missing"),
        (
            CORPUS + RETRIEVER + "[answers]\nurl = 'http://127.0.0.1:1'\nsystems = ['bm26']\n",
            "answers.systems: there is no system 'bm26'; did you mean 'bm25'?",
        ),
        ("corpora = 3\n" + RETRIEVER, "corpora: found int, wanted a table"),
    ],
)
def test_what_is_wrong_is_said_with_its_table_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, text)

    assert str(raised.value).startswith(f"my experiment.toml: {said}")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^gone\.toml: cannot be read \(No such file or directory\)$"):
        read_experiment(tmp_path / "gone.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff\n")
    with pytest.raises(InvalidInput, match=r"^latin\.toml: is not UTF-8$"):
        read_experiment(tmp_path / "latin.toml")


def test_paths_are_relative_to_the_file_or_to_the_folder_that_is_named(tmp_path: Path) -> None:
    elsewhere = tmp_path / "data"
    elsewhere.mkdir()
    path = tmp_path / "e.toml"
    path.write_text(CORPUS + RETRIEVER, encoding="utf-8")

    assert read_experiment(path).base == tmp_path.resolve()
    assert read_experiment(path, base=elsewhere).base == elsewhere.resolve()


def test_every_convention_is_set_in_the_file_and_options_come_before_it(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    text = "[experiment]\npreset = 'beir'\nresamples = 50\n[conventions]\nrel_level = 2\ngain_map = {1 = 1, 2 = 3.5}\n"
    path.write_text(text + CORPUS + RETRIEVER, encoding="utf-8")

    own = read_experiment(path)
    changed = read_experiment(path, overrides={"experiment": {"seed": 7}, "conventions": {"rel_level": 1}})

    assert own.conventions == build_conventions("beir", rel_level=2, gain_map={"1": 1, "2": 3.5})
    assert changed.conventions == build_conventions("beir", gain_map={"1": 1, "2": 3.5})
    assert (own.table.seed, own.table.resamples, changed.table.seed, changed.table.resamples) == (0, 50, 7, 50)
    assert own.settings()["conventions"] == as_dict(own.conventions)
