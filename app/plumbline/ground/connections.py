"""Persistent HTTP/1.1 connections to one server, directly or through a proxy; h11 speaks the protocol.

A connection on which unexpected bytes arrive is closed, so that no call gets another call's response.
"""

import asyncio
import math
import ssl
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

import h11

from plumbline.ground.proxies import Proxy, ProxyError, connect_through_socks, is_address, open_tunnel

# More than a reader holds: reading takes all that came.
_READ_BYTES: Final = 1_048_576
_MAX_HEAD_BYTES: Final = 102_400
# A new connection waits for so long for what a server must not send: a response before any request.
_EARLY_SECONDS: Final = 0.001
# Until the next address of a host is tried in parallel with the first: RFC 8305.
_NEXT_ADDRESS_SECONDS: Final = 0.25


class ConnectError(ConnectionError):
    """No connection to the server or its proxy; nothing was sent."""


class ConnectTimeout(ConnectError):
    """No connection within the time limit."""


class ResponseCut(ConnectionError):
    """The connection ended, or broke the protocol, before the response was complete."""


class ConnectionLimits(NamedTuple):
    """Seconds to connect, to wait for bytes, to keep an idle connection; number of idle connections; None: no limit."""

    connect_seconds: float | None
    read_seconds: float | None
    kept_seconds: float
    max_kept: float = math.inf


@dataclass(slots=True)
class SendStatus:
    """`has_left`: the whole request was written; from then on the server may have read it, and bill it."""

    has_left: bool = False


@dataclass(eq=False)
class HttpConnections:
    """Connections to one server, as many as there are concurrent calls; the last used one is used first.

    `tls` is for the server, None for plain HTTP; `proxy_tls` for a proxy that is itself reached by https.
    """

    host: str
    port: int
    _: KW_ONLY
    limits: ConnectionLimits
    tls: ssl.SSLContext | None = None
    proxy: Proxy | None = None
    proxy_tls: ssl.SSLContext | None = None
    _idle: "list[_Connection]" = field(default_factory=list, init=False)
    _open: "set[_Connection]" = field(default_factory=set, init=False)
    _is_closed: bool = field(default=False, init=False)

    async def send(self, head: h11.Request, body: Iterable[bytes], status: SendStatus | None = None) -> "HttpResponse":
        """Send a request and return its response, which must be closed.

        Args:
            status: updated once the whole request is written.

        Raises:
            ConnectError: nothing was sent.
            TimeoutError: nothing was sent or received for as long as the limits allow.
            ResponseCut: the connection ended before the head of the response.
        """
        connection = self._take_idle() or await self._connect()
        try:
            await connection.send(head, body, status)
            response = await connection.receive_head()
        except BaseException:
            self._drop(connection)
            raise
        return HttpResponse(self, connection, response)

    def close(self) -> None:
        """Close all connections, idle or not."""
        self._is_closed = True
        for connection in tuple(self._open):
            self._drop(connection)

    def release(self, connection: "_Connection") -> None:
        """Keep a connection whose response was read to its end; close any other."""
        if connection in self._open and len(self._idle) < self.limits.max_kept and connection.is_ready_again():
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _take_idle(self) -> "_Connection | None":
        while self._idle and self._idle[0].is_stale(self.limits.kept_seconds):
            self._drop(self._idle[0])
        while self._idle:
            if not (connection := self._idle.pop()).is_stale(self.limits.kept_seconds):
                return connection
            self._drop(connection)
        return None

    def _drop(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.writer.transport.abort()

    async def _connect(self) -> "_Connection":
        if self._is_closed:
            raise ConnectError("the connections are closed")
        loop = asyncio.get_running_loop()
        wire = _Wire(asyncio.StreamReader(), loop=loop)
        try:
            async with asyncio.timeout(self.limits.connect_seconds) as scope:
                transport = await self._open_transport(wire, loop)
        # A name that cannot be encoded is a ValueError.
        except (OSError, ValueError) as error:
            if scope.expired():
                raise ConnectTimeout("timed out") from error
            raise ConnectError(str(error) or type(error).__name__) from error
        connection = _Connection(
            wire, asyncio.StreamWriter(transport, wire, wire.reader, loop), read_seconds=self.limits.read_seconds
        )
        self._open.add(connection)
        return connection

    async def _open_transport(self, wire: "_Wire", loop: asyncio.AbstractEventLoop) -> asyncio.Transport:
        proxy, server_name = self.proxy, self.host if self.tls else None
        if proxy is None:
            return await _open_socket(wire, loop, self.host, self.port, self.tls)
        if proxy.is_socks:
            sock = await connect_through_socks(proxy, self.host, self.port)
            try:
                transport, _ = await loop.create_connection(
                    lambda: wire, sock=sock, ssl=self.tls, server_hostname=server_name
                )
            except BaseException:
                sock.close()
                raise
            return transport
        if self.tls is None:
            return await _open_socket(wire, loop, proxy.host, proxy.port, self.proxy_tls)
        # A reader of its own: what a proxy adds after its answer must not pass for bytes of the server.
        tunnel = _Wire(asyncio.StreamReader(), loop=loop)
        raw = await _open_socket(tunnel, loop, proxy.host, proxy.port, self.proxy_tls)
        try:
            host = f"[{self.host}]" if ":" in self.host else self.host
            await open_tunnel(raw, tunnel.reader, proxy, f"{host}:{self.port}")
            secured = await loop.start_tls(raw, wire, self.tls, server_hostname=server_name)
            if secured is None:
                raise ProxyError("the connection was closed during the TLS handshake")
        except BaseException:
            raw.abort()
            raise
        wire.connection_made(secured)
        return secured


class HttpResponse:
    """A response whose head has arrived; its body is read in parts. Closing it releases the connection."""

    def __init__(self, connections: HttpConnections, connection: "_Connection", head: h11.Response) -> None:
        self.status = head.status_code
        self.raw_headers = list(head.headers)
        self._connections = connections
        self._connection = connection

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name in lower case; the last value of a repeated one."""
        return {name.decode("ascii"): value.decode("latin-1") for name, value in self.raw_headers}

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives; raise ResponseCut or TimeoutError if its end does not."""
        while isinstance(event := await self._connection.next_event(), h11.Data):
            yield bytes(event.data)

    def close(self) -> None:
        """Release the connection: for the next call if the body was read to its end."""
        self._connections.release(self._connection)


class _Wire(asyncio.StreamReaderProtocol):
    """A stream protocol that knows if there is something to read, which its reader does not tell."""

    def __init__(self, reader: asyncio.StreamReader, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(reader, loop=loop)
        self.reader = reader
        self.has_unread = False

    def data_received(self, data: bytes) -> None:
        self.has_unread = True
        super().data_received(data)

    async def read(self) -> bytes:
        """Return all that came since the last time, b"" at the end."""
        data = await self.reader.read(_READ_BYTES)
        self.has_unread = False
        return data


class _Connection:
    """One connection, for one call at a time."""

    def __init__(self, wire: _Wire, writer: asyncio.StreamWriter, *, read_seconds: float | None) -> None:
        self._wire = wire
        self.writer = writer
        self._read_seconds = read_seconds
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._kept_since = 0.0

    def is_stale(self, kept_seconds: float) -> bool:
        """Return True if the other side closed it, sent something out of turn, or may close it any moment."""
        is_old = time.monotonic() - self._kept_since > kept_seconds
        return is_old or self._wire.has_unread or self._wire.reader.at_eof() or self.writer.is_closing()

    def is_ready_again(self) -> bool:
        """Return True if request and response are complete and nothing came after them; start the next cycle."""
        if {self._protocol.our_state, self._protocol.their_state} != {h11.DONE} or self._protocol.trailing_data[0]:
            return False
        self._protocol.start_next_cycle()
        self._kept_since = time.monotonic()
        return True

    async def send(self, head: h11.Request, body: Iterable[bytes], status: SendStatus | None) -> None:
        if not self._kept_since:
            await asyncio.sleep(_EARLY_SECONDS)
            if self._wire.has_unread:
                raise ResponseCut("the server sent a response before any request")
        # The head leaves in one write with the first part.
        unsent = self._protocol.send(head) or b""
        try:
            for event in chain((h11.Data(data=part) for part in body), [h11.EndOfMessage()]):
                # A server may answer before it has read all of a request that it refuses.
                if self._wire.has_unread and not unsent and isinstance(event, h11.Data):
                    return
                data, unsent = unsent + (self._protocol.send(event) or b""), b""
                if data:
                    self.writer.write(data)
                    async with asyncio.timeout(self._read_seconds):
                        await self.writer.drain()
        except TimeoutError:
            raise
        except OSError:
            # The connection is closed; what the server sent before that is still to be read.
            return
        if status is not None:
            status.has_left = True

    async def receive_head(self) -> h11.Response:
        while isinstance(event := await self.next_event(), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise ResponseCut("the server sent no response")
        return event

    async def next_event(self) -> object:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(self._read_seconds):
                    data = await self._wire.read()
                if not data and self._protocol.their_state is h11.SEND_RESPONSE:
                    raise ResponseCut("the server disconnected without a response")
                self._protocol.receive_data(data)
        except (TimeoutError, ResponseCut):
            raise
        except (OSError, h11.RemoteProtocolError) as error:
            raise ResponseCut(str(error) or type(error).__name__) from error
        return event


async def _open_socket(
    wire: _Wire, loop: asyncio.AbstractEventLoop, host: str, port: int, tls: ssl.SSLContext | None
) -> asyncio.Transport:
    transport, _ = await loop.create_connection(lambda: wire, host, port, ssl=tls, **address_race(host, loop))
    return transport


def address_race(host: str, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Return the options that let an event loop try several addresses of a host in parallel (RFC 8305).

    Empty for an IP address: a connection attempt that loses the race can leave a socket to the garbage collector. Empty
    for loops other than asyncio's: uvloop knows no such option, and tries one address after another.
    """
    if is_address(host) or not isinstance(loop, asyncio.BaseEventLoop):
        return {}
    return {"happy_eyeballs_delay": _NEXT_ADDRESS_SECONDS}
