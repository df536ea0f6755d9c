"""Proxies of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) and the tunnels through them."""

import asyncio
import socket
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from plumbline.ground.errors import ConfigurationError

DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}


class ProxyError(ConnectionError):
    """A proxy that opens no connection; `is_denied`: it wants other credentials, which no retry changes."""

    def __init__(self, reason: str, *, is_denied: bool = False) -> None:
        super().__init__(reason)
        self.is_denied = is_denied


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy; `repr` and `place` hold no credentials."""

    scheme: str
    host: str
    port: int
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_socks(self) -> bool:
        return self.scheme.startswith("socks")

    @property
    def authorization(self) -> str | None:
        """The value of `Proxy-Authorization`; None without credentials."""
        if not self.username and not self.password:
            return None
        return f"Basic {b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


def find_proxy(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy of the environment for a server, None for loopback hosts and those of NO_PROXY."""
    proxies = getproxies()
    name = scheme if proxies.get(scheme) else "all"
    address = proxies.get(name)
    if not address or _is_direct(host, proxies.get("no", "")) or proxy_bypass(f"{host}:{port}"):
        return None
    parsed = urlsplit(address if "://" in address else f"http://{address}")
    try:
        kind, place, known_port = parsed.scheme, parsed.hostname, parsed.port or DEFAULT_PORTS[parsed.scheme]
    except (KeyError, ValueError):
        kind, place, known_port = "", None, 0
    if not place:
        # The value may hold a password.
        raise ConfigurationError(
            f"{name.upper()}_PROXY: not the URL of a proxy; expected "
            f"{', '.join(f'{each}://' for each in DEFAULT_PORTS)} with a host and a port"
        )
    return Proxy(kind, place, known_port, unquote(parsed.username or ""), unquote(parsed.password or ""))


async def connect_through_socks(proxy: Proxy, host: str, port: int) -> socket.socket:
    """Return a socket connected to a host through a SOCKS proxy, which resolves the name (SOCKS 4: resolved here).

    Raises ProxyError, or OSError, if the proxy refuses or cannot be reached.
    """
    # Few have such a proxy; the base install does not bring the package.
    try:
        from python_socks import ProxyError as SocksError  # noqa: PLC0415
        from python_socks import ProxyType  # noqa: PLC0415
        from python_socks.async_.asyncio import Proxy as SocksProxy  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"the proxy {proxy.place} speaks SOCKS, which needs python-socks: pip install 'plumbline-rag[service]'"
        ) from None

    connector = SocksProxy(
        ProxyType.SOCKS4 if proxy.scheme.startswith("socks4") else ProxyType.SOCKS5,
        proxy.host,
        proxy.port,
        username=proxy.username or None,
        password=proxy.password or None,
        rdns=proxy.scheme != "socks4",
    )
    try:
        return await connector.connect(host, port)
    except SocksError as error:
        reason = str(error) or "no answer"
        raise ProxyError(reason, is_denied="authentication" in reason.lower()) from error


async def open_tunnel(transport: asyncio.Transport, reader: asyncio.StreamReader, proxy: Proxy, target: str) -> None:
    """Ask an HTTP proxy to connect to a target, `host:port` (RFC 9110, 9.3.6); raise ProxyError if it refuses."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    transport.write("\r\n".join([*lines, "", ""]).encode("ascii"))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ProxyError("no answer to CONNECT") from error
    version, _, rest = head.partition(b" ")
    status = rest[:3].decode("ascii", errors="replace")
    if not version.startswith(b"HTTP/1.") or not status.isdecimal():
        raise ProxyError("no HTTP answer to CONNECT")
    if not status.startswith("2"):
        raise ProxyError(f"HTTP {status}", is_denied=status == "407")


def is_address(host: str) -> bool:
    """Return True if a host is an IP address and not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_direct(host: str, no_proxy: str) -> bool:
    """Return True for loopback hosts, and for addresses in a network of NO_PROXY, which `proxy_bypass` skips."""
    if not is_address(host):
        return host == "localhost" or host.endswith(".localhost")
    address = ip_address(host)
    for entry in no_proxy.split(","):
        with suppress(ValueError):
            if address in ip_network(entry.strip(" []"), strict=False):
                return True
    return address.is_loopback
