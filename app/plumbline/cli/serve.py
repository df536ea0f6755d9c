"""`plumbline serve`: the HTTP API on one address, by one process or several."""

import argparse
import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from plumbline.cli import Commands, build_command, start_logging
from plumbline.cli.connections import ConnectionTimeouts, timeout_protocol
from plumbline.ground.errors import ConfigurationError, PlumblineError
from plumbline.ground.proxies import is_loopback
from plumbline.ground.settings import Settings, load_settings, unknown_variables
from plumbline.ground.telemetry import configure_logging
from plumbline.service.access.access import build_access
from plumbline.service.worker_share import divide_bounds

# An ASGI app, or in a worker what makes it.
App = Callable[..., Any]

_AUTO, _EVERY_ADDRESS = "auto", "0.0.0.0"  # noqa: S104
# Said where there is no key.
_OPEN = (
    "plumbline: there is no key: callers on this machine are served without one, and so is everybody whom a proxy on "
    "this machine lets through; make a key with 'plumbline keys create NAME' before you add a proxy\n"
)
_BACKLOG = 2_048
# Open connections of all processes together.
_MAX_CONNECTIONS = 2_048
# A worker that does not answer its parent for so long is killed, and replaced.
_HANG_SECONDS = 30
# Prometheus' client keeps values in files here; it must be set before it is imported.
_METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# For files, and connections to judges and databases.
_OTHER_DESCRIPTORS = 512
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_command(commands: Commands) -> None:
    build_command(commands, "serve", _serve)


def _serve(options: argparse.Namespace) -> int:
    # The first process of a container ignores signals without a handler; loading takes seconds.
    for each in _SIGNALS:
        signal.signal(each, lambda *_: sys.exit(0))
    settings = start_logging()
    if unknown := unknown_variables(os.environ):
        structlog.get_logger().warning("settings_unknown", names=unknown)
    has_key = build_access(settings).keyring.has_open_key()
    host = _host(settings, options.host, has_key=has_key)
    is_open = not (has_key or settings.allow_anonymous)
    count = options.workers or settings.workers
    # Before anything listens, so that nobody waits for an app that loads, or that cannot be built.
    app = _make_app(divide_bounds(settings, 1)) if count == 1 else None
    if app is None:
        from plumbline.assembly import make_plan  # noqa: PLC0415 - seconds of import

        # What is wrong is said once, and not by each worker
        make_plan(settings)
    with listen(host, options.port) as listener:
        if app is None:
            return _serve_by_workers(settings, listener, count, is_open=is_open)
        return _serve_alone(settings, app, listener, is_open=is_open)


def _serve_alone(settings: Settings, app: Any, listener: socket.socket, *, is_open: bool) -> int:
    config = _config(settings, app, count=1)

    async def announce_once() -> None:
        config.callback_notify = None
        _announce(listener, is_open=is_open)

    # uvicorn calls it as soon as requests are served.
    config.callback_notify = announce_once
    server = uvicorn.Server(config)
    try:
        server.run(sockets=[listener])
    except SystemExit as end:
        # uvicorn raises the signals that ended it again, for the handlers that were there before.
        code = int(end.code or 0)
    else:
        code = 0 if server.started else 1
    # Of the process that serves, which has it loaded.
    from plumbline.models.encoder.fair_queue import LOADER  # noqa: PLC0415

    if any(thread.name == LOADER for thread in threading.enumerate()):
        # A model that is being loaded: it takes up to a minute, cannot be interrupted and would be waited for.
        sys.stderr.flush()
        os._exit(code)
    return code


def _serve_by_workers(settings: Settings, listener: socket.socket, count: int, *, is_open: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="plumbline-metrics-") as folder:
        os.environ[_METRICS_VARIABLE] = folder
        config = _config(settings, partial(_make_worker_app, count, Path(folder)), count=count)
        supervisor = Multiprocess(config, [listener])
        _announce(listener, is_open=is_open, workers=count)
        supervisor.run()
        return STARTUP_FAILURE if any(each.exitcode == STARTUP_FAILURE for each in supervisor.processes) else 0


def _make_worker_app(count: int, folder: Path) -> App:
    """Build the app in a worker, which has the variables of its parent and nothing else."""
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    try:
        settings = load_settings()
        configure_logging(settings.log_level, pid=os.getpid())
        return _make_app(divide_bounds(settings, count), metrics_folder=folder)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        sys.exit(STARTUP_FAILURE)


def _end_with_parent() -> None:
    """End this worker, as at a signal, when its parent dies, however it dies."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _make_app(settings: Settings, *, metrics_folder: Path | None = None) -> App:
    # Seconds of import that the other commands, and the parent of workers, do not pay.
    from plumbline.main import create_app  # noqa: PLC0415

    app = create_app(settings, metrics_folder=metrics_folder)
    # What was loaded lives as long as the process. Walking it would stop every request for 0.1 to 0.2 s at times.
    gc.collect()
    gc.freeze()
    return app


def _config(settings: Settings, app: App, *, count: int) -> uvicorn.Config:
    max_connections = connections_within_descriptors(-(-_MAX_CONNECTIONS // count))
    return uvicorn.Config(
        app,
        factory=count > 1,
        workers=count,
        # The access log of uvicorn prints query strings; ours has the route's template instead.
        access_log=False,
        log_config=None,
        # Where uvloop is installed uvicorn would take it. It saves nothing here (docs/decisions/0016), and does not try
        # the addresses of a judge in parallel.
        loop="asyncio",
        http=timeout_protocol(ConnectionTimeouts(max_connections=max_connections)),
        # No route speaks it, and nothing at the edge would look at it.
        ws="none",
        server_header=False,
        backlog=_BACKLOG,
        timeout_worker_healthcheck=_HANG_SECONDS,
        timeout_graceful_shutdown=settings.drain_seconds,
    )


def _announce(listener: socket.socket, *, is_open: bool, **fields: object) -> None:
    bound, port = listener.getsockname()[:2]
    structlog.get_logger().info("listening", host=bound, port=port, **fields)
    host = {_EVERY_ADDRESS: "127.0.0.1", "::": "::1"}.get(bound, bound)
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    sys.stderr.write(f"Plumbline: {address}   API documentation: {address}/docs\n{_OPEN * is_open}")


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
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"cannot listen on {host} port {port}: {reason}") from error
    # Connections inherit it. asyncio sets it on sockets that it makes itself; without it an answer in two pieces, head
    # and body, waits 40 ms for the caller to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
