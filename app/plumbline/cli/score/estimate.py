"""Estimate of `plumbline score --estimate`, as lines for a person."""

from itertools import islice

from plumbline.cli.score.local import LocalEngine
from plumbline.cli.score.source import InputSource
from plumbline.models.chat.cost_estimate import CostEstimate
from plumbline.rows.evaluation_wire import metrics_of
from plumbline.rows.records.record import Record


def estimate_lines(source: InputSource, engine: LocalEngine) -> list[str]:
    """Return the estimate over all rows, and its assumptions."""
    options = engine.options
    found = CostEstimate(
        engine.settings,
        engine.plan.prompts,
        engine.judges,
        engine.votes,
        metrics=metrics_of(options),
        escalation=options.escalation,
    )
    with source.open() as reader:
        for row in islice(reader, source.limit):
            if source.shard.has(row.row):
                found.add(row.sample if isinstance(row, Record) else None)
    counts, models = found.counts, dict.fromkeys(endpoint.model for endpoint in engine.votes)
    unasked = counts["rows"] - counts["asked"] - counts["bad"]
    head = f"{counts['rows']} rows: {counts['asked']} for tier llm, {unasked} without it, {counts['bad']} bad"
    if not models:
        return [head, "tier llm: no judge is configured, or --tiers leaves it out: it costs nothing"]
    cost = "not known: set PLUMBLINE_LLM_PRICES" if found.cost is None else f"{found.cost:.6g}"
    return [
        head,
        f"tier llm ({', '.join(models)}): {counts['requests']} requests, {counts['prompt']} tokens in, "
        f"{counts['completion']} tokens out, cost {cost}",
        *_escalation_lines(found),
        "assumed: from what one strong model used, 4.2 ASCII characters or 1.4 other characters a token, and 80 "
        "tokens out a sentence; nothing from a cache",
        "not in it: second looks at what is missing or doubtful (one more request for a row that needs it), "
        "escalation, retries, fallbacks",
    ]


def _escalation_lines(found: CostEstimate) -> list[str]:
    if found.second is None:
        return []
    share, is_known = found.second_share
    said = "by PLUMBLINE_LLM_BOUNDS" if is_known else "assumed; `plumbline rate threshold` finds yours"
    requests = round(found.counts["second"] * share)
    cost = "not known" if found.second_cost is None else f"{found.second_cost * share:.6g}"
    return [f"escalation ({found.second.model}): {requests} requests for {share:.0%} ({said}), cost {cost}"]
