"""How often hosts of the silo do as much as this one: what all others do, and what hosts of its class do.

A host's evidence of a day and its burst of a window are compared with those of all other hosts so far, and
with those of hosts that have about as many settled targets. Somebody who looks after machines has peers who
reach as far; what nobody in the silo has ever done needs no comparison with the host's own past.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.graphs.temporal import Int32

Values = NDArray[Any]

CLASSES = 8
"""Hosts are put into this many classes by the number of their neighbours: 0, 1, 2-3, 4-6, 7-14, ..."""
DAY_STEPS = np.array([0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128])
"""Evidence within a day, in steps."""
BURST_STEPS = np.array([1, 2, 3, 5, 8, 12, 18, 27, 40, 60])
"""New targets in one window, in steps."""
HALF_LIFE = 336.0
STEPS = len(DAY_STEPS)
OWN = ("own_day", "own_burst")
"""Per step and host: hours at this level or above, bursts of this size or above."""


class PeerHosts:
    """Of every class of hosts, how long they were at each level and how many bursts they had, fading.

    Hosts of several parts (see `Memory`) have classes of their own: CLASSES of the first part, and so on.
    """

    def __init__(self, state: Arrays, nodes: int, hours: float) -> None:
        self.days, self.bursts = state["peer_days"].copy(), state["peer_bursts"].copy()  # [class, step]
        self.hours = state["peer_hours"].copy()  # hours of the hosts of each class; last, of the silo
        self.own: dict[str, Values] = {}
        for name in OWN:
            self.own[name] = np.zeros((STEPS, nodes), dtype=np.float32)
            self.own[name][:, : state[name].shape[1]] = state[name]
        self._width = hours
        self._fade = 2.0 ** (-hours / HALF_LIFE)

    @staticmethod
    def empty(nodes: int, parts: int = 1) -> Arrays:
        """The state before any window."""
        state: Arrays = {name: np.zeros((STEPS, nodes), dtype=np.float32) for name in OWN}
        state |= {name: np.zeros((parts * CLASSES, STEPS)) for name in ("peer_days", "peer_bursts")}
        return state | {"peer_hours": np.zeros(parts * CLASSES + 1)}

    def state(self) -> Arrays:
        return {"peer_days": self.days, "peer_bursts": self.bursts, "peer_hours": self.hours, **self.own}

    def fade(self) -> None:
        """One window has passed."""
        for values in (self.days, self.bursts, self.hours):
            values *= self._fade
        for own in self.own.values():
            own *= np.float32(self._fade)

    def values(self, a: Int32, kind: Values, day: Values, count: Values) -> dict[str, Values]:
        """Raw values of sources `a` of class `kind`, by their evidence of a day and their new targets now."""
        hosts, whole = self.hours[:-1], self.hours[-1]
        level = np.searchsorted(DAY_STEPS, day, "right")
        all_days, class_days = self._above(self.days, hosts, "own_day", a, kind, level)
        size = np.searchsorted(BURST_STEPS, count, "right")
        all_bursts, class_bursts = self._above(self.bursts, self.bursts[:, 0], "own_burst", a, kind, size)
        return {
            "others_day": (all_days + 0.25) / (whole + 0.25),
            "peers_day": (class_days + 0.5) / (hosts[kind] + 24.0),
            "others_burst": (all_bursts + 0.1) / (whole / 24.0 + 0.5),
            "peers_burst": (class_bursts + 0.1) / (hosts[kind] / 24.0 + 1.0),
        }

    def _above(
        self, table: Values, below: Values, name: str, a: Int32, kind: Values, step: Values
    ) -> tuple[Values, Values]:
        """Of others, at this step or above: in the silo and in the class; `below` stands below all steps."""
        padded = np.concatenate((below[:, None], table), axis=1)
        own = np.where(step > 0, self.own[name][np.maximum(step, 1) - 1, a], 0.0)
        whole = padded.reshape(-1, CLASSES, STEPS + 1).sum(axis=1)[kind // CLASSES, step]
        return np.maximum(whole - own, 0.0), np.maximum(padded[kind, step] - own, 0.0)

    def learn(self, kind: Values, known: Values, day: Values, count: Values, worth: float) -> None:
        """Take a window's end into account: classes, who is known, evidence of a day, new targets."""
        hours = worth * self._width
        self.hours[:-1] += hours * np.bincount(kind[known], minlength=len(self.days))
        self.hours[-1] += hours
        self._add(self.days, "own_day", kind, np.searchsorted(DAY_STEPS, day, "right"), hours)
        self._add(self.bursts, "own_burst", kind, np.searchsorted(BURST_STEPS, count, "right"), worth)

    def _add(self, table: Values, name: str, kind: Values, step: Values, amount: float) -> None:
        hosts = np.flatnonzero(step)
        reached = step[hosts]
        count = np.bincount(kind[hosts] * (STEPS + 1) + reached, minlength=len(table) * (STEPS + 1))
        above = count.reshape(len(table), -1)[:, :0:-1].cumsum(axis=1)[:, ::-1]
        table += amount * above
        for number in range(int(reached.max(initial=0))):
            self.own[name][number, hosts[reached > number]] += np.float32(amount)
