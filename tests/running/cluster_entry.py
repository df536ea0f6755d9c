"""Score on a cluster, in a process that tests kill: `python -m tests.running.cluster_entry OUT [--x=y ...] PATHS`."""

import argparse
import json
import sys
from dataclasses import asdict

from plumbline.extras.cluster.ray_engine import score_on_ray
from plumbline.extras.cluster.task import ClusterTask, Progress
from plumbline.ground.errors import PlumblineError
from plumbline.ground.settings import load_settings
from plumbline.schemas.evaluation import EvaluationOptions


def main() -> int:
    """Prints progress lines, then the outcome, as JSON; 2 and one line for what the user can fix."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+")
    parser.add_argument("-o", dest="out_dir", required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--columns")
    parser.add_argument("--block-format", default="jsonl")
    parser.add_argument("--block-rows", type=int, default=2000)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--cpus-per-worker", type=float, default=1)
    parser.add_argument("--address")
    given = vars(parser.parse_args())
    options = EvaluationOptions.model_validate_json(given.pop("options"))
    try:
        outcome = score_on_ray(load_settings(), ClusterTask(options=options, **given), on_progress=_told)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return 2
    print(json.dumps({**asdict(outcome), "summary": outcome.summary.model_dump()}))  # noqa: T201
    return 0


def _told(progress: Progress) -> None:
    print(json.dumps(asdict(progress)), flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
