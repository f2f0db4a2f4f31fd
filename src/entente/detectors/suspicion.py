"""Suspicion that stays with a host and is handed on along new edges, fading with time.

Every host has a probability p of being held by an intruder. After each window, for every new edge a -> b with
logit L: q = sigmoid(logit p(a) + z), z = L - c within bounds, where c is what the silo's own new edges seldom
exceed; then a and b are each a little more likely to be held, b by the less the more sources it has. A later
edge of a suspicious source scores higher. The detector `behaviour` gives its own logits; `with_suspicion`
makes them of any detector's scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays
from entente.detectors.base import named
from entente.text import hours_text

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

PRIOR = 1e-4
"""Probability that a host nothing is known of is held."""
MOST = 0.999
HALF_LIFE = 24.0
"""Hours in which suspicion halves."""
HABIT = 336.0
"""Half-life in hours of a host's usual suspicion: an administrator's odd jobs are no news."""
PATIENCE = 24.0
"""Hours of nothing that a host's usual suspicion begins with."""
STRENGTH = 0.5
"""What a logit of suspicion above the host's usual one adds to an edge's logit."""
STANDS_OUT = 2.3
"""Logit above the usual one from which on a host stands out: ten times the odds."""
TOLD = 72.0
"""Hours for which it is told from whom a host has its suspicion."""
STEP = 3.0
"""No single edge counts for more than this, for or against."""
QUANTILE = 0.95
"""c is the logit that this share of new edges stays below, and at least 0 (even odds) ..."""
RATE = 0.2
"""... followed in steps of this size per window."""


NOBODY = -1
DOUBLED = 2.0
"""A host whose p grows by this factor through one edge remembers who made it."""
DAY = 24.0


class Suspicion:
    """Suspicion of every host of a silo, opened from a state."""

    def __init__(self, state: Arrays, nodes: int, hours: float) -> None:
        kept = state["suspicion"]
        self.p = np.full(nodes, PRIOR)
        self.p[: len(kept)] = kept
        self.usual = np.zeros(nodes)  # excess over the prior, summed over the hours, fading
        self.usual[: len(kept)] = state["suspicion_usual"]
        self.giver = np.full(nodes, NOBODY, dtype=np.int32)  # from whom a host has it, and since which window
        self.since = np.zeros(nodes, dtype=np.int32)
        self.contacts = np.zeros(nodes, dtype=np.float32)  # unusual ones of a host, fading
        for name, values in self._kept().items():
            values[: len(kept)] = state[name]
        self.level, self.hours = (float(value) for value in state["suspicion_level"])
        self._width = hours
        self._fade, self._habit = 2.0 ** (-hours / HALF_LIFE), 2.0 ** (-hours / HABIT)
        self._day = np.float32(2.0 ** (-hours / DAY))

    def _kept(self) -> Arrays:
        return {
            "suspicion_giver": self.giver,
            "suspicion_since": self.since,
            "suspicion_contacts": self.contacts,
        }

    @staticmethod
    def empty(nodes: int) -> Arrays:
        """The state before any window: level c, and hours seen."""
        return {
            "suspicion": np.full(nodes, PRIOR),
            "suspicion_usual": np.zeros(nodes),
            "suspicion_giver": np.full(nodes, NOBODY, dtype=np.int32),
            "suspicion_since": np.zeros(nodes, dtype=np.int32),
            "suspicion_contacts": np.zeros(nodes, dtype=np.float32),
            "suspicion_level": np.zeros(2),
        }

    def state(self) -> Arrays:
        return {
            "suspicion": self.p,
            "suspicion_usual": self.usual,
            "suspicion_level": np.array([self.level, self.hours]),
        } | self._kept()

    def fade(self) -> None:
        """A window begins."""
        self.p = PRIOR + (self.p - PRIOR) * self._fade
        self.usual = self.usual * self._habit + self._excess(self.p) * self._width
        self.hours = self.hours * self._habit + self._width
        self.contacts *= self._day

    def raised(self, logit: Float64, source: NDArray[np.int32]) -> Float64:
        """Logits of edges, raised by what earlier windows left on their sources."""
        found: Float64 = logit + STRENGTH * np.maximum(self.above(source), 0.0)
        return found

    def story(self, host: int, number: int) -> str:
        """Why a host is more suspicious than it usually is, in the window of that number; else nothing."""
        if self.above(np.array([host]))[0] <= STANDS_OUT:
            return ""
        giver, ago = int(self.giver[host]), (number - int(self.since[host])) * self._width
        if giver != NOBODY and ago <= TOLD:
            had = _had(self.contacts[giver])
            return f"the source was reached {hours_text(ago)} ago from {named(giver)}{had}"
        count = round(float(self.contacts[host]))
        return f"the source had {_number(count)} before" if count else "the source stood out before"

    def risen(self, before: Float64) -> tuple[NDArray[np.int64], Float64]:
        """Hosts that stand out and whose p was lower `before`, and the logits above their usual ones."""
        hosts = np.flatnonzero(self.p > before)
        above = self.above(hosts)
        return hosts[above > STANDS_OUT], above[above > STANDS_OUT]

    def above(self, hosts: NDArray[Any]) -> Float64:
        """Logits of suspicion above what is usual for the hosts."""
        found: Float64 = self._excess(self.p[hosts]) - self.usual[hosts] / (self.hours + PATIENCE)
        return found

    @staticmethod
    def _excess(p: Float64) -> Float64:
        found: Float64 = np.maximum(_logit(p) - _logit(PRIOR), 0.0)
        return found

    def learn(
        self,
        logit: Float64,
        source: NDArray[np.int32],
        target: NDArray[np.int32],
        sources: NDArray[np.float32],
        number: int,
    ) -> None:
        """Hand suspicion on along a window's new edges; `sources` is how many sources each target had."""
        if not len(logit):
            return
        step = np.clip(logit - self.level, -STEP, STEP)
        q = _sigmoid(_logit(self.p[source]) + step)
        here = np.bincount(source, np.log1p(-q), len(self.p))
        there = np.bincount(target, np.log1p(-q / np.log2(2.0 + sources)), len(self.p))
        handed = -np.log1p(-q / np.log2(2.0 + sources))
        order = np.lexsort((-source, handed, target))  # the last of each target hands on most
        last = order[np.append(target[order][1:] != target[order][:-1], True)]
        last = last[handed[last] > (DOUBLED - 1.0) * self.p[target[last]]]
        self.giver[target[last]], self.since[target[last]] = source[last], number
        self.contacts += np.bincount(source[step > 0], minlength=len(self.p)).astype(np.float32)
        self.p = np.minimum(1.0 - (1.0 - self.p) * np.exp(here + there), MOST)
        below = float((logit < self.level).mean())
        self.level = max(0.0, self.level + RATE * (QUANTILE - below))


def _had(contacts: float) -> str:
    count = round(float(contacts))
    return f", which had {_number(count)}" if count else ""


def _number(count: int) -> str:
    return "an unusual contact" if count == 1 else f"{count} unusual contacts"


def told_score(score: Float32, odds: Float64) -> Float32:
    """The score of an edge (sigmoid of half its logit) whose source stands out elsewhere by log odds >= 0.

    It weighs as much as the silo's own suspicion, and no score becomes lower.
    """
    half = _logit(np.clip(score.astype(np.float64), 1e-12, 1.0 - 1e-12)) + 0.5 * STRENGTH * odds
    return np.where(odds > 0, np.maximum(score, _sigmoid(half).astype(np.float32)), score)


def _logit(p: Float64 | float) -> Float64:
    found: Float64 = np.log(p / (1.0 - np.asarray(p)))
    return found


def _sigmoid(x: Float64) -> Float64:
    found: Float64 = 1.0 / (1.0 + np.exp(-x))
    return found
