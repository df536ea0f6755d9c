"""Between the wire and the retrieval room: messages become judgments, runs and conventions; reports become messages."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import Conventions, build_conventions
from plumbline.retrieval.llm_rankings import ParsedRanking, parse_ranking
from plumbline.retrieval.report import RunReport, Summary, summarise_latency
from plumbline.retrieval.run import Results, Run
from plumbline.schemas.retrieval import (
    ConventionsIn,
    LatencyOut,
    MeasureOut,
    PerQueryOut,
    RankingOut,
    RunIn,
    RunOut,
    SystemFacts,
)


def to_conventions(message: ConventionsIn) -> Conventions:
    """The preset with what the message changes.

    Raises:
        InvalidInput: an id pattern without the rule `regex` or the reverse, or a value out of its range.
    """
    given = {name: getattr(message, name) for name in message.__struct_fields__ if name != "preset"}
    return build_conventions(message.preset, **{name: value for name, value in given.items() if value is not None})


def to_run(message: RunIn, *, place: str) -> tuple[Run, list[str]]:
    """The run of a message, and the ids of the queries of which no ranking could be read.

    Raises:
        InvalidInput: not exactly one of `results` and `llm_outputs`, or candidates without outputs.
    """
    if (message.results is None) == (message.llm_outputs is None):
        raise InvalidInput("a run has either 'results' or 'llm_outputs'", place=place)
    if message.results is not None:
        if message.candidates is not None:
            raise InvalidInput("'candidates' are read with 'llm_outputs' alone", place=f"{place}/candidates")
        return Run(message.name, message.results), []
    parsed = parse_outputs(message.llm_outputs or {}, message.candidates)
    results: Mapping[str, Results] = {query: ranking.ids for query, ranking in parsed.items() if ranking.parse_ok}
    return Run(message.name, results), [query for query, ranking in parsed.items() if not ranking.parse_ok]


def parse_outputs(
    outputs: Mapping[str, str], candidates: Mapping[str, Sequence[str]] | None
) -> dict[str, ParsedRanking]:
    """The ranking in each text, by query id."""
    return {
        query: parse_ranking(text, candidates=None if candidates is None else candidates.get(query))
        for query, text in outputs.items()
    }


def ranking_out(ranking: ParsedRanking) -> RankingOut:
    """A parsed ranking as it is sent."""
    return RankingOut(
        ids=list(ranking.ids),
        unknown=list(ranking.unknown),
        duplicates_removed=ranking.duplicates_removed,
        parse_ok=ranking.parse_ok,
        form=ranking.form,
    )


def run_out(
    report: RunReport,
    *,
    per_query: bool,
    latency_ms: Mapping[str, float] | None = None,
    system: SystemFacts | None = None,
    unparsed: Sequence[str] = (),
) -> RunOut:
    """The report of one run as it is sent."""
    evaluation = report.evaluation
    latency = summarise_latency(latency_ms.values()) if latency_ms else None
    return RunOut(
        name=report.name,
        measures={text: _measure_out(summary) for text, summary in report.summary_by_measure.items()},
        counts=asdict(evaluation.counts),
        per_query=PerQueryOut(
            query_ids=list(evaluation.query_ids),
            values={text: values.tolist() for text, values in evaluation.values.items()},
        )
        if per_query
        else None,
        latency_ms=None if latency is None else LatencyOut(**asdict(latency)),
        system=system,
        unparsed=list(unparsed),
        warnings=list(evaluation.warnings),
    )


def _measure_out(summary: Summary) -> MeasureOut:
    return MeasureOut(mean=summary.mean, ci95=summary.ci95, n=summary.n)
