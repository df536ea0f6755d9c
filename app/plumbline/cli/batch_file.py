"""`plumbline batch-file`: judge a file of rows through a provider's Batch API, at batch prices."""

import argparse
import sys

from plumbline.cli import Commands, build_command

_INCOMPLETE = 3


def add_command(commands: Commands) -> None:
    steps = ("prepare", "submit", "status", "collect")
    parsers = build_command(commands, "batch-file", dict.fromkeys(steps, _run))
    for step in steps:
        parsers[step].set_defaults(step=step)


def _run(options: argparse.Namespace) -> int:
    # Seconds of import that the other commands do not pay.
    from plumbline.cli.batch_file_steps import STEPS  # noqa: PLC0415

    try:
        return STEPS[options.step](options)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to resume\n")
        return _INCOMPLETE
