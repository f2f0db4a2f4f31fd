"""IP addresses among the names of hosts."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_USUAL = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")
"""An IPv4 address that is spelt as it should be."""


def address_of(name: str) -> str | None:
    """An IP address in its usual spelling, an IPv4 address in IPv6 as the former; None for a name."""
    # Few names get past this, and parsing is slow.
    if ":" not in name and (name.count(".") != 3 or not name[:1].isdigit()):
        return None
    if _USUAL.fullmatch(name):
        return name
    try:
        found = ip_address(name.strip("[]").split("%", 1)[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
