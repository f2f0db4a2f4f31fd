"""Host names that are IP addresses."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def address(host: str) -> IPv4Address | IPv6Address | None:
    """The host as an IP address, if it is one."""
    try:
        return ip_address(host)
    except ValueError:
        return None
