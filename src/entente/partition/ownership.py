"""To whom a host belongs: as a table says, and by a policy where no table knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.graphs.merging import USER
from entente.partition.subnet import neighbourhoods

UNASSIGNED = "unassigned"
"""Unknown hosts belong to no silo; what happens among them is scored under this name."""
BY_SUBNET = "subnet"
"""Unknown addresses belong to the silo that has most of the addresses around them."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which silo each host belongs to, in training and night after night."""

    silo_of: Mapping[str, str]
    unknown: str = UNASSIGNED
    """UNASSIGNED, BY_SUBNET, or the silo that hosts outside of `silo_of` belong to."""

    @staticmethod
    def whole(silo: str) -> Ownership:
        """Without a partition: every host belongs to the one silo there is."""
        return Ownership({}, silo)

    def has(self, silo: str) -> bool:
        """Whether this is a silo, not the name under which hosts of none are scored."""
        return silo != UNASSIGNED or UNASSIGNED in self.silo_of.values()

    def owners(self, hosts: Iterable[str]) -> NDArray[np.str_]:
        """The silo of each host, or UNASSIGNED. A user belongs to none, where there are several."""
        if self.silo_of:
            hosts = list(hosts)
            users = np.array([host.startswith(USER) for host in hosts], dtype=np.bool_)
            found = self._owners(hosts)
            return np.where(users, UNASSIGNED, found) if users.any() else found
        return self._owners(hosts)

    def _owners(self, hosts: Iterable[str]) -> NDArray[np.str_]:
        if self.unknown != BY_SUBNET:
            found = [self.silo_of.get(host, self.unknown) for host in hosts]
        else:
            nets = neighbourhoods(self.silo_of)
            found = [self.silo_of.get(host) or nets.silo_of(host) or UNASSIGNED for host in hosts]
        return np.array(found, dtype=np.str_)
