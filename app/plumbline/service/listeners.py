"""Who listens to what a process does, as its settings say: metrics always, traces where they are asked for."""

from typing import NamedTuple

from plumbline import __version__
from plumbline.ground.settings import Settings
from plumbline.judging.ports.observation import Observer, Observers
from plumbline.judging.tiers.tier import TierName
from plumbline.models.chat.endpoints import resolve_judges
from plumbline.rows.scored_row import RowStatus
from plumbline.service.metrics.observer import Metrics
from plumbline.service.tracing import Tracing, otlp_tracing


class Listeners(NamedTuple):
    """The listeners of one process; `traces` is to be closed when it ends."""

    metrics: Metrics
    traces: Tracing | None

    @property
    def observer(self) -> Observer:
        """All of them."""
        return self.metrics if self.traces is None else Observers(self.traces, self.metrics)


def listeners_of(settings: Settings, *, tracing: Tracing | None = None) -> Listeners:
    """Those that the settings name.

    Args:
        tracing: in place of what they say of traces.

    Raises:
        ConfigurationError: traces need packages that are not installed, or another protocol is asked for.
    """
    metrics = Metrics(
        version=__version__,
        tiers=[tier.value for tier in TierName],
        row_statuses=[status.value for status in RowStatus],
        models=[(each.provider.name, each.model) for judge in resolve_judges(settings).values() for each in judge],
    )
    return Listeners(metrics, tracing or (otlp_tracing(__version__) if settings.tracing == "otlp" else None))
