"""Lines of results as the service writes them, for what reads them; every text in them can be chosen."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from plumbline.rows.report.building import DEFAULT_WORST, Report, ReportBuilder
from plumbline.rows.report.comparison import Baseline
from plumbline.rows.report.gates import CiGate
from plumbline.schemas.batch import RowError, RowResult
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.problem import FieldProblem, RowProblem
from plumbline.schemas.report import GateOutcome
from plumbline.schemas.result_upgrade import upgrade_result
from plumbline.schemas.wire import json_line

VERDICTS = ("supported", "partial", "contradicted", "not_mentioned", "not_a_claim")
_WEIGHTS = {"supported": 1.0, "partial": 0.5, "contradicted": 0.0, "not_mentioned": 0.0, "not_a_claim": None}


def scored_line(
    custom_id: str,
    faithfulness: float,
    *,
    row: int = 0,
    tier: str | None = "llm",
    verdicts: Sequence[str] = ("supported",),
    text: str = "The bridge was opened in 1931.",
    passed: bool | None = None,
    cost: float | None = 0.25,
    flags: Sequence[str] = (),
    decision: Mapping[str, Any] | None = MappingProxyType({"rule": "threshold", "threshold": 0.7}),
    scores: Mapping[str, Any] = MappingProxyType({}),
    trace: Mapping[str, Any] = MappingProxyType({}),
    **fields: Any,
) -> bytes:
    """A judged row with one sentence and one claim for each verdict."""
    counts = {verdict: sum(each == verdict for each in verdicts) for verdict in VERDICTS}
    supports = [support for verdict in verdicts if (support := _WEIGHTS[verdict]) is not None]
    unsupported = sum(counts[verdict] for verdict in ("partial", "contradicted", "not_mentioned"))
    known = {"lowest_support": min(supports, default=None), "unsupported_claims": unsupported}
    return result_line(
        custom_id,
        row=row,
        status="judged",
        tier=tier,
        faithfulness=faithfulness,
        hallucination_rate=1 - faithfulness,
        context_utilization=0.5,
        passed=faithfulness >= 0.7 if passed is None else passed,
        claims=[claim(place, verdict, text) for place, verdict in enumerate(verdicts)],
        counts=counts,
        decision=decision,
        scores={**known, **scores},
        trace={"usage": usage(cost), **trace},
        flags=list(flags),
        **fields,
    )


def unsure_line(custom_id: str, faithfulness: float = 0.5, **fields: Any) -> bytes:
    """A judged row of which a tier without a judge cannot tell if it passes."""
    line = json.loads(
        scored_line(custom_id, faithfulness, **{"tier": "lexical", "decision": {"rule": "unsure"}, **fields})
    )
    return json.dumps({**line, "result": {**line["result"], "passed": None}}).encode()


def metric(value: float | None) -> dict[str, Any]:
    """A metric that was judged, or for which the judge found nothing to count."""
    status, reason = ("not_applicable", "nothing_to_count") if value is None else ("judged", None)
    return {"value": value, "status": status, "reason": reason, "verdicts": []}


def claim(sentence: int, verdict: str, text: str) -> dict[str, Any]:
    """A claim whose reason and quote are the text too."""
    return {
        "id": f"c{sentence}",
        "sentence": sentence,
        "text": text,
        "start": 0,
        "end": len(text),
        "verdict": verdict,
        "support": _WEIGHTS[verdict],
        "weight": 1.0,
        "reason": text,
        "evidence": [{"context": 2, "quote": text, "start": 0, "end": 1, "verified": True}],
        "flags": [],
    }


def usage(cost: float | None) -> dict[str, Any]:
    """One call."""
    return {
        "calls": 1,
        "unmetered_calls": 0,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cached_tokens": 5,
        "cost": cost,
    }


def result_line(custom_id: str, *, row: int = 0, **fields: Any) -> bytes:
    """A row with a result; fields that are not given say that nothing is known."""
    unknown = dict.fromkeys(("tier", "faithfulness", "hallucination_rate", "context_utilization", "passed"))
    result = EvaluationResult.model_validate({**unknown, "trace": {}, "id": custom_id, **fields})
    return json_line(RowResult(custom_id=custom_id, row=row, result=result))


def error_line(
    custom_id: str | None, *, row: int = 0, detail: str = "1 problem in the row", title: str = "No"
) -> bytes:
    """A row with an error."""
    problem = RowProblem(
        type="urn:plumbline:problem:validation",
        title=title,
        status=422,
        detail=detail,
        errors=[FieldProblem(pointer="/answer", detail=detail)],
    )
    return json_line(RowError(custom_id=custom_id, row=row, line=row + 1, error=problem))


def hostile_lines(text: str) -> list[bytes]:
    """One row of each kind with the text wherever a text of others can stand."""
    attempt = {"tier": "llm", "outcome": "failed", "reason": text, "detail": text, "seconds": 1.0, "calls": 1}
    name = text[:200] or "q"
    return [
        scored_line(
            name,
            0.0,
            row=0,
            verdicts=VERDICTS,
            text=text,
            flags=[text],
            warnings=[{"text": text}],
            trace={"attempts": [attempt]},
        ),
        scored_line(f"{name[:199]}2", 1.0, row=1, tier="lexical", text=text),
        result_line(name, row=2, status="not_judged", trace={"attempts": [attempt]}, warnings=[{"text": text}]),
        result_line(name, row=3, status="abstained"),
        result_line(name, row=4, status="empty_answer"),
        error_line(name, row=5, detail=text, title=text),
    ]


def build_report(
    lines: Iterable[bytes | None],
    *,
    worst: int = DEFAULT_WORST,
    baseline_lines: Iterable[bytes | None] | None = None,
    gates: Sequence[CiGate] = (),
) -> Report:
    """Build the report on lines of results, without the usual gates."""
    baseline = None if baseline_lines is None else Baseline(baseline_lines)
    builder = ReportBuilder(worst=worst, baseline=baseline, gates=gates)
    for line in lines:
        builder.add(line)
    return builder.report()


# Reasons of verdicts that had none in 0.2
_NEW_REASONS = ("no_context_given", "little_like_it", "nothing_like_it", "least_supported", "judge_finds")


def comparable_with_old(line: str) -> dict[str, Any]:
    """Return a result in the shape of today, less its seconds and what 0.2 lacked: codes, and some reasons."""
    result = json.loads(re.sub(r'"seconds":[0-9.e-]+', '"seconds":0', line))
    new = [each["id"] for each in result.get("claims", ()) if (each.get("reason_code") or "").startswith(_NEW_REASONS)]
    for each in (*result.get("claims", ()), *(result.get("decision") or {}).get("because", ())):
        if each.get("claim", each.get("id")) in new:
            del each["reason"]
    return EvaluationResult.model_validate(upgrade_result(result)).model_dump(
        exclude={
            "claims": {"__all__": {"reason_code", "reason_fields"}},
            "trace": {"attempts": {"__all__": {"detail_code", "detail_fields"}}},
            "warnings": {"__all__": {"code", "fields"}},
        }
    )


def with_gates(report: Report, *outcomes: GateOutcome) -> Report:
    """The report with these outcomes."""
    return replace(report, summary=report.summary.model_copy(update={"gates": list(outcomes)}))
