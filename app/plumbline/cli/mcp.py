"""`plumbline mcp`: tools for agents over the Model Context Protocol, on standard input and output or over HTTP."""

import argparse
from typing import Any

from plumbline.cli import Commands
from plumbline.ground.service_address import URL_VARIABLE
from plumbline.integrations.checker import Checker


def add_command(commands: Commands) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="tools for agents over MCP, on standard input and output or over HTTP",
        description="Serve the tools check_answer and explain_result to an agent that starts this command. Needs pip "
        "install 'plumbline-rag[mcp]'.",
    )
    mcp.add_argument("--url", help=f"a running service that judges; default: {URL_VARIABLE}, else this process")
    mcp.add_argument("--tiers", metavar="NAMES", help="tiers in this order: llm,embedding,lexical")
    mcp.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help="serve streamable HTTP at http://127.0.0.1:PORT/mcp, to this machine alone: it asks for no key",
    )
    mcp.set_defaults(run=_serve)


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
