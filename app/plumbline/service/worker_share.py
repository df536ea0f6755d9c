"""One worker's share of a service of several processes: bounds are divided, budgets and caches are shared."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plumbline.ground.arrival_times import ArrivalTimes
from plumbline.ground.settings import Settings

# Bounds of one process. Those of a minute, of a day and of sizes hold for all workers together.
_DIVIDED: Final = (
    "batch_concurrency",
    "cpu_threads",
    "embedding_cache_bytes",
    "embedding_max_concurrency",
    "embedding_threads",
    "job_concurrency",
    "llm_max_concurrency",
    "max_concurrent_requests",
)


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """A worker among `count`, numbered from 1.

    Args:
        folder: files that the workers share; None for a process alone.
        arrivals: of rate limits that hold for all workers.
    """

    number: int = 1
    count: int = 1
    folder: Path | None = None
    arrivals: ArrivalTimes = field(default_factory=ArrivalTimes)

    @classmethod
    def joining(cls, folder: Path, number: int, count: int) -> "WorkerShare":
        """Return the share of a worker that joins those on a folder."""
        return cls(number, count, folder, ArrivalTimes(folder / "rates.sqlite"))

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
        bounds: dict[str, int] = {name: getattr(settings, name) for name in _DIVIDED} | {"embedding_threads": threads}
        changes: dict[str, object] = {
            **{name: self.divide(bound) for name, bound in bounds.items()},
            "embedding_cache_path": settings.embedding_cache_path or self.folder / "vectors.sqlite",
        }
        if settings.cache_path is None and settings.database_url is None:
            changes["cache_path"] = self.folder / "verdicts.sqlite"
        return settings.model_copy(update=changes)
