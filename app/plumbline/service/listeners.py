"""Listeners of one process: metrics always, traces if the settings ask for them."""

from pathlib import Path
from typing import NamedTuple

from plumbline.ground.settings import Settings
from plumbline.ground.version import VERSION
from plumbline.judging.ports.observation import Observer, Observers
from plumbline.judging.tiers.tier import TierName
from plumbline.models.chat.endpoints import resolve_judges
from plumbline.rows.scored_row import RowStatus
from plumbline.service.metrics.observer import Metrics
from plumbline.service.tracing import Tracing, otlp_tracing


class Listeners(NamedTuple):
    """The listeners of one process; close `traces` at its end."""

    metrics: Metrics
    traces: Tracing | None

    @property
    def observer(self) -> Observer:
        return self.metrics if self.traces is None else Observers(self.traces, self.metrics)


def build_listeners(settings: Settings, *, tracing: Tracing | None = None, folder: Path | None = None) -> Listeners:
    """Return the listeners that the settings name; `folder` is that of `Metrics`, `tracing` replaces the settings'."""
    metrics = Metrics(
        version=VERSION,
        tiers=[tier.value for tier in TierName],
        row_statuses=[status.value for status in RowStatus],
        models=[(each.provider.name, each.model) for judge in resolve_judges(settings).values() for each in judge],
        folder=folder,
    )
    return Listeners(metrics, tracing or (otlp_tracing(VERSION) if settings.tracing == "otlp" else None))
