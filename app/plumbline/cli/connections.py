"""Connections of `plumbline serve`: bounded in number, and those that are waited for in time.

uvicorn waits for ever for the head of a first request (Slowloris) and for a caller to take an answer; what of a body is
read, and how fast, is the edge's.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

# Of an answer that is waited with: what must be taken in the time.
_TAKEN_BYTES: Final = 16_384
# Those let go at one time when there are too many: looking for them takes as long as for one.
_LET_GO_SHARE: Final = 16


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """How long is waited for callers.

    Args:
        head_seconds: for the whole head of a request, and for the rest of a body behind its answer.
        taking_seconds: for the next 16,384 bytes of an answer to be taken.
        max_connections: at one time. Beyond them those go that were waited for longest, and when none is, the new one.
    """

    head_seconds: float = 15.0
    taking_seconds: float = 120.0
    max_connections: int = 2_048


class TimeoutProtocol(H11Protocol):
    """A connection that knows since when its caller is waited for."""

    def __init__(self, *, timeouts: ConnectionTimeouts, server_state: ServerState, **given: Any) -> None:
        super().__init__(server_state=server_state, **given)
        self._timeouts = timeouts
        # Of the answer that its caller has not taken, as it was when last some had been.
        self._untaken = 0
        self._has_taken = False
        self._last_cycle: object = None
        self._is_left = False
        self.waited_since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the connection in; another goes where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._timeouts.max_connections and not _let_go(self.server_state, but=self):
            transport.abort()

    def resume_writing(self) -> None:
        """Most of what waited was taken."""
        self._has_taken = True
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """As uvicorn does, where nothing was answered yet; a route that goes on with the request finds nobody there."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def is_waited_for(self) -> bool:
        """Whether the next step is its caller's: there is no request under way, or an answer to be taken."""
        has_turn = self.conn.our_state in (h11.IDLE, h11.DONE) or self.transport.get_write_buffer_size() > 0
        return has_turn and not self._is_left

    def leave(self) -> None:
        """Ends it at once. A closed one would first wait for what is to be taken."""
        self._is_left = True
        self.transport.abort()

    def close_if_stale(self) -> None:
        """Ends it once it was waited for long enough; to be called about every second."""
        now, untaken = self.loop.time(), self.transport.get_write_buffer_size()
        is_new = self.cycle is not self._last_cycle or not self.is_waited_for()
        if is_new or self._was_taken(untaken):
            self.waited_since, self._untaken, self._last_cycle = now, untaken, self.cycle
        self._has_taken = False
        waited = now - self.waited_since
        if untaken and waited > self._timeouts.taking_seconds:
            self.leave()
        elif not untaken and waited > self._timeouts.head_seconds and not self.transport.is_closing():
            self.timeout_keep_alive_handler()

    def _was_taken(self, untaken: int) -> bool:
        is_less = untaken <= self._untaken - _TAKEN_BYTES
        return self._has_taken or is_less or (untaken > 0) != (self._untaken > 0)


def timeout_protocol(timeouts: ConnectionTimeouts) -> type[asyncio.Protocol]:
    """What uvicorn's `http` takes to make such connections."""
    return cast(type[asyncio.Protocol], partial(TimeoutProtocol, timeouts=timeouts))


def close_stale(state: ServerState) -> None:
    """Ends what was waited for long enough; to be called about every second."""
    for connection in _connections(state):
        connection.close_if_stale()


def _let_go(state: ServerState, *, but: TimeoutProtocol) -> bool:
    """Ends those that were waited for longest; whether there were any."""
    waiting = [each for each in _connections(state) if each is not but and each.is_waited_for()]
    waiting.sort(key=lambda each: each.waited_since)
    for each in waiting[: max(1, len(state.connections) // _LET_GO_SHARE)]:
        each.leave()
    return bool(waiting)


def _connections(state: ServerState) -> list[TimeoutProtocol]:
    return [each for each in state.connections if isinstance(each, TimeoutProtocol)]
