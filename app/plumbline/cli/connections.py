"""Connections of `plumbline serve`, from the first head to the end of the process.

uvicorn bounds keep-alive, but waits for ever for the head of a first request (Slowloris) and for a client to receive a
response. Its `limit_concurrency` refuses new connections, where here the longest-idle ones make room. Its graceful
shutdown closes idle connections at once, with whatever request is on its way, and never tells clients to close theirs.
Request bodies have a timeout at the edge.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

# Bytes of a response that a client must receive in the time.
_TAKEN_BYTES: Final = 16_384
# Part of the connections that is closed when there are too many: finding them takes as long as finding one.
_CLOSED_SHARE: Final = 16
# States of h11 in which no response has started.
_UNANSWERED: Final = ("IDLE", "SEND_RESPONSE")


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
    max_connections: int = 2_048


class TimeoutProtocol(H11Protocol):
    """Connection that bounds each wait for its client, and ends without losing a request.

    Once the server ends, the last answer owed says `Connection: close` and the connection closes after it. A connection
    without a request stays open for a moment, since one may be on its way.
    """

    def __init__(self, *, timeouts: ConnectionTimeouts, server_state: ServerState, **given: Any) -> None:
        super().__init__(server_state=server_state, **given)
        self._timeouts = timeouts
        self._timer: asyncio.TimerHandle | None = None
        # Bytes of the response that the client had not received when the wait began.
        self._untaken = 0
        self.waits_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; close idle ones if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._timeouts.max_connections and not self._close_idlest():
            transport.abort()
            return
        self._wait_for_client(self._timeouts.head_seconds)
        if self._is_ending():
            # It was accepted just before the end, which uvicorn announced to the others.
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_client(self._timeouts.send_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._has_request():
            self._stop_waiting()

    def handle_events(self) -> None:
        """Handle what was received; a request after the server began to end is the connection's last."""
        super().handle_events()
        if self._has_request() and not self.flow.write_paused:
            self._stop_waiting()
        if self._is_ending():
            self._announce_close()

    def on_response_complete(self) -> None:
        """Wait for the next request, while the server ends for a moment only."""
        super().on_response_complete()
        if self._has_request():
            return
        is_received = not self.transport.get_write_buffer_size()
        self._wait_for_client(self._timeouts.head_seconds if is_received else self._timeouts.send_seconds)
        if self._is_ending():
            self._close_soon()

    def shutdown(self) -> None:
        """Begin the end: answer the requests that are here or on their way, then close."""
        if not self._is_ending():
            self.server_state.default_headers = [*self.server_state.default_headers, CLOSE_HEADER]
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

    def leave(self) -> None:
        """Close at once; a normal close would wait for the client to receive the rest."""
        self._stop_waiting()
        self.transport.abort()

    def _wait_for_client(self, seconds: float) -> None:
        """Begin the client's turn: without its next step the connection ends."""
        self._stop_waiting()
        self.waits_since, self._untaken = self.loop.time(), self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(seconds, self._end_wait)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.waits_since = None

    def _end_wait(self) -> None:
        untaken = self.transport.get_write_buffer_size()
        if 0 < untaken <= self._untaken - _TAKEN_BYTES:
            self._wait_for_client(self._timeouts.send_seconds)
        elif untaken:
            self.leave()
        else:
            self.timeout_keep_alive_handler()

    def _close_idlest(self) -> bool:
        waits = [(each.waits_since, each) for each in self.connections if isinstance(each, TimeoutProtocol)]
        idle = sorted((since, id(each), each) for since, each in waits if since is not None)
        for _, _, each in idle[: max(1, len(self.connections) // _CLOSED_SHARE)]:
            each.leave()
        return bool(idle)

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


def timeout_protocol(timeouts: ConnectionTimeouts) -> type[asyncio.Protocol]:
    """Return a factory of such connections, for uvicorn's option `http`."""
    return cast(type[asyncio.Protocol], partial(TimeoutProtocol, timeouts=timeouts))
