"""What is counted of results, in SQL that SQLite and PostgreSQL both read."""

from collections.abc import Mapping, Sequence
from typing import Final

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.job import JobCounts
from plumbline.rows.scored_row import RowStatus, ScoredRow

_STATUSES: Final = tuple(status.value for status in RowStatus)
_TIERS: Final = ("llm", "embedding", "lexical")
_USED: Final = ("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens")

# A column of `chunk`, and how it is counted from its results.
_COUNTED: Final[Mapping[str, str]] = {
    **{name: f"CASE WHEN r.status = '{name}' THEN 1 ELSE 0 END" for name in _STATUSES},
    **{name: f"CASE WHEN r.tier = '{name}' THEN 1 ELSE 0 END" for name in _TIERS},
    "degraded": "r.degraded",
    **{name: f"r.{name}" for name in _USED},
    "cost": "coalesce(r.cost, 0)",
    "unpriced": "CASE WHEN r.cost IS NULL THEN 1 ELSE 0 END",
}
COUNT_COLUMNS: Final = tuple(_COUNTED)
# of results `r`
SUMS_OF_RESULTS: Final = ", ".join(f"coalesce(sum({how}), 0)" for how in _COUNTED.values())
# of chunks `c`
SUMS_OF_CHUNKS: Final = ", ".join(f"coalesce(sum(c.{name}), 0)" for name in _COUNTED)

# Of a result, in the order of `values_of`.
RESULT_COLUMNS: Final = ("status", "tier", "degraded", *_USED, "cost", "line")


def values_of(row: ScoredRow) -> tuple[object, ...]:
    """The values of `RESULT_COLUMNS`."""
    used = row.usage
    return (
        row.status.value,
        row.tier,
        int(row.is_degraded),
        *(getattr(used, name) for name in _USED),
        used.cost,
        row.line,
    )


def counts_of(*sums: Sequence[float]) -> JobCounts:
    """The counts in rows of `SUMS_OF_RESULTS` or `SUMS_OF_CHUNKS`, added up."""
    of = dict(zip(COUNT_COLUMNS, (sum(each) for each in zip(*sums, strict=True)), strict=True))
    return JobCounts(
        by_status={name: int(of[name]) for name in _STATUSES},
        by_tier={name: int(of[name]) for name in _TIERS},
        degraded=int(of["degraded"]),
        usage=Usage(
            **{name: int(of[name]) for name in _USED},
            cost=None if of["unpriced"] else float(of["cost"]),
        ),
    )
