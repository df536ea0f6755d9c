"""What is counted of a row, read back off its line: the few fields that matter, without the rest of the result."""

from typing import Final, NamedTuple

import msgspec

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.scored_row import RowStatus, ScoredRow

_OUR_FAULT: Final = 500


class WrittenRow(NamedTuple):
    """A row as its line tells it. `faithfulness` is None without a score, `custom_id` where it could not be taken."""

    row: int
    custom_id: str | None
    faithfulness: float | None
    scored: ScoredRow


class _Usage(msgspec.Struct):
    calls: int
    unmetered_calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost: float | None


class _Result(msgspec.Struct):
    status: RowStatus
    tier: str | None
    faithfulness: float | None
    usage: _Usage
    flags: list[str]


class _Error(msgspec.Struct):
    status: int


class _Line(msgspec.Struct):
    custom_id: str | None
    row: int
    result: _Result | None = None
    error: _Error | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)


def read_written(line: bytes) -> WrittenRow | None:
    """The row of a line; None when it is none as `schemas.rows` has them. `scored.line` is left empty."""
    try:
        found = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    if found.result is not None:
        return WrittenRow(found.row, found.custom_id, found.result.faithfulness, _with_result(found.row, found.result))
    if found.error is not None:
        status = RowStatus.FAILED if found.error.status >= _OUR_FAULT else RowStatus.INVALID
        scored = ScoredRow(found.row, b"", status, None, is_degraded=False, usage=Usage())
        return WrittenRow(found.row, found.custom_id, None, scored)
    return None


def _with_result(row: int, result: _Result) -> ScoredRow:
    used = result.usage
    usage = Usage(
        calls=used.calls,
        unmetered_calls=used.unmetered_calls,
        prompt_tokens=used.prompt_tokens,
        completion_tokens=used.completion_tokens,
        cached_tokens=used.cached_tokens,
        cost=used.cost,
    )
    return ScoredRow(row, b"", result.status, result.tier, "degraded" in result.flags, usage)
