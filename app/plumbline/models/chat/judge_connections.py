"""Kept HTTP/1.1 connections to one provider, directly or through a proxy: the only transport of judge calls.

A connection that says something out of turn is closed, so that no call gets another call's reply. The protocol is
h11's, content encodings are httpx2's.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

import h11
import httpx2

from plumbline.ground.proxies import (
    DEFAULT_PORTS,
    Proxy,
    ProxyError,
    connect_through_socks,
    is_address,
    open_tunnel,
)

_CONNECT_SECONDS: Final = 5.0
# As long as a pool of httpx2 keeps an idle connection; many servers close theirs soon after.
_KEPT_SECONDS: Final = 5.0
# More than a reader holds: reading takes all that came.
_READ_BYTES: Final = 1_048_576
_MAX_HEAD_BYTES: Final = 102_400
# Until the next address of a host is tried in parallel with the first: RFC 8305.
_NEXT_ADDRESS_SECONDS: Final = 0.25


@dataclass(slots=True)
class SendStatus:
    """`has_left`: the request was written; from then on a provider may have read it, and bill it."""

    has_left: bool = False


class JudgeConnections:
    """Connections to the host of one URL, as many as there are concurrent calls; the last used one is used first.

    Args:
        url: its scheme, host and port are connected to.
        tls: for https addresses and https proxies.
        proxy: to connect through; None connects directly.
    """

    def __init__(self, url: httpx2.URL, tls: ssl.SSLContext | None, proxy: Proxy | None = None) -> None:
        self._host = url.raw_host.decode("ascii")
        self._port = url.port or DEFAULT_PORTS[url.scheme]
        self._tls = tls if url.scheme == "https" else None
        self._proxy = proxy
        self._proxy_tls = tls if proxy and proxy.scheme == "https" else None
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._is_closed = False

    async def send(self, head: h11.Request, body: bytes, status: SendStatus) -> "JudgeResponse":
        """Send a request and return its response, which must be closed.

        Raises:
            httpx2.TransportError: no connection within 5 seconds, or a connection that broke.
        """
        connection = self._take_idle() or await self._connect()
        try:
            await connection.send(head, body, status)
            response = await connection.receive_head()
        except BaseException:
            self._drop(connection)
            raise
        return JudgeResponse(self, connection, response)

    def close(self) -> None:
        """Close all connections, idle or not."""
        self._is_closed = True
        for connection in tuple(self._open):
            self._drop(connection)

    def release(self, connection: "_Connection") -> None:
        """Keep a connection whose response was read to its end, close any other."""
        if connection in self._open and connection.is_ready_again():
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _take_idle(self) -> "_Connection | None":
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

    async def _connect(self) -> "_Connection":
        if self._is_closed:
            raise httpx2.ConnectError("the connections are closed")
        loop = asyncio.get_running_loop()
        wire = _Wire(asyncio.StreamReader(), loop=loop)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS) as scope:
                transport = await self._open_transport(wire, loop)
        # A name that cannot be encoded is a ValueError.
        except (OSError, ValueError) as error:
            kind = httpx2.ConnectTimeout if scope.expired() else httpx2.ConnectError
            raise kind(str(error)) from error
        connection = _Connection(wire, asyncio.StreamWriter(transport, wire, wire.reader, loop))
        self._open.add(connection)
        return connection

    async def _open_transport(self, wire: "_Wire", loop: asyncio.AbstractEventLoop) -> asyncio.Transport:
        proxy, server_name = self._proxy, self._host if self._tls else None
        if proxy is None:
            return await self._open_socket(wire, loop, self._host, self._port, self._tls)
        if proxy.is_socks:
            sock = await connect_through_socks(proxy, self._host, self._port)
            try:
                transport, _ = await loop.create_connection(
                    lambda: wire, sock=sock, ssl=self._tls, server_hostname=server_name
                )
            except BaseException:
                sock.close()
                raise
            return transport
        if self._tls is None:
            return await self._open_socket(wire, loop, proxy.host, proxy.port, self._proxy_tls)
        # A reader of its own: what a proxy adds after its answer must not pass for bytes of the judge.
        tunnel = _Wire(asyncio.StreamReader(), loop=loop)
        raw = await self._open_socket(tunnel, loop, proxy.host, proxy.port, self._proxy_tls)
        try:
            host = f"[{self._host}]" if ":" in self._host else self._host
            await open_tunnel(raw, tunnel.reader, proxy, f"{host}:{self._port}")
            secured = await loop.start_tls(raw, wire, self._tls, server_hostname=server_name)
            if secured is None:
                raise ProxyError("the connection was closed during the TLS handshake")
        except BaseException:
            raw.abort()
            raise
        wire.connection_made(secured)
        return secured

    async def _open_socket(
        self, wire: "_Wire", loop: asyncio.AbstractEventLoop, host: str, port: int, tls: ssl.SSLContext | None
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

    def __init__(self, wire: _Wire, writer: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._kept_since = 0.0

    @property
    def is_stale(self) -> bool:
        """Return True if the other side closed it, sent something out of turn, or may close it any moment."""
        is_old = time.monotonic() - self._kept_since > _KEPT_SECONDS
        return is_old or self._wire.has_unread or self._wire.reader.at_eof() or self._writer.is_closing()

    def is_ready_again(self) -> bool:
        """Return True if request and response are complete and nothing came after them; starts the next cycle."""
        if {self._protocol.our_state, self._protocol.their_state} != {h11.DONE} or self._protocol.trailing_data[0]:
            return False
        self._protocol.start_next_cycle()
        self._kept_since = time.monotonic()
        return True

    def abort(self) -> None:
        self._writer.transport.abort()

    async def send(self, head: h11.Request, body: bytes, status: SendStatus) -> None:
        parts = [self._protocol.send(event) for event in (head, h11.Data(data=body), h11.EndOfMessage())]
        self._writer.write(b"".join(part for part in parts if part))
        try:
            await self._writer.drain()
        except OSError:
            # A server may refuse a request before it has read all of it: its response is still to be read.
            return
        status.has_left = True

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


class JudgeResponse(httpx2.AsyncByteStream):
    """A response whose head has come; its body is read in parts. Closing it gives the connection back.

    Attributes:
        headers: names in lower case.
    """

    def __init__(self, connections: JudgeConnections, connection: _Connection, head: h11.Response) -> None:
        self.status_code = head.status_code
        self.headers = list(head.headers)
        self._connections = connections
        self._connection = connection

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it was sent, still encoded."""
        return self._connection.body()

    def decoded(self) -> AsyncGenerator[bytes, None]:
        """Yield the body without its content encoding, as it inflates."""
        if not any(name == b"content-encoding" for name, _ in self.headers):
            return self._connection.body()
        return httpx2.Response(self.status_code, headers=self.headers, stream=self).aiter_bytes()

    async def aclose(self) -> None:
        """Do nothing: httpx2 closes its stream at the end of the body, which `close` does later."""

    def close(self) -> None:
        """Give the connection back."""
        self._connections.release(self._connection)
