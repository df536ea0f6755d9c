"""`plumbline serve`: the HTTP API on one address, by one process or several."""

import argparse
import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import structlog
import uvicorn

from plumbline.cli import Commands, number_type
from plumbline.cli.connections import ConnectionTimeouts, close_stale, timeout_protocol
from plumbline.cli.workers import BACKLOG, ParentLink, SharedListener, Supervisor, WorkerOrder, worker_folder
from plumbline.ground.errors import ConfigurationError, PlumblineError
from plumbline.ground.settings import Settings, load_settings, unknown_variables
from plumbline.ground.telemetry import configure_logging
from plumbline.service.access.access import build_access, is_loopback
from plumbline.service.worker_share import WorkerShare

_AUTO, _EVERY_ADDRESS = "auto", "0.0.0.0"  # noqa: S104
# For files, and connections to judges and databases.
_OTHER_DESCRIPTORS = 512
# As asyncio names it, once for each connection of the backlog.
_OUT_OF_DESCRIPTORS = "socket.accept() out of system resource"
_SILENT_SECONDS = 60.0
_TICKS_A_SECOND = 10
# Of connections that one of several workers takes at a time: a burst is spread over them.
_ACCEPTED_A_TURN = 4
_MOST_WORKERS = 64
_USAGE_ERROR = 2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_command(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="serve the HTTP API; settings come from PLUMBLINE_* variables")
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: %(default)s); 'auto': every address if there is a key, else loopback",
    )
    serve.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    serve.add_argument(
        "--workers",
        type=number_type(int, lambda count: 1 <= count <= _MOST_WORKERS, f"a number from 1 to {_MOST_WORKERS}"),
        metavar="N",
        help="processes that serve together (default: PLUMBLINE_WORKERS, or 1)",
    )
    # Set by the parent of several workers.
    serve.add_argument("--worker", type=WorkerOrder.parse, help=argparse.SUPPRESS)
    serve.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    # The first process of a container ignores signals without a handler; loading takes seconds.
    for each in _SIGNALS:
        signal.signal(each, lambda *_: sys.exit(0))
    if options.worker is not None:
        return _serve_as_worker(options.worker)
    settings = load_settings()
    configure_logging(settings.log_level)
    if unknown := unknown_variables(os.environ):
        structlog.get_logger().warning("settings_unknown", names=unknown)
    has_key = build_access(settings).keyring.has_open_key()
    host = _host(settings, options.host, has_key=has_key)
    is_open = not (has_key or settings.allow_anonymous)
    count = options.workers or settings.workers
    if count > 1:
        return _serve_by_workers(settings, host, options.port, count, is_open=is_open)
    server = _build_server(settings, WorkerShare())
    with listen(host, options.port) as listener:
        _log_listening(listener)
        return server.run_on(listener, on_started=lambda: _announce(listener, is_open=is_open))


def _serve_by_workers(settings: Settings, host: str, port: int, count: int, *, is_open: bool) -> int:
    if os.name != "posix":
        raise ConfigurationError("several workers need Linux or macOS; serve with --workers 1")
    with worker_folder(settings.data_dir) as folder, listen(host, port) as listener:

        def on_ready() -> None:
            _log_listening(listener, workers=count)
            _announce(listener, is_open=is_open)

        supervisor = Supervisor(listener, folder, count=count, drain_seconds=settings.drain_seconds, on_ready=on_ready)
        return asyncio.run(supervisor.run())


def _serve_as_worker(order: WorkerOrder) -> int:
    parent = ParentLink()
    try:
        settings = load_settings()
        configure_logging(settings.log_level, worker=order.number)
        server = _build_server(settings, order.share)
    except PlumblineError as error:
        parent.report_failure(error)
        return _USAGE_ERROR
    with SharedListener(fileno=order.listener) as listener:
        return server.run_on(listener, on_started=parent.report_ready)


def _build_server(settings: Settings, share: WorkerShare) -> "DrainingServer":
    # Seconds of import that the other commands, and the parent of workers, do not pay.
    from plumbline.main import create_app, end_streams  # noqa: PLC0415

    app = create_app(settings, share=share)
    # What was loaded lives as long as the process. Walking it would stop every request for 0.1 to 0.2 s at times.
    gc.collect()
    gc.freeze()
    max_connections = connections_within_descriptors(share.divide(settings.max_connections))
    return DrainingServer(
        # The access log of uvicorn prints query strings; ours has the route's template instead.
        uvicorn.Config(
            app,
            # Where uvloop is installed uvicorn would take it. It saves nothing here (docs/decisions/0005), and does
            # not try the addresses of a judge in parallel.
            loop="asyncio",
            http=timeout_protocol(ConnectionTimeouts(max_connections=max_connections)),
            # No route speaks it, and nothing at the edge would look at it.
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            backlog=BACKLOG if share.count == 1 else _ACCEPTED_A_TURN,
            timeout_graceful_shutdown=settings.drain_seconds,
        ),
        on_shutdown=lambda: end_streams(app),
    )


def _log_listening(listener: socket.socket, **fields: object) -> None:
    host, port = listener.getsockname()[:2]
    structlog.get_logger().info("listening", host=host, port=port, **fields)


def _announce(listener: socket.socket, *, is_open: bool) -> None:
    host, port = listener.getsockname()[:2]
    name = {_EVERY_ADDRESS: "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    sys.stderr.write(f"Plumbline: http://{name}:{port}   API documentation: http://{name}:{port}/docs\n")
    if is_open:
        sys.stderr.write(
            "plumbline: there is no key: callers on this machine are served without one, and so is everybody whom a "
            "proxy on this machine lets through; make a key with 'plumbline keys create NAME' before you add a proxy\n"
        )


def _host(settings: Settings, host: str, *, has_key: bool) -> str:
    """Return the address to listen on; raise ConfigurationError beyond loopback if callers are not authenticated."""
    if settings.allow_anonymous or is_loopback(host) or has_key:
        return _EVERY_ADDRESS if host == _AUTO else host
    if host == _AUTO:
        structlog.get_logger().warning(
            "listening_on_loopback_alone",
            detail="there is no key: create one with 'plumbline keys create NAME' or set PLUMBLINE_API_KEYS, and "
            "restart",
        )
        return "127.0.0.1"
    raise ConfigurationError(
        f"there is no key, and {host or 'every address'} is reached from beyond this machine: make one with 'plumbline "
        "keys create NAME', set PLUMBLINE_API_KEYS, or PLUMBLINE_ALLOW_ANONYMOUS=true where something in front checks "
        "callers"
    )


class DrainingServer(uvicorn.Server):
    """Server with graceful shutdown: exit code 0 at the first signal, after answers in flight; a second ends the wait.

    Calls `on_shutdown` before it waits: event streams last as long as their readers, and uvicorn tells the app only
    afterwards.
    """

    def __init__(self, config: uvicorn.Config, *, on_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_shutdown = on_shutdown
        self._on_started: Callable[[], None] | None = None
        self._silent_until = 0.0

    def run_on(self, listener: socket.socket, *, on_started: Callable[[], None]) -> int:
        """Serve until a signal; return the exit code. `on_started` is called once requests are served."""
        self._on_started = on_started
        try:
            self.run(sockets=[listener])
        except SystemExit as end:
            # uvicorn raises the signals that ended it again, for the handlers that were there before.
            code = int(end.code or 0)
        else:
            code = 0 if self.started else 1
        # Of the process that serves, which has it loaded.
        from plumbline.models.encoder.fair_queue import LOADER  # noqa: PLC0415

        if any(thread.name == LOADER for thread in threading.enumerate()):
            # A model that is being loaded: it takes up to a minute, cannot be interrupted and would be waited for.
            sys.stderr.flush()
            os._exit(code)
        return code

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self.on_loop_error)
        await super().startup(sockets)
        if self._on_started is not None and self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_shutdown()
        await super().shutdown(sockets)

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log one line a minute while no connection can be accepted; asyncio would log thousands of tracebacks."""
        if context.get("message") != _OUT_OF_DESCRIPTORS:
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + _SILENT_SECONDS
            detail = "no connection can be accepted: the process has as many open files as it may; raise 'ulimit -n'"
            structlog.get_logger().error("descriptors_exhausted", detail=detail)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_A_SECOND == 0:
            close_stale(self.server_state)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at a second signal, of either kind, without waiting."""
        if self.should_exit:
            self.force_exit = True
        super().handle_exit(sig, frame)


def connections_within_descriptors(wanted: int) -> int:
    """Return how many connections are possible, after raising the limit of open files for them as far as allowed."""
    import resource  # noqa: PLC0415 - not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_DESCRIPTORS
    granted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < granted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    if granted == needed:
        return wanted
    found = max(granted // 4, granted - _OTHER_DESCRIPTORS)
    structlog.get_logger().warning(
        "descriptors_too_few",
        detail=f"the process may have {hard} open files, so {found} connections and not {wanted}; raise 'ulimit -n'",
    )
    return found


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise ConfigurationError if the address is not available."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"cannot listen on {host} port {port}: {reason}") from error
    # Connections inherit it. asyncio sets it on sockets that it makes itself; without it an answer in two pieces, head
    # and body, waits 40 ms for the caller to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
