"""Limits of one request under /v1/retrieval on numbers and memory; bytes are bounded by the edge, time by the route."""

from collections.abc import Sequence

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.run import Qrels, Run

MAX_RUNS = 50
MAX_RESAMPLES = 100_000
# recall@1 to recall@100, twice.
MAX_MEASURES = 200
# 0.1 to 7 microseconds a character, by the form that the text feigns: 70 s at worst.
MAX_TEXT_CHARACTERS = 200_000

# Values of all queries, runs and measures; runs times documents of one query: 160 MB in each array that holds them.
_MAX_CELLS = 20_000_000


def check_run_count(count: int) -> None:
    if not 1 <= count <= MAX_RUNS:
        raise InvalidInput(CodedText("runs_expected", limit=MAX_RUNS, found=count), place="/runs")


def check_evaluation(qrels: Qrels, *, runs: int, measures: int, resamples: int) -> None:
    if not 0 <= resamples <= MAX_RESAMPLES:
        raise InvalidInput(CodedText("resamples_expected", limit=MAX_RESAMPLES), place="/resamples")
    if measures > MAX_MEASURES:
        raise InvalidInput(CodedText("too_many_measures", limit=MAX_MEASURES, found=measures), place="/measures")
    if runs * measures * len(qrels) > _MAX_CELLS:
        many = CodedText("too_many_measured", runs=runs, measures=measures, queries=len(qrels), limit=_MAX_CELLS)
        raise InvalidInput(many)


def check_fusion(runs: Sequence[Run]) -> None:
    for query_id in dict.fromkeys(query_id for run in runs for query_id in run.results):
        pool = len(set[str]().union(*(run.results.get(query_id, ()) for run in runs)))
        if len(runs) * pool > _MAX_CELLS:
            query = quoted(query_id)
            many = CodedText("too_many_documents", runs=len(runs), documents=pool, query=query, limit=_MAX_CELLS)
            raise InvalidInput(many, place="/runs")
