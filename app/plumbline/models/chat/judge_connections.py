"""Kept connections to one provider, HTTP/1.1: what the SDK's own pool does, for a third of its time.

That pool serves any number of hosts, protocols and kinds of event loop, and looks at all of its sockets for every
request. Here each call takes the connection that was used last. The protocol is h11's, encodings are httpx2's.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import h11
import httpx2

# As long as a pool of httpx2 keeps an idle connection; many servers close theirs soon after.
_KEPT_SECONDS: Final = 5.0
# More than a reader holds: reading takes all that came.
_READ_BYTES: Final = 1_048_576
_MAX_HEAD_BYTES: Final = 102_400
# Until the next address of a host is tried beside the first: RFC 8305.
_NEXT_ADDRESS_SECONDS: Final = 0.25


class Head(NamedTuple):
    """How a response begins; names of headers in lower case."""

    status_code: int
    headers: list[tuple[bytes, bytes]]


class JudgeConnections(httpx2.AsyncBaseTransport):
    """Connections to the host of the requests, as many as there are calls at one time.

    Tells a request's extension `trace` what httpcore does, as far as anyone here listens: that a connection is begun,
    that the head is written, that all is sent. Of the timeouts it keeps that for connecting; the caller has the rest.

    Args:
        tls: for https addresses.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response, whose body is read from its connection as it is asked for."""
        head, body = await self.exchange(request)
        return httpx2.Response(head.status_code, headers=head.headers, stream=body)

    async def exchange(self, request: httpx2.Request) -> "tuple[Head, Body]":
        """As `handle_async_request`, in bare parts; the body must be closed."""
        connection = self._kept() or await self._connected(request)
        try:
            await connection.send(request)
            head = await connection.receive_head()
        except BaseException:
            self._drop(connection)
            raise
        return Head(head.status_code, list(head.headers)), Body(self, connection)

    async def aclose(self) -> None:
        """Closes all connections, whatever they are at."""
        for connection in tuple(self._open):
            self._drop(connection)

    def release(self, connection: "_Connection") -> None:
        """Keeps a connection whose response was read to its end, closes any other."""
        if connection in self._open and connection.is_ready_again():
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _kept(self) -> "_Connection | None":
        """The connection that was used last, if it is still good; those that have grown old are closed."""
        while self._idle and self._idle[0].is_stale:
            self._drop(self._idle[0])
        while self._idle:
            if not (connection := self._idle.pop()).is_stale:
                return connection
            self._drop(connection)
        return None

    def _drop(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.abort()

    async def _connected(self, request: httpx2.Request) -> "_Connection":
        await request.extensions["trace"]("connection.connect_tcp.started", {})
        url, is_tls = request.url, request.url.scheme == "https"
        loop = asyncio.get_running_loop()
        wire = _Wire(asyncio.StreamReader(), loop=loop)
        try:
            async with asyncio.timeout(request.extensions["timeout"]["connect"]) as scope:
                transport, _ = await loop.create_connection(
                    lambda: wire,
                    url.host,
                    url.port or (443 if is_tls else 80),
                    ssl=self._tls if is_tls else None,
                    **race_between_addresses(url.host, loop),
                )
        except OSError as error:
            kind = httpx2.ConnectTimeout if scope.expired() else httpx2.ConnectError
            raise kind(str(error), request=request) from error
        connection = _Connection(wire, asyncio.StreamWriter(transport, wire, wire.reader, loop))
        self._open.add(connection)
        return connection


def race_between_addresses(host: str, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """What asks an event loop to try the addresses of a host beside one another.

    Nothing for an address, which needs no race: one that is given up can leave a socket to the garbage collector. And
    nothing for loops other than asyncio's: uvloop knows no such option, and tries one address after another.
    """
    if _is_address(host) or not isinstance(loop, asyncio.BaseEventLoop):
        return {}
    return {"happy_eyeballs_delay": _NEXT_ADDRESS_SECONDS}


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _Wire(asyncio.StreamReaderProtocol):
    """Knows whether there is something to read, which its reader does not tell."""

    def __init__(self, reader: asyncio.StreamReader, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(reader, loop=loop)
        self.reader = reader
        self.has_unread = False

    def data_received(self, data: bytes) -> None:
        self.has_unread = True
        super().data_received(data)

    async def read(self) -> bytes:
        """All that came since the last time, b"" at the end."""
        data = await self.reader.read(_READ_BYTES)
        self.has_unread = False
        return data


class _Connection:
    """One connection, for one call at a time."""

    def __init__(self, wire: _Wire, writer: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._kept_since = 0.0

    @property
    def is_stale(self) -> bool:
        """Whether the other side has closed it, said something out of turn, or may close it any moment."""
        is_old = time.monotonic() - self._kept_since > _KEPT_SECONDS
        return is_old or self._wire.has_unread or self._wire.reader.at_eof() or self._writer.is_closing()

    def is_ready_again(self) -> bool:
        """Whether request and response are complete, and nothing came after them; the next call may begin then."""
        if {self._protocol.our_state, self._protocol.their_state} != {h11.DONE} or self._protocol.trailing_data[0]:
            return False
        self._protocol.start_next_cycle()
        self._kept_since = time.monotonic()
        return True

    def abort(self) -> None:
        self._writer.transport.abort()

    async def send(self, request: httpx2.Request) -> None:
        """Head and body at once."""
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        parts = [self._protocol.send(event) for event in (head, h11.Data(data=request.content), h11.EndOfMessage())]
        self._writer.write(b"".join(part for part in parts if part))
        trace = request.extensions["trace"]
        await trace("http11.send_request_headers.complete", {})
        try:
            await self._writer.drain()
        except OSError:
            # A server may refuse a request before it has read all of it: what it says is still to be read.
            return
        await trace("http11.send_request_body.complete", {})

    async def receive_head(self) -> h11.Response:
        while isinstance(event := await self._next_event(), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise httpx2.RemoteProtocolError("the server sent no response")
        return event

    async def body(self) -> AsyncGenerator[bytes, None]:
        while isinstance(event := await self._next_event(), h11.Data):
            yield bytes(event.data)

    async def _next_event(self) -> object:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                data = await self._wire.read()
                if not data and self._protocol.their_state is h11.SEND_RESPONSE:
                    raise httpx2.RemoteProtocolError("the server disconnected without a response")
                self._protocol.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise httpx2.RemoteProtocolError(str(error)) from error
        except OSError as error:
            raise httpx2.ReadError(str(error)) from error
        return event


class Body(httpx2.AsyncByteStream):
    """The body of a response; closing it gives the connection back."""

    def __init__(self, connections: JudgeConnections, connection: _Connection) -> None:
        self._connections = connections
        self._connection = connection

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self._connection.body()

    async def aclose(self) -> None:
        self._connections.release(self._connection)
