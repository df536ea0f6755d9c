"""How an experiment is told of: a bar on a terminal, JSON lines in a pipe, nothing when it is to be quiet."""

import json
import time
from typing import Any, Final, TextIO

from plumbline.extras.lab.telling import Teller

_LINE_SECONDS: Final = 5.0
_BAR_SECONDS: Final = 0.25


def lab_teller(stream: TextIO, *, is_quiet: bool) -> Teller:
    """The one that suits the stream."""
    if is_quiet:
        return _Silent()
    return _Bar(stream) if stream.isatty() else _JsonLines(stream)


class _Silent:
    def steps(self, total: int) -> None:
        """Nothing."""

    def stage(self, name: str, stage: str, done: int = 0, total: int = 0) -> None:
        """Nothing."""

    def done(self, name: str, *, was_there: bool) -> None:
        """Nothing."""

    def failed(self, name: str, detail: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class _JsonLines:
    """A line when a stage begins, and every few seconds while it lasts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._at = ("", "")
        self._told = 0.0

    def steps(self, total: int) -> None:
        self._write({"event": "begun", "systems": total})

    def stage(self, name: str, stage: str, done: int = 0, total: int = 0) -> None:
        now = time.monotonic()
        if self._at != (name, stage) or now - self._told >= _LINE_SECONDS:
            self._at, self._told = (name, stage), now
            self._write({"event": "progress", "name": name, "stage": stage, "done": done, "total": total})

    def done(self, name: str, *, was_there: bool) -> None:
        self._write({"event": "done", "name": name, "was_there": was_there})

    def failed(self, name: str, detail: str) -> None:
        self._write({"event": "failed", "name": name, "detail": detail})

    def end(self) -> None:
        """The table says the rest."""

    def _write(self, fields: dict[str, Any]) -> None:
        self._stream.write(json.dumps(fields, allow_nan=False) + "\n")
        self._stream.flush()


class _Bar:
    """Systems done of all, with what is done now behind it."""

    def __init__(self, stream: TextIO) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - a tenth of a second, on terminals alone

        # Its thread would redraw a bar that is redrawn anyway
        tqdm.monitor_interval = 0
        self._bar = tqdm(
            file=stream,
            bar_format="{n_fmt}/{total_fmt} systems |{bar:20}| {elapsed} {postfix}",
            leave=False,
            dynamic_ncols=True,
            mininterval=_BAR_SECONDS,
        )

    def steps(self, total: int) -> None:
        self._bar.total = total
        self._bar.refresh()

    def stage(self, name: str, stage: str, done: int = 0, total: int = 0) -> None:
        share = f" {done}/{total}" if total else ""
        self._bar.set_postfix_str(f"{name}: {stage}{share}", refresh=True)

    def done(self, name: str, *, was_there: bool) -> None:
        self._bar.update(1)
        self._bar.write(f"{name}: {'was there' if was_there else 'done'}", file=self._bar.fp)

    def failed(self, name: str, detail: str) -> None:
        self._bar.update(1)
        self._bar.write(f"{name}: failed: {detail}", file=self._bar.fp)

    def end(self) -> None:
        self._bar.close()
