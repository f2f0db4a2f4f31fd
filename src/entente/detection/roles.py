"""What a host is by its part in the silo's graph."""

import math
from typing import Literal

Role = Literal["hub", "server", "workstation"]
"""Contacts many hosts, is contacted by many, or neither."""

FEWEST = 5
"""A hub contacts, and a server is contacted by, so many hosts at least; more in a large silo."""


def role_of(targets: int, sources: int, hosts: int) -> Role | None:
    """Of one that contacted `targets` and was contacted by `sources`, in a silo that knows `hosts` hosts."""
    if not targets + sources:
        return None
    if max(targets, sources) < max(FEWEST, math.sqrt(hosts) / 2):
        return "workstation"
    return "hub" if targets >= sources else "server"
