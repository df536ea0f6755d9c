"""Connections of `plumbline serve`: a bound on their number, and timeouts for slow clients.

uvicorn bounds keep-alive, but waits for ever for the head of a first request (Slowloris) and for a client to receive a
response. Its `limit_concurrency` refuses new connections, where here the longest-idle ones make room. Request bodies
have a timeout at the edge.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

# Bytes of a response that a client must receive in the time.
_TAKEN_BYTES: Final = 16_384
# Part of the connections that is closed when there are too many: finding them takes as long as finding one.
_CLOSED_SHARE: Final = 16


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """Timeouts of a connection, and the bound on all.

    Args:
        head_seconds: for the whole head of a request, and for the rest of a body after its response.
        send_seconds: for the client to receive the next 16,384 bytes of a response.
        max_connections: beyond them the longest-idle ones are closed; the new one, if none is idle.
    """

    head_seconds: float = 15.0
    send_seconds: float = 120.0
    max_connections: int = 2_048


class TimeoutProtocol(H11Protocol):
    """Connection that knows since when it waits for its client."""

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

    def resume_writing(self) -> None:
        """Resume after the client received most of what was buffered."""
        self._has_taken = True
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Send 400 if no response has started, and let the route see a disconnected client."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def is_idle(self) -> bool:
        """Return True if the next step is the client's: no request is in flight, or a response is to be received."""
        has_turn = self.conn.our_state in (h11.IDLE, h11.DONE) or self.transport.get_write_buffer_size() > 0
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


def timeout_protocol(timeouts: ConnectionTimeouts) -> type[asyncio.Protocol]:
    """Return a factory of such connections, for uvicorn's option `http`."""
    return cast(type[asyncio.Protocol], partial(TimeoutProtocol, timeouts=timeouts))


def close_stale(state: ServerState) -> None:
    """Close connections whose timeout has passed; call it about every second."""
    for connection in _connections(state):
        connection.close_if_stale()


def _close_idlest(state: ServerState, *, but: TimeoutProtocol) -> bool:
    """Close the longest-idle connections and return True if there were any."""
    waiting = [each for each in _connections(state) if each is not but and each.is_idle()]
    waiting.sort(key=lambda each: each.waited_since)
    for each in waiting[: max(1, len(state.connections) // _CLOSED_SHARE)]:
        each.leave()
    return bool(waiting)


def _connections(state: ServerState) -> list[TimeoutProtocol]:
    return [each for each in state.connections if isinstance(each, TimeoutProtocol)]
