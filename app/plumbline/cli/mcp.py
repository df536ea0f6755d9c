"""`plumbline mcp`: tools for agents over the Model Context Protocol, on standard input and output or over HTTP."""

import argparse
from typing import Any

from plumbline.cli import Commands, build_command
from plumbline.integrations.checker import Checker


def add_command(commands: Commands) -> None:
    build_command(commands, "mcp", _serve)


def _serve(options: argparse.Namespace) -> int:
    from plumbline.integrations.mcp_server import build_server  # noqa: PLC0415 - an extra

    chosen: Any = {"tiers": [each.strip() for each in options.tiers.split(",")]} if options.tiers else {}
    with Checker(options.url, **chosen) as checker:
        server = build_server(checker)
        if options.http is None:
            server.run()
        else:
            server.run("streamable-http", host="127.0.0.1", port=options.http)
    return 0
