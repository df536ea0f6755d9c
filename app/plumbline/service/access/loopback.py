"""Which names and addresses never leave this machine."""

from ipaddress import IPv6Address, ip_address


def names_loopback(host: str) -> bool:
    """Whether this is `localhost` or an address of loopback, brackets and mapped IPv4 included. Resolves nothing."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
