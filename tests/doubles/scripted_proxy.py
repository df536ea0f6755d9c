"""A scripted proxy on a loopback socket: HTTP (CONNECT and absolute-form) or SOCKS 5, in front of one server."""

import asyncio
import shutil
import subprocess
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import pytest

_HEAD_END = b"\r\n\r\n"
_PASSWORD_METHOD, _NO_METHOD = b"\x05\x02", b"\x05\xff"
_ADDRESS_BYTES = {1: 4, 4: 16}


class ScriptedProxy:
    """Connects every target to one server, as a proxy whose own resolver knows that name would.

    Args:
        kind: the protocol that it speaks.
        upstream_port: of the server on loopback.
        credentials: user and password that it wants.
        refusal: the answer in place of a connection: an HTTP status, or a SOCKS 5 reply code.

    Attributes:
        targets: `host:port` of each CONNECT or SOCKS request, the URL of each absolute-form request's first.
        connections: connections accepted.
    """

    def __init__(
        self,
        kind: Literal["http", "socks5"],
        upstream_port: int,
        *,
        credentials: tuple[str, str] | None = None,
        refusal: int | None = None,
    ) -> None:
        self.targets: list[str] = []
        self.connections = 0
        self._kind = kind
        self._upstream_port = upstream_port
        self._credentials = credentials
        self._refusal = refusal
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def url(self, *, scheme: str = "", userinfo: str = "") -> str:
        """The URL for a variable of the environment."""
        return f"{scheme or self._kind}://{userinfo and userinfo + '@'}127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            first = await (self._http(reader, writer) if self._kind == "http" else self._socks(reader, writer))
            if first is not None:
                await self._pipe(first, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Return the bytes to forward first; None when the request was refused."""
        head = await reader.readuntil(_HEAD_END)
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.targets.append(target)
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
        sent = {name.lower(): value for name, value in fields.items()}.get("proxy-authorization", "")
        status = self._refusal
        if self._credentials and sent != "Basic " + b64encode(":".join(self._credentials).encode()).decode():
            status = 407
        if status is not None:
            writer.write(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\n\r\n" % status)
            await writer.drain()
            return None
        if method != "CONNECT":
            return head
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        return b""

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if self._credentials:
            if 2 not in methods:
                writer.write(_NO_METHOD)
                return None
            writer.write(_PASSWORD_METHOD)
            user = await self._counted(reader, skip=1)
            password = await self._counted(reader)
            is_right = (user, password) == self._credentials
            writer.write(b"\x01\x00" if is_right else b"\x01\x01")
            if not is_right:
                await writer.drain()
                return None
        else:
            writer.write(b"\x05\x00")
        kind = (await reader.readexactly(4))[3]
        host = (
            ".".join(str(byte) for byte in await reader.readexactly(_ADDRESS_BYTES[kind]))
            if kind in _ADDRESS_BYTES
            else await self._counted(reader)
        )
        self.targets.append(f"{host}:{int.from_bytes(await reader.readexactly(2), 'big')}")
        writer.write(b"\x05%c\x00\x01\x00\x00\x00\x00\x00\x00" % (self._refusal or 0))
        await writer.drain()
        return b"" if self._refusal is None else None

    @staticmethod
    async def _counted(reader: asyncio.StreamReader, *, skip: int = 0) -> str:
        size = (await reader.readexactly(skip + 1))[skip]
        return (await reader.readexactly(size)).decode()

    async def _pipe(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        up_writer.write(first)
        try:
            await asyncio.gather(_copy(reader, up_writer), _copy(up_reader, writer))
        finally:
            up_writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def self_signed(folder: Path, host: str) -> Path:
    """Return the file of a certificate for a host and 127.0.0.1 with its key; skip the test without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}"]
    names = ["-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    certificate.write_bytes(key.read_bytes() + certificate.read_bytes())
    return certificate
