"""How a run is told of: a bar on a terminal, JSON lines in a pipe, nothing when it is to be quiet."""

import json
from typing import Any, Final, Protocol, TextIO

from plumbline.cli.score.counts import Standing

_BAR_PARTS: Final = 1_000
_BAR_SECONDS: Final = 0.25
_LINE_SECONDS: Final = 5.0


class Teller(Protocol):
    """Who tells the user."""

    every_seconds: float

    def tell(self, standing: Standing) -> None:
        """How the run stands now."""

    def end(self, standing: Standing, left: str | None) -> None:
        """How it ended; `left` says why rows are left, None when none are."""


def teller_of(stream: TextIO, *, is_quiet: bool) -> Teller | None:
    """The one that suits the stream."""
    if is_quiet:
        return None
    return _Bar(stream) if stream.isatty() else _JsonLines(stream)


class _JsonLines:
    every_seconds = _LINE_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def tell(self, standing: Standing) -> None:
        if standing.rows_now:
            self._write({"event": "progress", **_fields(standing)})

    def end(self, standing: Standing, left: str | None) -> None:
        self._write({"event": "ended", "complete": left is None, "left": left, **_fields(standing)})

    def _write(self, fields: dict[str, Any]) -> None:
        self._stream.write(json.dumps(fields, allow_nan=False) + "\n")
        self._stream.flush()


class _Bar:
    every_seconds = _BAR_SECONDS

    def __init__(self, stream: TextIO) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - a tenth of a second, on terminals alone

        # Its thread would redraw a bar that is redrawn anyway
        tqdm.monitor_interval = 0
        self._stream = stream
        self._bar = tqdm(total=_BAR_PARTS, file=stream, bar_format="{postfix}", leave=False, dynamic_ncols=True)

    def tell(self, standing: Standing) -> None:
        if standing.share is not None:
            self._bar.bar_format = "{percentage:3.0f}%|{bar:20}|{postfix}"
            self._bar.n = round(_BAR_PARTS * standing.share)
        self._bar.set_postfix_str(_line(standing), refresh=True)

    def end(self, standing: Standing, left: str | None) -> None:
        self._bar.close()
        self._stream.writelines(f"{line}\n" for line in summary_lines(standing))


def summary_lines(standing: Standing) -> list[str]:
    """What is said to a person at the end."""
    counts, usage = standing.counts, standing.counts.usage
    means = ", ".join(f"{tier} {mean:.3f}" for tier, mean in standing.means.items()) or "no row has a score"
    lines = [
        f"{counts.rows} rows: {counts.judged} judged, {counts.abstained} abstained, {counts.empty_answer} empty, "
        f"{counts.not_judged} not judged, {counts.errors} errors; {counts.degraded} degraded",
        f"mean faithfulness: {means}" + (" (scores of different tiers are not comparable)" * (len(standing.means) > 1)),
        f"{standing.rows_now} rows in {_duration(standing.seconds)}, {standing.rate:.1f} a second",
    ]
    if usage.calls:
        cost = "cost not known (PLUMBLINE_LLM_PRICES)" if usage.cost is None else f"cost {usage.cost:.6g}"
        lines.append(f"{usage.calls} calls, {usage.prompt_tokens} tokens in, {usage.completion_tokens} out; {cost}")
    return lines


def _line(standing: Standing) -> str:
    counts, usage = standing.counts, standing.counts.usage
    eta = standing.eta_seconds
    parts = [
        f"{counts.rows} rows",
        f"{standing.rate:.1f}/s",
        f"ETA {'?' if eta is None else _duration(eta)}",
        *(f"{tier} {rows}" for tier, rows in counts.tiers.model_dump().items() if rows),
    ]
    if usage.calls:
        parts.append(f"{_short(usage.prompt_tokens + usage.completion_tokens)} tokens")
        parts.append("cost ?" if usage.cost is None else f"cost {usage.cost:.4g}")
    if counts.errors:
        parts.append(f"{counts.errors} errors")
    return " ".join(parts)


def _fields(standing: Standing) -> dict[str, Any]:
    eta = standing.eta_seconds
    return {
        **standing.counts.model_dump(exclude={"seconds"}),
        "means": {tier: round(mean, 6) for tier, mean in standing.means.items()},
        "rows_now": standing.rows_now,
        "seconds": round(standing.seconds, 1),
        "rows_per_second": round(standing.rate, 2),
        "share": None if standing.share is None else round(standing.share, 4),
        "eta_seconds": None if eta is None else round(eta, 1),
    }


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3_600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _short(number: int) -> str:
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return str(number)
