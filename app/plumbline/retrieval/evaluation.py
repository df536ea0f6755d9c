"""Evaluate one run against judgments: measures by query, means, counts and warnings."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.combination import rank_results
from plumbline.retrieval.conventions import DEFAULT_CONVENTIONS, Conventions
from plumbline.retrieval.formulas import MeasureInputs, build_inputs, compute_measure
from plumbline.retrieval.ids import select_id_rule, suggest_cause
from plumbline.retrieval.measure import TOTALS, Measure, parse_measures
from plumbline.retrieval.order import IdNormaliser
from plumbline.retrieval.ranking import Rankings, normalise_qrels, rank
from plumbline.retrieval.run import FloatArray, Qrels, Run, document_place

# The depth of `judged_share` when no measure has a cutoff: the customary page of results.
_JUDGED_DEPTH = 10
# Share of the queries with results: no retriever's scores all rise by chance.
_RISING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class EvaluationCounts:
    """Counts behind the values.

    judged: queries with judgments. queries: evaluated, and in every mean. missing: judged but not in the run. extra: in
    the run but not judged. without_relevant: judged queries with no relevant document, evaluated or left out.
    duplicates_removed: as deep as the measures look. retrieved: unique documents over all queries. judged_share: of the
    documents among the first `judged_depth` of all queries, in [0, 1]; None when nothing was retrieved. gold, correct:
    relevant documents judged and retrieved, over all queries, as deep as the measures look.
    """

    judged: int
    queries: int
    missing: int
    extra: int
    without_relevant: int
    duplicates_removed: int
    retrieved: int
    judged_share: float | None
    judged_depth: int
    gold: int
    correct: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of one run.

    query_ids: the evaluated queries, in the order of the judgments. values: by measure text, shape (queries,), aligned
    with `query_ids`. means: by measure text; None without queries. conventions: as resolved, `max_rel` included.
    missing_query_ids: judged, not in the run. extra_query_ids: in the run, not judged.
    """

    query_ids: tuple[str, ...]
    values: Mapping[str, FloatArray]
    means: Mapping[str, float | None]
    counts: EvaluationCounts
    conventions: Conventions
    warnings: tuple[str, ...]
    missing_query_ids: tuple[str, ...]
    extra_query_ids: tuple[str, ...]


def evaluate(
    qrels: Qrels,
    run: Run,
    measures: Iterable[Measure | str],
    *,
    conventions: Conventions = DEFAULT_CONVENTIONS,
    normalise_id: IdNormaliser | None = None,
    lengths: Mapping[str, float] | None = None,
) -> Evaluation:
    """Compute every measure for every judged query.

    Args:
        normalise_id: in place of the rule that `conventions.id_rule` names.
        lengths: tokens of each document, by the ids of the run, for `recall_budget`.

    Raises InvalidInput: a measure, grade, score or id that the conventions refuse; the place is `query/document`.
    """
    asked = parse_measures(map(str, measures))
    normalise_id = normalise_id or select_id_rule(conventions, qrels=qrels, run=run)
    judged = normalise_qrels(qrels, normalise_id)
    resolved = conventions
    if conventions.max_rel is None and any(measure.name == "map_graded" for measure in asked):
        highest = max((max(grades.values(), default=1) for grades in judged.values()), default=1)
        resolved = replace(conventions, max_rel=max(highest, 1))
    missing = tuple(query_id for query_id in judged if query_id not in run.results)
    extra = tuple(query_id for query_id in run.results if query_id not in judged)
    level = resolved.rel_level
    barren = frozenset(query for query, grades in judged.items() if max(grades.values(), default=level - 1) < level)
    kept = _select_queries(judged, frozenset(missing), barren, resolved)
    cutoffs = [measure.k for measure in asked if measure.k is not None]
    # A measure without a cutoff needs the whole ranking.
    depth = max(cutoffs) if cutoffs and len(cutoffs) == len(asked) else None
    ranked = rank(judged, run, query_ids=kept, conventions=resolved, normalise_id=normalise_id, depth=depth)
    wrong = next((doc_id for doc_id, length in (lengths or {}).items() if not 0 <= length < math.inf), None)
    if wrong is not None:
        detail = CodedText("length_wrong", found=(lengths or {})[wrong])
        raise InvalidInput(detail, place=f"lengths/{quoted(wrong)[1:-1]}")
    if any(measure.name == "recall_budget" for measure in asked) and lengths is not None:
        ranked = replace(ranked, lengths=_lengths(run, ranked, lengths, resolved))
    inputs = build_inputs(ranked, resolved)
    values = {str(measure): compute_measure(measure, inputs) for measure in asked}
    means = {
        str(measure): float(value.sum() if measure.name in TOTALS else value.mean()) if len(value) else None
        for measure, value in zip(asked, values.values(), strict=True)
    }
    counts = _counts(
        asked, inputs, judged=len(judged), missing=len(missing), extra=len(extra), without_relevant=len(barren)
    )
    warnings = _warnings(counts, resolved, is_max_rel_declared=conventions.max_rel == resolved.max_rel)
    warnings += _strange(judged, run, ranked, counts)
    return Evaluation(ranked.query_ids, values, means, counts, resolved, warnings, missing, extra)


def refuse_disjoint(evaluation: Evaluation) -> None:
    """Raise InvalidInput for a run that has no query, or no document, in common with the judgments."""
    for line in evaluation.warnings:
        if isinstance(line, CodedText) and line.code in ("no_query_judged", "no_document_judged"):
            raise InvalidInput(CodedText("nothing_in_common", reason=line))


def _select_queries(
    qrels: Qrels, missing: frozenset[str], barren: frozenset[str], conventions: Conventions
) -> tuple[str, ...]:
    if missing and conventions.missing_queries == "error":
        first = next(query_id for query_id in qrels if query_id in missing)
        raise InvalidInput(CodedText("queries_lacking", count=len(missing)), place=quoted(first)[1:-1])
    dropped = missing if conventions.missing_queries == "skip" else frozenset()
    dropped |= barren if conventions.no_relevant == "skip" else frozenset()
    return tuple(query_id for query_id in qrels if query_id not in dropped)


def _counts(
    measures: tuple[Measure, ...],
    inputs: MeasureInputs,
    *,
    judged: int,
    missing: int,
    extra: int,
    without_relevant: int,
) -> EvaluationCounts:
    ranked = inputs.rankings
    depth = max((measure.k for measure in measures if measure.k is not None), default=_JUDGED_DEPTH)
    seen = float(ranked.retrieved_within(depth).sum())
    return EvaluationCounts(
        judged=judged,
        queries=len(ranked.query_ids),
        missing=missing,
        extra=extra,
        without_relevant=without_relevant,
        duplicates_removed=ranked.duplicates_removed,
        retrieved=int(ranked.retrieved.sum()),
        judged_share=float(ranked.rows.within(depth).sum()) / seen if seen else None,
        judged_depth=depth,
        gold=int(inputs.total.sum()),
        correct=len(inputs.relevant.rank),
    )


def _warnings(counts: EvaluationCounts, conventions: Conventions, *, is_max_rel_declared: bool) -> tuple[str, ...]:
    left_out, counted = CodedText("left_out"), CodedText("counted_as_0")
    missing = left_out if conventions.missing_queries == "skip" else counted
    barren = left_out if conventions.no_relevant == "skip" else counted
    lacking, max_rel = counts.without_relevant, conventions.max_rel
    found = (
        (
            counts.missing,
            CodedText("queries_missing", count=counts.missing, judged=counts.judged, treatment=missing),
        ),
        (counts.extra, CodedText("queries_unjudged", count=counts.extra)),
        (lacking, CodedText("queries_without_relevant", count=lacking, treatment=barren)),
        (counts.duplicates_removed, CodedText("documents_repeated", count=counts.duplicates_removed)),
        (not is_max_rel_declared, CodedText("max_rel_taken", grade=max_rel or 0)),
        (counts.queries == 0, CodedText("no_query_evaluated")),
    )
    return tuple(text for applies, text in found if applies)


def _strange(qrels: Qrels, run: Run, ranked: Rankings, counts: EvaluationCounts) -> tuple[str, ...]:
    """Return warnings of runs and judgments that do not fit each other, and of scores that are distances."""
    found = []
    hint: str | None
    if run.results and counts.missing == counts.judged:
        theirs, ours = next(iter(run.results)), next(iter(qrels), "")
        swapped = any(not grades.keys().isdisjoint(run.results) for grades in qrels.values())
        hint = CodedText("queries_are_documents") if swapped else CodedText("another_collection")
        found.append(CodedText("no_query_judged", one=quoted(theirs), other=quoted(ours), hint=hint))
    elif counts.retrieved and not len(ranked.rows.rank):
        hint = suggest_cause(qrels, run)
        theirs = next((doc_id for results in run.results.values() for doc_id in results), "")
        ours = next((doc_id for grades in qrels.values() for doc_id in grades), "")
        detail = hint or CodedText("ids_differ", one=quoted(theirs), other=quoted(ours))
        found.append(CodedText("no_document_judged", hint=detail))
    if ranked.rising > _RISING_SHARE * max(len(ranked.query_ids) - counts.missing, 1):
        found.append(CodedText("scores_rise", count=ranked.rising))
    return tuple(found)


def _lengths(
    run: Run, ranked: Rankings, lengths: Mapping[str, float], conventions: Conventions
) -> tuple[FloatArray, ...]:
    """Return the lengths of the documents of each query, best first."""
    if ranked.duplicates_removed and conventions.dedupe == "before_cutoff":
        raise InvalidInput(CodedText("budget_counts_chunks"), place="dedupe")
    if conventions.judged_only or conventions.ignore_identical_ids:
        raise InvalidInput(CodedText("budget_counts_all"), place="recall_budget")
    found = []
    for query_id in ranked.query_ids:
        documents = rank_results(run.results.get(query_id, ()), ties=conventions.ties).doc_ids
        lacking = next((doc_id for doc_id in documents if doc_id not in lengths), None)
        if lacking is not None:
            raise InvalidInput(CodedText("length_missing"), place=document_place(query_id, lacking))
        found.append(np.array([lengths[doc_id] for doc_id in documents], dtype=np.float64))
    return tuple(found)
