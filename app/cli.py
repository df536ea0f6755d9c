"""The command line: `plumbline serve`."""

import argparse
import os
import socket
import sys
from collections.abc import Sequence

import structlog
import uvicorn

from app import __version__
from app.errors import ConfigurationError, PlumblineError
from app.main import create_app
from app.settings import load_settings, unknown_variables
from app.telemetry import configure_logging

_USAGE_ERROR = 2
_DRAIN_SECONDS = 10
_BACKLOG = 2048


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0, or 2 with one line on standard error for what the user can fix."""
    options = _parser().parse_args(arguments)
    try:
        return _serve(options.host, options.port)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _USAGE_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="plumbline", description="Is what a RAG app says true to what it retrieved?")
    parser.add_argument("--version", action="version", version=f"plumbline {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="serve the HTTP API; settings come from PLUMBLINE_* variables")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    return parser


def _serve(host: str, port: int) -> int:
    settings = load_settings()
    configure_logging(settings.log_level)
    for line in unknown_variables(os.environ):
        structlog.get_logger().warning("setting_unknown", detail=line)
    app = create_app(settings)
    with _listen(host, port) as listener:
        # The access log of uvicorn prints query strings; ours has the route's template instead.
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=_DRAIN_SECONDS,
            )
        )
        bound_host, bound_port = listener.getsockname()[:2]
        structlog.get_logger().info("listening", host=bound_host, port=bound_port)
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"cannot listen on {host} port {port}: {reason}") from error


if __name__ == "__main__":
    sys.exit(main())
