"""Results of an experiment that never ran, for tests of what shows them."""

from plumbline.extras.lab.results import Built, CorpusFacts, ExperimentResults, System, Tuned
from plumbline.extras.lab.retriever import IndexFacts
from plumbline.retrieval.compare import LatencySummary, compare_reports, report_runs
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Run

MEASURES = ("ndcg@10", "map")
# Ten queries, one relevant document each; `better` finds it first, `worse` second, `blend` first but once.
_QRELS = {f"q{number}": {"right": 1} for number in range(10)}
_RANKINGS = {
    "worse": {query: {"wrong": 2.0, "right": 1.0} for query in _QRELS},
    "better": {query: {"right": 2.0, "wrong": 1.0} for query in _QRELS},
    "blend": {query: {"right": 2.0 if query != "q0" else 0.5, "wrong": 1.0} for query in _QRELS},
}
_MEDIANS = {"worse": 1.25, "better": 31.0, "blend": 33.0}


def results_of(
    corpus: str = "small", *, title: str = "trial", warning: str = "two chunks were cut"
) -> ExperimentResults:
    """Two retrievers and a tuned blend on one corpus; measures and tests are computed, costs are made up."""
    names = {key: f"{corpus}.whole.{key}" for key in _RANKINGS}
    reports = report_runs(
        _QRELS,
        [Run(names[key], ranking) for key, ranking in _RANKINGS.items()],
        measures=parse_measures(MEASURES),
        conventions=build_conventions("trec_eval"),
        resamples=200,
        seed=0,
    )
    comparisons = compare_reports(
        reports, baseline=names["worse"], test="randomization", correction="holm", alpha=0.05, resamples=1_000, seed=0
    )
    systems = tuple(
        System(
            name=report.name,
            corpus=corpus,
            chunking="whole",
            retriever=key,
            parts=("worse", "better") if key == "blend" else (),
            run_file=f"runs/{report.name}.run",
            measures=report.summary_by_measure,
            latency=LatencySummary(mean=3.5, p50=milliseconds, p95=9.0, p99=12.25, n=10),
            built=None if key == "blend" else _built(key),
            tuned=_tuned() if key == "blend" else None,
            answers={"faithfulness.llm": 0.75} if key == "better" else None,
            warnings=(warning,) if key == "worse" else (),
            precision_at_recall=() if key == "worse" else tuple(1 - place / 20 for place in range(11)),
        )
        for (key, milliseconds), report in zip(_MEDIANS.items(), reports, strict=True)
    )
    return ExperimentResults(
        name=title,
        measures=MEASURES,
        baseline="worse",
        systems=systems,
        comparisons=comparisons,
        settings={"experiment": {"name": title}},
        machine={"processor": "one of two cores"},
        corpora={
            corpus: CorpusFacts(
                documents=1_400, queries=10, unjudged=2, judged_elsewhere=3, qrels_file="qrels/small.qrels", digest="0"
            )
        },
        failures={f"{corpus}.whole.lost": warning},
    )


def _built(engine: str) -> Built:
    facts = IndexFacts(
        chunks=1_400, index_bytes=2_150_000, bytes_are="files of the folder", engine=f"{engine} 1.0", stated={"k1": 1.2}
    )
    return Built(
        facts=facts,
        documents=1_400,
        build_seconds=12.345,
        documents_per_second=113.4,
        load_seconds=2.0,
    )


def _tuned() -> Tuned:
    return Tuned(
        measure="map",
        folds=2,
        weights={"worse": 0.25, "better": 0.75},
        fold_weights=({"worse": 0.25, "better": 0.75}, {"worse": 0.5, "better": 0.5}),
        in_sample_score=0.99,
        held_out_score=0.95,
        equal_score=0.9,
    )
