"""Answers of the retrieval routes: from the bytes of a body to messages, in a worker thread."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from plumbline.ground.errors import BodyTooLarge, FileTooLarge, InvalidInput, MalformedBody
from plumbline.ground.texts import CodedText
from plumbline.retrieval.comparison import RunComparison, RunReport, compare_reports, report_runs, summarise_latency
from plumbline.retrieval.conventions import Conventions, as_dict, build_conventions
from plumbline.retrieval.fusion import fuse
from plumbline.retrieval.input_rows import PARQUET, NamedFile
from plumbline.retrieval.inputs import Judgments, ReadRun, read_qrels, read_run
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Run
from plumbline.retrieval.tables import TABLE_WRITERS, Table, comparison_table
from plumbline.retrieval.text_file import ReadLimits, format_place, read_text_bytes
from plumbline.service.api import retrieval_messages as wire
from plumbline.service.api.body_stream import BodyLimit
from plumbline.service.api.json_body import decode_message
from plumbline.service.api.retrieval_limits import (
    MAX_TEXT_CHARACTERS,
    check_evaluation,
    check_fusion,
    check_run_count,
)

_MAX_FILE_ROWS = 20_000_000
# The bytes of a body are bounded at the edge
_LIMITS = ReadLimits(max_bytes=2**63, max_rows=_MAX_FILE_ROWS, max_reply=MAX_TEXT_CHARACTERS)


def evaluate_runs(body: bytes) -> wire.RetrievalEvaluationResult:
    reports, outs = _report(decode_message(body, wire.RetrievalEvaluationRequest))
    return wire.RetrievalEvaluationResult(conventions=_conventions(reports), runs=outs)


def evaluate_files(
    qrels: NamedFile, runs: Sequence[NamedFile], options: bytes, limit: BodyLimit
) -> wire.RetrievalEvaluationResult:
    """Return the answer of /evaluations for files, plain or gzipped, within the limit of a body when decompressed.

    Raises:
        InvalidInput: it names the file and line, or the place in the options.
        BodyTooLarge: the files are larger.
    """
    reports, outs, _ = _report_files(qrels, runs, options, limit)
    return wire.RetrievalEvaluationResult(conventions=_conventions(reports), runs=outs)


def compare_files(
    qrels: NamedFile, runs: Sequence[NamedFile], options: bytes, limit: BodyLimit
) -> wire.ComparisonResult:
    """Return what `evaluate_files` does, and each further run compared with the first as /comparisons does."""
    reports, outs, message = _report_files(qrels, runs, options, limit)
    tested = {"baseline": reports[0].name, "resamples": max(1, message.resamples), "seed": message.seed}
    return _comparison(reports, outs, compare_reports(reports, **tested) if reports[1:] else ())


def _report_files(
    qrels: NamedFile, runs: Sequence[NamedFile], options: bytes, limit: BodyLimit
) -> tuple[tuple[RunReport, ...], list[wire.RunOut], wire.FormOptions]:
    try:
        message = decode_message(options or b"{}", wire.FormOptions)
    except MalformedBody as error:
        raise InvalidInput(error.text, place="options") from None
    limits = ReadLimits(max_bytes=limit.max_bytes, max_rows=_MAX_FILE_ROWS, max_reply=MAX_TEXT_CHARACTERS)
    unpacked = _unpack([qrels, *runs], limits, limit.advice)
    judged = read_qrels(next(unpacked), limits=limits, alternatives=message.alternatives)
    read = [read_run(each, name=each.name, limits=limits, append_missing=message.append_missing) for each in unpacked]
    reports = _reports(judged, [each.run for each in read], message)
    outs = [
        _run_out(report, per_query=message.per_query, read=own, judged=judged)
        for report, own in zip(reports, read, strict=True)
    ]
    return reports, outs, message


def compare_runs(body: bytes) -> wire.ComparisonResult:
    message = decode_message(body, wire.ComparisonRequest)
    reports, outs = _report(message)
    comparisons = compare_reports(
        reports,
        baseline=message.baseline,
        test=message.test,
        correction=message.correction,
        alpha=message.alpha,
        resamples=max(1, message.resamples),
        seed=message.seed,
    )
    return _comparison(reports, outs, comparisons, TABLE_WRITERS.get(message.format))


def _comparison(
    reports: Sequence[RunReport],
    outs: list[wire.RunOut],
    comparisons: tuple[RunComparison, ...],
    write: Callable[[Table], str] | None = None,
) -> wire.ComparisonResult:
    return wire.ComparisonResult(
        conventions=_conventions(reports),
        runs=outs,
        comparisons=comparisons,
        table=write(comparison_table(comparisons)) if write else None,
    )


def fuse_runs(body: bytes) -> wire.FusionResult:
    message = decode_message(body, wire.FusionRequest)
    # Refuse wrong ones without judgments too.
    _to_conventions(message.conventions)
    parse_measures(message.measures)
    runs = [each.run for each in _runs(message.runs)]
    check_fusion(runs)
    recipe = {name: getattr(message, name) for name in ("method", "norm", "weights", "params", "missing", "depth")}
    fusion = fuse(runs, name=message.name, **recipe)
    report = None
    if message.qrels is not None:
        options = wire.EvaluationOptions(measures=message.measures, conventions=message.conventions, resamples=0)
        with _at("/qrels"):
            judged = read_qrels(message.qrels)
        report = _run_out(_reports(judged, [fusion.run], options)[0], per_query=False, judged=judged)
    return wire.FusionResult(
        name=fusion.run.name,
        results={query: dict(scores) for query, scores in fusion.run.results.items() if isinstance(scores, dict)},
        method=fusion.recipe.method,
        norm=fusion.recipe.norm,
        weights=list(fusion.recipe.weights),
        params=dict(fusion.recipe.params),
        report=report,
        warnings=list(fusion.warnings),
    )


def _unpack(files: Sequence[NamedFile], limits: ReadLimits, advice: str) -> Iterator[NamedFile]:
    total = 0
    for file in files:
        try:
            data = file.content
            if not data.startswith(PARQUET):
                data = read_text_bytes(data, name=file.name, limits=limits)
        except FileTooLarge as error:
            raise BodyTooLarge(CodedText("file_too_large_for", reason=error.text, advice=advice)) from None
        total += len(data)
        if total > limits.max_bytes:
            large = CodedText("files_too_large", bytes=total, limit=limits.max_bytes, advice=advice)
            raise BodyTooLarge(CodedText("at_place", place=format_place(file.name), detail=large))
        yield NamedFile(file.name, data)


def _report(message: wire.RetrievalEvaluationRequest) -> tuple[tuple[RunReport, ...], list[wire.RunOut]]:
    runs = _runs(message.runs)
    with _at("/qrels"):
        judged = read_qrels(message.qrels, alternatives=message.alternatives)
    reports = _reports(judged, [each.run for each in runs], message, lengths=message.lengths)
    outs = [
        _run_out(report, per_query=message.per_query, given=given, read=read, judged=judged)
        for report, given, read in zip(reports, message.runs, runs, strict=True)
    ]
    return reports, outs


def _reports(
    judged: Judgments,
    runs: Sequence[Run],
    options: wire.EvaluationOptions,
    *,
    lengths: Mapping[str, float] | None = None,
) -> tuple[RunReport, ...]:
    measures = parse_measures(options.measures)
    check_evaluation(judged.qrels, runs=len(runs), measures=len(measures), resamples=options.resamples)
    return report_runs(
        judged.qrels,
        [judged.apply(run) for run in runs],
        measures=measures,
        conventions=_to_conventions(options.conventions),
        resamples=options.resamples,
        seed=options.seed,
        lengths=lengths,
        allow_disjoint=options.allow_disjoint,
    )


def _conventions(reports: Sequence[RunReport]) -> dict[str, object]:
    return as_dict(reports[0].evaluation.conventions)


def _runs(messages: Sequence[wire.RunIn]) -> list[ReadRun]:
    check_run_count(len(messages))
    return [_to_run(run, place=f"/runs/{position}") for position, run in enumerate(messages)]


def _to_conventions(message: wire.ConventionsIn) -> Conventions:
    given = {name: getattr(message, name) for name in message.__struct_fields__ if name != "preset"}
    return build_conventions(message.preset, **{name: value for name, value in given.items() if value is not None})


def _to_run(message: wire.RunIn, *, place: str) -> ReadRun:
    if (message.results is None) == (message.llm_outputs is None):
        raise InvalidInput(CodedText("results_or_outputs"), place=place)
    with _at(place):
        return read_run(
            message.results if message.llm_outputs is None else message.llm_outputs,
            name=message.name,
            limits=_LIMITS,
            candidates=message.candidates,
            append_missing=message.append_missing,
        )


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=f"{place}/{error.place}".removesuffix("/")) from None


def _run_out(
    report: RunReport,
    *,
    per_query: bool,
    given: wire.RunIn | None = None,
    read: ReadRun | None = None,
    judged: Judgments,
) -> wire.RunOut:
    evaluation = report.evaluation
    return wire.RunOut(
        name=report.name,
        measures=dict(report.summary_by_measure),
        counts=evaluation.counts,
        per_query=wire.PerQueryOut(
            query_ids=list(evaluation.query_ids),
            values={text: values.tolist() for text, values in evaluation.values.items()},
        )
        if per_query
        else None,
        latency_ms=summarise_latency(given.latency_ms.values()) if given and given.latency_ms else None,
        system=given.system if given else None,
        unparsed=read.unparsed if read else [],
        warnings=[*judged.warnings, *(read.warnings if read else ()), *evaluation.warnings],
        rankings=dict(read.rankings) if read and read.rankings and per_query else None,
    )
