"""Which scored edges a silo raises as alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from entente.detection.addresses import address
from entente.detection.feedback import NOTHING_LEARNT, Lessons

Exclusion = Literal["known-pairs", "multicast"]

TAUGHT = "taught"
"""Why an edge of a source is not raised whose alerts were closed as benign."""
ETHERNET_BROADCAST = "ff:ff:ff:ff:ff:ff"


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """The threshold, or a number per day in its place, and what is never raised as lateral movement."""

    alerts_per_day: float | None = None
    """Per silo: the highest scores of each day, instead of all scores above the threshold."""
    exclude: tuple[Exclusion, ...] = ("known-pairs", "multicast")
    lessons: Lessons = NOTHING_LEARNT
    """What people taught by closing alerts."""


def to_many(host: str) -> bool:
    """Whether a packet to `host` goes to many: multicast, broadcast, or an IPv4 address that ends in .255."""
    found = address(host)
    if found is None:
        return host.lower() == ETHERNET_BROADCAST
    return found.is_multicast or (found.version == 4 and found.packed[-1] == 255)
