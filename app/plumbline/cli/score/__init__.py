"""`plumbline score`: a file of rows into a file of results, here or by a running service."""

import argparse
import sys

from plumbline.cli import Commands, build_command

_INCOMPLETE = 3


def add_command(commands: Commands) -> None:
    build_command(commands, "score", _score)


def _score(options: argparse.Namespace) -> int:
    # Parts of a second of import that the other commands do not pay.
    from plumbline.cli.score.score_file import score_file  # noqa: PLC0415

    try:
        return score_file(options)
    except KeyboardInterrupt:
        sys.stderr.write("plumbline: interrupted before the first row; run the same command again\n")
        return _INCOMPLETE
