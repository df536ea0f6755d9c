"""One process of a service: its part of the bounds, and its listeners."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from plumbline.ground.settings import Settings
from plumbline.ground.version import VERSION
from plumbline.judging.ports.observation import Observer, Observers
from plumbline.judging.tiers.tier import TierName
from plumbline.models.chat.endpoints import resolve_judges
from plumbline.rows.scored_row import RowStatus
from plumbline.service.metrics.observer import Metrics
from plumbline.service.tracing import Tracing, otlp_tracing

# Bounds that hold for all workers of a service together. A worker knows of no other, so each has its part.
_DIVIDED: Final = (
    "batch_concurrency",
    "embedding_threads",
    "job_concurrency",
    "llm_max_concurrency",
    "llm_rpm",
    "llm_tpm",
    "max_concurrent_requests",
)


def divide_bounds(settings: Settings, workers: int) -> Settings:
    """Return the settings of one of `workers` processes that serve together: its part of each bound, rounded up."""
    if workers == 1:
        return settings.model_copy(update={"workers": 1})
    threads = settings.embedding_threads or os.cpu_count() or 1
    bounds = {name: getattr(settings, name) for name in _DIVIDED} | {"embedding_threads": threads}
    # Rounded up, so that 0 stays 0 and 1 stays 1; None is no bound.
    parts = {name: -(-bound // workers) for name, bound in bounds.items() if bound is not None}
    return settings.model_copy(update=parts | {"workers": workers})


class Listeners(NamedTuple):
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
