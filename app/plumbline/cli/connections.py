"""The server of `plumbline serve`: its connections from the first head to the end of the process.

uvicorn bounds keep-alive, but waits for ever for the head of a first request (Slowloris) and for a client to receive a
response. Its `limit_concurrency` refuses new connections, where here the longest-idle ones make room. Its graceful
shutdown closes idle connections at once, with whatever request is on its way, and never tells clients to close theirs.
Request bodies have a timeout at the edge.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

BACKLOG: Final = 2_048
# Open connections of all processes together.
MAX_CONNECTIONS: Final = 2_048
# Connections that one worker of several accepts at a time, so that a burst is spread over them.
ACCEPTED_AT_ONCE: Final = 4
# Bytes of a response that a client must receive in the time.
_TAKEN_BYTES: Final = 16_384
# Part of the connections that is closed when there are too many: finding them takes as long as finding one.
_CLOSED_SHARE: Final = 16
# For connections that wait to be accepted when the server is told to end.
_ACCEPT_SECONDS: Final = 0.05
# States of h11 in which no response has started.
_UNANSWERED: Final = ("IDLE", "SEND_RESPONSE")
_TICKS_A_SECOND: Final = 10


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """Timeouts of a connection, and the bound on all.

    Args:
        head_seconds: for the whole head of a request, and for the rest of a body after its response.
        send_seconds: for the client to receive the next 16,384 bytes of a response.
        linger_seconds: for requests that were sent before the server began to end and are still on their way; longer
            than the way between most continents.
        max_connections: beyond them the longest-idle ones are closed; the new one, if none is idle.
    """

    head_seconds: float = 15.0
    send_seconds: float = 120.0
    linger_seconds: float = 0.5
    max_connections: int = MAX_CONNECTIONS


class TimeoutProtocol(H11Protocol):
    """Connection that knows since when it waits for its client, and ends without losing a request.

    Once the server ends, the last answer owed says `Connection: close` and the connection closes after it. A connection
    without a request stays open for a moment, since one may be on its way.
    """

    def __init__(self, *, timeouts: ConnectionTimeouts, server_state: ServerState, **given: Any) -> None:
        super().__init__(server_state=server_state, **given)
        self._timeouts = timeouts
        # Bytes of the response that the client had not received when it last received some.
        self._untaken = 0
        self._has_taken = False
        self._last_cycle: object = None
        self._is_left = False
        self.waited_since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; close idle ones if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._timeouts.max_connections and not _close_idlest(self.server_state, but=self):
            transport.abort()
        elif self._is_ending():
            # It was accepted just before the end, and uvicorn has told the others.
            self.shutdown()

    def resume_writing(self) -> None:
        """Resume after the client received most of what was buffered."""
        self._has_taken = True
        super().resume_writing()

    def handle_events(self) -> None:
        """Handle what was received; a request after the server began to end is the connection's last."""
        super().handle_events()
        if self._is_ending():
            self._announce_close()

    def on_response_complete(self) -> None:
        """Wait for the next request, while the server ends for a moment only."""
        super().on_response_complete()
        if self._is_ending() and not self._has_request():
            self._close_soon()

    def shutdown(self) -> None:
        """Begin the end: answer the requests that are here or on their way, then close."""
        self._announce_close()
        if not self._has_request():
            self._close_soon()

    def send_400_response(self, msg: str) -> None:
        """Send 400 if no response has started, and let the route see a disconnected client."""
        if str(self.conn.our_state) in _UNANSWERED:
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self._has_request():
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def is_idle(self) -> bool:
        """Return True if the next step is the client's: no request is in flight, or a response is to be received."""
        has_turn = not self._has_request() or self.transport.get_write_buffer_size() > 0
        return has_turn and not self._is_left

    def leave(self) -> None:
        """Close at once; a normal close would wait for the client to receive the rest."""
        self._is_left = True
        self.transport.abort()

    def close_if_stale(self) -> None:
        """Close if a timeout has passed; call it about every second."""
        now, untaken = self.loop.time(), self.transport.get_write_buffer_size()
        is_new = self.cycle is not self._last_cycle or not self.is_idle()
        is_less = untaken <= self._untaken - _TAKEN_BYTES or (untaken > 0) != (self._untaken > 0)
        if is_new or is_less or self._has_taken:
            self.waited_since, self._untaken, self._last_cycle = now, untaken, self.cycle
        self._has_taken = False
        waited = now - self.waited_since
        if untaken and waited > self._timeouts.send_seconds:
            self.leave()
        elif not untaken and waited > self._timeouts.head_seconds and not self.transport.is_closing():
            self.timeout_keep_alive_handler()

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_ending(self) -> bool:
        return CLOSE_HEADER in self.server_state.default_headers

    def _announce_close(self) -> None:
        if not self._has_request() or self.cycle.response_started:
            return
        headers = self.server_state.default_headers
        # A pipelined request that was received, too, is answered first.
        is_last = not self.conn.trailing_data[0]
        self.cycle.default_headers = headers if is_last else [each for each in headers if each != CLOSE_HEADER]

    def _close_soon(self) -> None:
        self.loop.call_later(self._timeouts.linger_seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._has_request():
            self.transport.close()


class DrainingServer(uvicorn.Server):
    """uvicorn's server with one end of life for its connections, and timeouts for slow clients."""

    def __init__(self, config: uvicorn.Config, *, on_started: Callable[[], None] = lambda: None) -> None:
        """`on_started` is called once requests are served."""
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # uvicorn makes the queue as short as the number of connections that are accepted at a time.
            listener.listen(BACKLOG)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.sleep(_ACCEPT_SECONDS)
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE_HEADER]
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_A_SECOND == 0:
            for connection in _connections(self.server_state):
                connection.close_if_stale()
        return await super().on_tick(counter)


def timeout_protocol(timeouts: ConnectionTimeouts) -> type[asyncio.Protocol]:
    """Return a factory of such connections, for uvicorn's option `http`."""
    return cast(type[asyncio.Protocol], partial(TimeoutProtocol, timeouts=timeouts))


def _close_idlest(state: ServerState, *, but: TimeoutProtocol) -> bool:
    """Close the longest-idle connections and return True if there were any."""
    waiting = [each for each in _connections(state) if each is not but and each.is_idle()]
    waiting.sort(key=lambda each: each.waited_since)
    for each in waiting[: max(1, len(state.connections) // _CLOSED_SHARE)]:
        each.leave()
    return bool(waiting)


def _connections(state: ServerState) -> list[TimeoutProtocol]:
    return [each for each in state.connections if isinstance(each, TimeoutProtocol)]
