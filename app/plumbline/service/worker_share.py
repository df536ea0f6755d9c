"""One process of a service: its share (bounds and budgets divided, caches shared), and its listeners."""

import os
from dataclasses import dataclass
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

# Bounds of one process.
_DIVIDED: Final = (
    "batch_concurrency",
    "cpu_threads",
    "embedding_cache_bytes",
    "embedding_max_concurrency",
    "embedding_rpm",
    "embedding_threads",
    "embedding_tpm",
    "job_concurrency",
    "llm_max_concurrency",
    "llm_rpm",
    "llm_tpm",
    "max_concurrent_requests",
)


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """A worker among `count`, numbered from 1, with files that all share (`folder`, None if alone)."""

    number: int = 1
    count: int = 1
    folder: Path | None = None

    @classmethod
    def joining(cls, folder: Path, number: int, count: int) -> "WorkerShare":
        """Return the share of a worker that joins those on a folder."""
        return cls(number, count, folder)

    @property
    def metrics_folder(self) -> Path | None:
        """The folder where each worker's counts lie."""
        return None if self.folder is None else self.folder / "metrics"

    def divide(self, bound: int) -> int:
        """Return this worker's part of a bound, rounded up; 0 stays 0."""
        return -(-bound // self.count)

    def settings_of(self, settings: Settings) -> Settings:
        """Return the settings with this worker's part of each bound, and caches on files that workers share."""
        if self.folder is None:
            return settings
        threads = settings.embedding_threads or os.cpu_count() or 1
        bounds = {name: getattr(settings, name) for name in _DIVIDED} | {"embedding_threads": threads}
        changes: dict[str, object] = {
            **{name: self.divide(bound) for name, bound in bounds.items() if bound is not None},
            "embedding_cache_path": settings.embedding_cache_path or self.folder / "vectors.sqlite",
        }
        if settings.cache_path is None and settings.database_url is None:
            changes["cache_path"] = self.folder / "verdicts.sqlite"
        return settings.model_copy(update=changes)


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
