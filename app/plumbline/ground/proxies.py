"""Proxies of the environment, for every connection to others: never for this machine."""

from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies, proxy_bypass

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.tls import tls_context

if TYPE_CHECKING:
    import httpx2

_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def find_proxy(url: "httpx2.URL") -> "httpx2.Proxy | None":
    """Return the proxy of the environment for a server, None for loopback and NO_PROXY; raise ConfigurationError."""
    # late: a tenth of a second of import, which only a connection pays
    import httpx2  # noqa: PLC0415

    proxies = getproxies()
    name = url.scheme if proxies.get(url.scheme) else "all"
    address = proxies.get(name)
    place = f"{url.host}:{url.port or _DEFAULT_PORTS[url.scheme]}"
    if (
        not address
        or (is_loopback(url.host) or url.host.endswith(".localhost"))
        or _is_listed(url.host, proxies.get("no", ""))
        or proxy_bypass(place)
    ):
        return None
    try:
        proxy = httpx2.Proxy(address if "://" in address else f"http://{address}")
    except (ValueError, httpx2.InvalidURL):
        proxy = None
    if proxy is None or not proxy.url.host:
        # The value may hold a password.
        raise ConfigurationError(
            f"{name.upper()}_PROXY: not the URL of a proxy that can be used; expected http://, https://, socks5:// or "
            "socks5h:// with a host and a port"
        )
    if proxy.url.scheme == "https":
        proxy.ssl_context = tls_context()
    return proxy


def proxy_place(proxy: "httpx2.Proxy") -> str:
    """Return the host and port of a proxy, without credentials."""
    return f"{proxy.url.host}:{proxy.url.port or _DEFAULT_PORTS[proxy.url.scheme]}"


@lru_cache
def is_loopback(host: str) -> bool:
    """Return True for `localhost` and loopback addresses, brackets and mapped IPv4 included. Resolves no name."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_listed(host: str, no_proxy: str) -> bool:
    """Return True for an address in a network of NO_PROXY, which `proxy_bypass` skips."""
    for entry in no_proxy.split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(entry.strip(" []"), strict=False):
                return True
    return False
