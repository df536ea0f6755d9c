"""Limits of one request under /v1/retrieval, so that none takes much more than a minute on one core.

Bytes are bounded by the edge. Here are the products that small bodies can make large: runs times measures times
judgments, pairs times resamples, documents times weights. Rates were measured on one core of a shared server.
"""

import math
from collections.abc import Mapping, Sequence

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.run import Qrels, Run

MAX_RUNS = 50
MAX_RESAMPLES = 100_000
# recall@1 to recall@100, twice.
MAX_MEASURES = 200
# 0.1 to 7 microseconds a character, by the form that the text feigns: 70 s at worst.
MAX_TEXT_CHARACTERS = 200_000
MAX_TEXTS_CHARACTERS = 10_000_000

# 50 runs, 22 measures, 6,980 queries, 1,000 resamples just fit. 4 to 5 ns each, sign flips included 5 to 7.
_MAX_DRAWS = 8_000_000_000
# Beyond, the values lie outside of the processor's cache, and a draw takes up to five times as long.
_CACHED_QUERIES = 50_000
_UNCACHED_FACTOR = 4
# Up to 20 queries the randomization test walks all signs whatever `resamples` says: 14 ms for 2**20.
_EXACT_QUERIES = 20
_DRAWS_PER_ASSIGNMENT = 2
# What a test or an interval takes with hardly any draws: 0.5 ms.
_FEWEST_DRAWS = 100_000

# In units of 0.1 microseconds: a query costs 10 to be ordered, a value 3 to be kept and written, a judgment 0.1.
_MAX_WORK = 600_000_000
_QUERY_WORK = 100
_VALUE_WORK = 30
# Fusion: a document of the pool, and one run's say in it; a query, and one run's ranking of it.
# Runs times documents of one query lie in several arrays at once, 160 MB each at this size.
_MAX_POOL_CELLS = 20_000_000
_DOCUMENT_WORK, _FUSED_QUERY_WORK, _RANKING_WORK = 10, 500, 100


def check_run_count(count: int) -> None:
    """Raise InvalidInput unless there are 1 to `MAX_RUNS` runs."""
    if not 1 <= count <= MAX_RUNS:
        raise InvalidInput(CodedText("runs_expected", limit=MAX_RUNS, found=count), place="/runs")


def check_texts(texts_by_place: Mapping[str, Mapping[str, str]]) -> None:
    """Raise InvalidInput at the query whose LLM output is too long, or with which all of a request are."""
    total = 0
    for place, texts in texts_by_place.items():
        for query_id, text in texts.items():
            total += len(text)
            where = f"{place}/{quoted(query_id)[1:-1]}"
            if len(text) > MAX_TEXT_CHARACTERS:
                long = CodedText("text_too_long", found=len(text), limit=MAX_TEXT_CHARACTERS)
                raise InvalidInput(long, place=where)
            if total > MAX_TEXTS_CHARACTERS:
                many = CodedText("texts_too_long", found=total, limit=MAX_TEXTS_CHARACTERS)
                raise InvalidInput(many, place=where)


def check_evaluation(qrels: Qrels, *, runs: int, measures: int, resamples: int) -> None:
    """Raise InvalidInput for an evaluation with too much work, its intervals included; it says what to lower."""
    if not 0 <= resamples <= MAX_RESAMPLES:
        raise InvalidInput(CodedText("resamples_expected", limit=MAX_RESAMPLES), place="/resamples")
    if measures > MAX_MEASURES:
        raise InvalidInput(CodedText("too_many_measures", limit=MAX_MEASURES, found=measures), place="/measures")
    judgments = sum(map(len, qrels.values()))
    work = runs * (len(qrels) * (_QUERY_WORK + _VALUE_WORK * measures) + judgments * measures)
    if work > _MAX_WORK:
        raise InvalidInput(
            CodedText(
                "too_much_to_evaluate",
                runs=runs,
                measures=measures,
                queries=len(qrels),
                judgments=judgments,
                times=work / _MAX_WORK,
            )
        )
    _check_draws(
        runs * measures * _draws(len(qrels), resamples),
        CodedText("intervals_of", runs=runs, measures=measures, queries=len(qrels), resamples=resamples),
        CodedText("lower_resamples"),
    )


def check_comparison(
    *, runs: int, measures: int, queries: int, resamples: int, has_baseline: bool, is_exact_possible: bool
) -> None:
    """Raise InvalidInput for a comparison with too much work, its intervals and tests included.

    `is_exact_possible`: the test is one that walks all signs of few differences.
    """
    pairs = runs - 1 if has_baseline else math.comb(runs, 2)
    exact = _DRAWS_PER_ASSIGNMENT << min(queries, _EXACT_QUERIES) if is_exact_possible else 0
    draws = max(exact, _draws(queries, max(1, resamples)))
    _check_draws(
        pairs * measures * draws + runs * measures * _draws(queries, resamples),
        CodedText("pairs_of", pairs=pairs, measures=measures, queries=queries, resamples=resamples),
        CodedText("send_fewer_runs") if has_baseline else CodedText("send_fewer_runs_or_baseline"),
    )


def check_fusion(runs: Sequence[Run]) -> None:
    """Raise InvalidInput for a fusion with too much work."""
    work = 0
    for query_id in dict.fromkeys(query_id for run in runs for query_id in run.results):
        rankings = [run.results[query_id] for run in runs if query_id in run.results]
        pool = len(set[str]().union(*rankings))
        if len(runs) * pool > _MAX_POOL_CELLS:
            query = quoted(query_id)
            many = CodedText("too_many_documents", runs=len(runs), documents=pool, query=query, limit=_MAX_POOL_CELLS)
            raise InvalidInput(many, place="/runs")
        work += pool * (_DOCUMENT_WORK + len(runs)) + _FUSED_QUERY_WORK + _RANKING_WORK * len(runs)
    if work > _MAX_WORK:
        raise InvalidInput(CodedText("too_much_to_fuse", runs=len(runs), times=work / _MAX_WORK))


def _draws(queries: int, resamples: int) -> int:
    if not resamples:
        return 0
    return max(_FEWEST_DRAWS, queries * resamples * (_UNCACHED_FACTOR if queries > _CACHED_QUERIES else 1))


def _check_draws(draws: int, what: CodedText, advice: CodedText) -> None:
    if draws > _MAX_DRAWS:
        much = CodedText("too_much_to_draw", what=what, times=draws / _MAX_DRAWS, advice=advice)
        raise InvalidInput(much, place="/resamples")
