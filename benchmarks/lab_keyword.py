"""Keyword search of the lab on Cranfield: every kind of query, and what lengths of one byte change beside bm25s.

    python -m benchmarks.lab_keyword FOLDER

FOLDER holds `cran.all.1400.xml`, `cran.qry.xml` and `cranqrel.trec.txt`; a query's id is its position. Times are CPU
milliseconds of this process, of a warm index. Prints two tables.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.cranfield import read_cranfield
from plumbline.extras.lab.corpus import Chunk
from plumbline.extras.lab.retrievers.keyword import KeywordSettings, build_tokenizer
from plumbline.retrieval.compare import report_runs
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Qrels, Run
from tests.doubles.keyword_oracle import bm25s_scores

MEASURES = parse_measures(["ndcg@10", "map", "precision@20", "recall@100"])
DEPTH = 1000
PAIR = {"title": 1, "text": 1}
SYSTEMS: Mapping[str, Mapping[str, object]] = {
    "plain, all fields": {},
    "plain, text": {"fields": {"text": 1}},
    "plain": {"fields": PAIR},
    "plain, as written": {"fields": PAIR, "language": "none"},
    "best fields": {"query": "best_fields", "fields": PAIR},
    "best fields, tie breaker 0.3": {"query": "best_fields", "fields": PAIR, "tie_breaker": 0.3},
    "cross fields": {"query": "cross_fields", "fields": PAIR},
    "cross fields, title^2": {"query": "cross_fields", "fields": {"title": 2, "text": 1}},
    "cross fields, title^2, tie breaker 0.3": {
        "query": "cross_fields",
        "fields": {"title": 2, "text": 1},
        "tie_breaker": 0.3,
    },
    "phrase prefix": {"query": "phrase_prefix", "fields": PAIR},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    documents, queries, qrels = read_cranfield(parser.parse_args().folder)
    chunks = [Chunk(name, name, fields, 0, 0) for name, fields in documents.items()]

    print("| system | ndcg@10 | map | p@20 | recall@100 | answered | build s | ms k=10 p50, p95 | ms k=1000 | kB |")
    runs = {}
    for name, settings in SYSTEMS.items():
        runs[name], told = searched(name, settings, chunks, queries)
        print(f"| {name} | {measured(qrels, runs[name])} | {told} |", flush=True)

    print("\n| plain beside bm25s | overlap@10 | tau of the first 100 | largest share | ndcg@10 ... |")
    for lengths in ("one byte", "exact"):
        beside_bm25s(lengths, runs["plain"], chunks, queries, qrels)


def searched(
    name: str, settings: Mapping[str, object], chunks: list[Chunk], queries: dict[str, str]
) -> tuple[Run, str]:
    """The run, and a row's answered queries, build seconds, milliseconds and bytes."""
    retriever = KeywordSettings.model_validate(settings).make()
    with tempfile.TemporaryDirectory() as folder:
        before = time.perf_counter()
        facts = retriever.build(chunks, Path(folder))
        seconds = time.perf_counter() - before
        results: dict[str, dict[str, float]] = {}
        spent: dict[int, list[float]] = {}
        for depth in (DEPTH, 10, DEPTH):
            spent[depth] = []
            for id_, query in queries.items():
                began = time.process_time()
                hits = dict(retriever.search(query, depth))
                spent[depth].append(1000 * (time.process_time() - began))
                results[id_] = hits
        retriever.close()
    answered = sum(bool(hits) for hits in results.values())
    times = [" ".join(f"{ms:.2f}" for ms in np.quantile(spent[depth], [0.5, 0.95])) for depth in (10, DEPTH)]
    told = f"{answered} | {seconds:.2f} | {times[0]} | {times[1]} | {facts.index_bytes / 1000:.0f}"
    return Run(name, results), told


def measured(qrels: Qrels, run: Run) -> str:
    """Means, by `plumbline evaluate`'s own code."""
    (report,) = report_runs(qrels, [run], measures=MEASURES, conventions=build_conventions(), resamples=0, seed=0)
    return " | ".join(f"{summary.mean:.4f}" for summary in report.summary_by_measure.values())


def beside_bm25s(lengths: str, run: Run, chunks: list[Chunk], queries: dict[str, str], qrels: Qrels) -> None:
    """A row: how much of the first ten is the same, how alike the order is, how far scores are apart."""
    terms = build_tokenizer("auto")
    ordered = sorted(chunks, key=lambda chunk: chunk.id)
    texts = [[term for name in PAIR for term in terms(chunk.fields[name])] for chunk in ordered]
    oracle = bm25s_scores(texts, [terms(query) for query in queries.values()], quantised=lengths == "one byte")
    shared, taus, apart, results = [], [], 0.0, {}
    for (id_, ours), scores in zip(run.results.items(), oracle, strict=True):
        assert isinstance(ours, Mapping)
        theirs = {chunk.id: float(score) for chunk, score in zip(ordered, scores, strict=True)}
        best = sorted((doc for doc in theirs if theirs[doc] > 0), key=lambda doc: (-round(theirs[doc], 4), doc))
        results[id_] = {doc: theirs[doc] for doc in best[:DEPTH]}
        shared.append(len({*list(ours)[:10]} & {*best[:10]}) / 10)
        both = [doc for doc in dict.fromkeys([*list(ours)[:100], *best[:100]]) if doc in ours]
        from scipy.stats import kendalltau  # noqa: PLC0415 - a second, which its tests do not pay

        taus.append(float(kendalltau([ours[doc] for doc in both], [theirs[doc] for doc in both]).statistic))
        apart = max([apart, *(abs(ours[doc] / theirs[doc] - 1) for doc in both)])
    row = f"{np.mean(shared):.4f} | {np.mean(taus):.4f}, least {min(taus):.4f} | {apart:.2g}"
    print(f"| {lengths} | {row} | {measured(qrels, Run(lengths, results))} |")


if __name__ == "__main__":
    main()
