"""`plumbline serve`: the HTTP API on one address."""

import argparse
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import structlog
import uvicorn

from plumbline.cli.connections import ConnectionTimeouts, close_stale, timeout_protocol
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import Settings, load_settings, unknown_variables
from plumbline.ground.telemetry import configure_logging
from plumbline.service.access.access import is_loopback

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_BACKLOG = 2048
_AUTO, _EVERY_ADDRESS = "auto", "0.0.0.0"  # noqa: S104
# Files, and connections to judges and databases, beside those of callers.
_OTHER_DESCRIPTORS = 512
_TICKS_A_SECOND = 10
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_command(commands: "Commands") -> None:
    """Adds `serve` to the parser."""
    serve = commands.add_parser("serve", help="serve the HTTP API; settings come from PLUMBLINE_* variables")
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: %(default)s); 'auto': every address where there is a key, else loopback",
    )
    serve.add_argument("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    serve.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    # The first process of a container is ended by no signal that it does not handle; loading takes seconds.
    for each in _SIGNALS:
        signal.signal(each, _end_now)
    # Seconds of import that the other commands do not pay.
    from plumbline.main import create_app, end_streams  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings.log_level)
    for line in unknown_variables(os.environ):
        structlog.get_logger().warning("setting_unknown", detail=line)
    host = _host(settings, options.host)
    app = create_app(settings)
    # What was loaded lives as long as the process. Walking it would stop every request for 0.1 to 0.2 s at times.
    gc.collect()
    gc.freeze()
    max_connections = connections_within_descriptors(settings.max_connections)
    with listen(host, options.port) as listener:
        # The access log of uvicorn prints query strings; ours has the route's template instead.
        server = DrainingServer(
            uvicorn.Config(
                app,
                # Where uvloop is installed uvicorn would take it. It saves nothing here (docs/decisions/0005), and does
                # not try the addresses of a judge beside one another.
                loop="asyncio",
                http=timeout_protocol(ConnectionTimeouts(max_connections=max_connections)),
                # No route speaks it, and nothing at the edge would look at it.
                ws="none",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=settings.drain_seconds,
            ),
            on_shutdown=lambda: end_streams(app),
        )
        bound_host, bound_port = listener.getsockname()[:2]
        structlog.get_logger().info("listening", host=bound_host, port=bound_port)
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _end_now(*_: object) -> None:
    sys.exit(0)


def _host(settings: Settings, host: str) -> str:
    """The address to listen on; beyond loopback only where callers are checked.

    Raises:
        ConfigurationError: saying the three ways on.
    """
    from plumbline.service.access.access import build_access  # noqa: PLC0415

    if settings.allow_anonymous or is_loopback(host) or build_access(settings).keyring.has_open_key():
        return _EVERY_ADDRESS if host == _AUTO else host
    if host == _AUTO:
        structlog.get_logger().warning(
            "listening_on_loopback_alone",
            detail="there is no key: make one with 'plumbline keys create NAME' or set PLUMBLINE_API_KEYS, start again",
        )
        return "127.0.0.1"
    raise ConfigurationError(
        f"there is no key, and {host or 'every address'} is reached from beyond this machine: make one with 'plumbline "
        "keys create NAME', set PLUMBLINE_API_KEYS, or PLUMBLINE_ALLOW_ANONYMOUS=true where something in front checks "
        "callers"
    )


class DrainingServer(uvicorn.Server):
    """Ends with exit code 0 at the first signal, once answers under way are given; at the second waits for none.

    Says that it shuts down before it waits: some answers go on for as long as somebody listens. uvicorn tells the app
    only afterwards.
    """

    def __init__(self, config: uvicorn.Config, *, on_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_shutdown = on_shutdown

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does, after `on_shutdown`."""
        self._on_shutdown()
        await super().shutdown(sockets)
        # uvicorn raises them again once it has ended, and the process would seem to have been killed.
        self._captured_signals.clear()

    async def on_tick(self, counter: int) -> bool:
        """As uvicorn does; ends connections that were waited for long enough."""
        if counter % _TICKS_A_SECOND == 0:
            close_stale(self.server_state)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """As uvicorn does; the second signal, of either kind, ends the wait."""
        if self.should_exit:
            self.force_exit = True
        super().handle_exit(sig, frame)


def connections_within_descriptors(wanted: int) -> int:
    """How many connections there can be; the process gets descriptors for those wanted, as far as it may have them."""
    import resource  # noqa: PLC0415 - not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_DESCRIPTORS
    granted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < granted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    if granted == needed:
        return wanted
    found = max(1, granted - _OTHER_DESCRIPTORS)
    structlog.get_logger().warning(
        "descriptors_too_few",
        detail=f"the process may have {hard} open files, so {found} connections and not {wanted}; raise 'ulimit -n'",
    )
    return found


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        ConfigurationError: the address cannot be had.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"cannot listen on {host} port {port}: {reason}") from error
    # Connections take it from here. asyncio sets it on sockets that it makes itself; without it an answer in two
    # pieces, head and body, waits 40 ms for the caller to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
