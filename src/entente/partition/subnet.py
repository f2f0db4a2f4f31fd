"""Silos from address ranges; the longest prefix that holds a host wins."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from entente.errors import ConfigError
from entente.partition.base import read_pairs

BITS = {4: 32, 6: 128}
NEIGHBOURS = {4: 24, 6: 64}
"""Per IP version, the prefix within which addresses are taken for neighbours."""


@dataclass(frozen=True, slots=True)
class Subnets:
    """Per IP version and prefix length, longest first: {network bits: silo}."""

    tables: tuple[tuple[int, int, dict[int, str]], ...]

    def silo_of(self, host: str) -> str | None:
        """The silo of an address, or None where no range holds it or the host is not an address."""
        address = _address(host)
        if address is None:
            return None
        number = int(address)
        for version, length, table in self.tables:
            if version == address.version:
                silo = table.get(number >> (BITS[version] - length))
                if silo is not None:
                    return silo
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The host as an address, an IPv4 one written as IPv6 as itself; None where it is a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def read_subnets(path: Path) -> Subnets:
    """Read a table with the columns silo and cidr; a silo may have many ranges, also nested ones."""
    tables: dict[tuple[int, int], dict[int, str]] = {}
    for line, (silo, cidr) in read_pairs(path, "silo", "cidr"):
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError as error:
            raise ConfigError(
                f"{cidr!r} is not an address range ({error})",
                where=path,
                line=line,
                remedy="Write network/length with no host bits set, such as 10.1.0.0/16 or 2001:db8::/32.",
            ) from error
        key = (network.version, network.prefixlen)
        bits = int(network.network_address) >> (BITS[network.version] - network.prefixlen)
        if tables.setdefault(key, {}).setdefault(bits, silo) != silo:
            raise ConfigError(
                f"{cidr} is given to {tables[key][bits]!r} and to {silo!r}",
                where=path,
                line=line,
                remedy="A range belongs to one silo; split it into longer prefixes if both use it.",
            )
    ordered = sorted(tables.items(), key=lambda item: -item[0][1])
    return Subnets(tuple((version, length, table) for (version, length), table in ordered))


def neighbourhoods(silo_of: Mapping[str, str]) -> Subnets:
    """Each /24 (IPv6: /64) that holds one of these addresses, given to the silo with most of them there.

    Ties go to the silo first by name; hosts that are not addresses do not count.
    """
    counted: dict[tuple[int, int], Counter[str]] = {}
    for host, silo in silo_of.items():
        address = _address(host)
        if address is not None:
            bits = int(address) >> (BITS[address.version] - NEIGHBOURS[address.version])
            counted.setdefault((address.version, bits), Counter())[silo] += 1
    tables: dict[int, dict[int, str]] = {version: {} for version in NEIGHBOURS}
    for (version, bits), silos in counted.items():
        tables[version][bits] = min(silos, key=lambda name: (-silos[name], name))
    return Subnets(tuple((version, length, tables[version]) for version, length in NEIGHBOURS.items()))


def from_subnets(subnets: Subnets, hosts: Iterable[str]) -> dict[str, str]:
    """{host: silo} of the hosts that lie in a range."""
    found = {host: subnets.silo_of(host) for host in hosts}
    return {host: silo for host, silo in found.items() if silo is not None}
