"""Progress of `plumbline score` and `plumbline lab`: a bar on a terminal, JSON lines in a pipe, nothing if quiet."""

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from plumbline.cli.score.counts import RunCounts

_BAR_PARTS: Final = 1_000
_BAR_SECONDS: Final = 0.25
_LINE_SECONDS: Final = 5.0


class _ProgressOutput:
    """One stream for progress: `bar` is set on a terminal, otherwise events are JSON lines."""

    def __init__(self, stream: TextIO, *, is_quiet: bool, **bar_options: Any) -> None:
        self._stream = stream
        self._is_quiet = is_quiet
        self.bar: Any = None
        if stream.isatty() and not is_quiet:
            try:
                from tqdm import tqdm  # noqa: PLC0415 - a tenth of a second, on terminals alone
            except ModuleNotFoundError:
                # The light install has no bar
                return
            # No monitor thread: the bar is redrawn anyway
            tqdm.monitor_interval = 0
            self.bar = tqdm(file=stream, leave=False, dynamic_ncols=True, mininterval=_BAR_SECONDS, **bar_options)

    def write_event(self, event: str, **fields: Any) -> None:
        if self.bar is None and not self._is_quiet:
            self._stream.write(json.dumps({"event": event, **fields}, allow_nan=False) + "\n")
            self._stream.flush()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class ScoreProgress(_ProgressOutput):
    """Progress of a scoring run, reported every `every_seconds`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream, is_quiet=False, total=_BAR_PARTS, bar_format="{postfix}")
        self.every_seconds = _LINE_SECONDS if self.bar is None else _BAR_SECONDS

    def tell(self, run: "RunCounts") -> None:
        if self.bar is None:
            if run.rows_now:
                self.write_event("progress", **_fields(run))
            return
        if run.share is not None:
            self.bar.bar_format = "{percentage:3.0f}%|{bar:20}|{postfix}"
            self.bar.n = round(_BAR_PARTS * run.share)
        self.bar.set_postfix_str(_line(run), refresh=True)

    def end(self, run: "RunCounts", left: str | None) -> None:
        """Report the end of the run; `left` is the reason why rows are left, None if none are."""
        self.write_event("ended", complete=left is None, left=left, **_fields(run))
        self.close()
        if self.bar is not None:
            self._stream.write(_summary(run))


class LabProgress(_ProgressOutput):
    """Progress of an experiment: systems done of all, and the stage of the current one."""

    def __init__(self, stream: TextIO, *, is_quiet: bool) -> None:
        bar_format = "{n_fmt}/{total_fmt} systems |{bar:20}| {elapsed} {postfix}"
        super().__init__(stream, is_quiet=is_quiet, bar_format=bar_format)

    def tell(self, event: str, **fields: Any) -> None:
        """Report an event of `plumbline.extras.lab.running`."""
        self.write_event(event, **fields)
        if self.bar is None:
            return
        if event == "begun":
            self.bar.total = fields["systems"]
            self.bar.refresh()
        elif event == "progress":
            self.bar.set_postfix_str(f"{fields['name']}: {fields['stage']}", refresh=True)
        else:
            outcome = "was there" if fields.get("was_there") else "done"
            if event == "failed":
                outcome = f"failed: {fields['detail']}"
            self.bar.update(1)
            self.bar.write(f"{fields['name']}: {outcome}", file=self.bar.fp)


def _summary(run: "RunCounts") -> str:
    counts, usage = run.summary(), run.summary().usage
    means = ", ".join(f"{tier} {mean:.3f}" for tier, mean in run.means().items()) or "no row has a score"
    lines = [
        f"{counts.rows} rows: {counts.judged} judged, {counts.abstained} abstained, {counts.empty_answer} empty, "
        f"{counts.not_judged} not judged, {counts.errors} errors; {counts.degraded} degraded",
        f"mean faithfulness: {means}" + (" (scores of different tiers are not comparable)" * (len(run.means()) > 1)),
        *(f"mean {name}: {mean:.3f}" for name, mean in run.reference_means().items()),
        f"{counts.passed} of {counts.judged} judged rows passed",
        f"{run.rows_now} rows in {_duration(run.seconds)}, {run.rate:.1f} a second",
    ]
    if usage.calls:
        cost = "cost not known (PLUMBLINE_LLM_PRICES)" if usage.cost is None else f"cost {usage.cost:.6g}"
        lines.append(f"{usage.calls} calls, {usage.prompt_tokens} tokens in, {usage.completion_tokens} out; {cost}")
    return "".join(f"{line}\n" for line in lines)


def _line(run: "RunCounts") -> str:
    counts, usage = run.summary(), run.summary().usage
    eta = run.eta_seconds
    parts = [
        f"{counts.rows} rows",
        f"{run.rate:.1f}/s",
        f"ETA {'?' if eta is None else _duration(eta)}",
        *(f"{tier} {rows}" for tier, rows in counts.tiers.model_dump().items() if rows),
    ]
    if usage.calls:
        parts.append(f"{_short(usage.prompt_tokens + usage.completion_tokens)} tokens")
        parts.append("cost ?" if usage.cost is None else f"cost {usage.cost:.4g}")
    if counts.errors:
        parts.append(f"{counts.errors} errors")
    return " ".join(parts)


def _fields(run: "RunCounts") -> dict[str, Any]:
    eta = run.eta_seconds
    return {
        **run.summary().model_dump(exclude={"seconds"}),
        "means": {tier: round(mean, 6) for tier, mean in run.means().items()},
        **({"reference_means": run.reference_means()} if run.reference_means() else {}),
        "rows_now": run.rows_now,
        "seconds": round(run.seconds, 1),
        "rows_per_second": round(run.rate, 2),
        "share": None if run.share is None else round(run.share, 4),
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
