"""Ray Data as the engine: the only file that knows Ray, and it imports it late."""

from collections.abc import Callable

from app.cluster.task import ClusterOutcome, ClusterTask, Progress
from app.settings import Settings


def score_on_ray(
    settings: Settings, task: ClusterTask, *, on_progress: Callable[[Progress], None] | None = None
) -> ClusterOutcome:
    """Score files on Ray, this machine's or a cluster's; blocks, and leaves no process behind on this machine.

    Raises:
        ConfigurationError: Ray is not installed (the message names the extra), or the cluster cannot be reached or is
            not set up as this machine is.
        InvalidInput: the input cannot be read, or the folder of results holds another task.
    """
    raise NotImplementedError
