"""Suspicion that stays with a host and is handed on along new edges, fading with time.

Every host has a probability p of being held by an intruder. After each window, for every new edge a -> b with
logit L: q = sigmoid(logit p(a) + z), z = L - c within bounds, where c is what the silo's own new edges seldom
exceed; then a and b are each a little more likely to be held, b by the less the more sources it has. A later
edge of a suspicious source scores higher. It works on logits, so that any detector may stand below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entente.artifacts import Arrays

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
STEP = 3.0
"""No single edge counts for more than this, for or against."""
QUANTILE = 0.95
"""c is the logit that this share of new edges stays below, and at least 0 (even odds) ..."""
RATE = 0.2
"""... followed in steps of this size per window."""


class Suspicion:
    """Suspicion of every host of a silo, opened from a state."""

    def __init__(self, state: Arrays, nodes: int, hours: float) -> None:
        kept = state["suspicion"]
        self.p = np.full(nodes, PRIOR)
        self.p[: len(kept)] = kept
        self.usual = np.zeros(nodes)  # excess over the prior, summed over the hours, fading
        self.usual[: len(kept)] = state["suspicion_usual"]
        self.level, self.hours = (float(value) for value in state["suspicion_level"])
        self._width = hours
        self._fade, self._habit = 2.0 ** (-hours / HALF_LIFE), 2.0 ** (-hours / HABIT)

    @staticmethod
    def empty(nodes: int) -> Arrays:
        """The state before any window: level c, and hours seen."""
        return {
            "suspicion": np.full(nodes, PRIOR),
            "suspicion_usual": np.zeros(nodes),
            "suspicion_level": np.zeros(2),
        }

    def state(self) -> Arrays:
        return {
            "suspicion": self.p,
            "suspicion_usual": self.usual,
            "suspicion_level": np.array([self.level, self.hours]),
        }

    def fade(self) -> None:
        """A window begins."""
        self.p = PRIOR + (self.p - PRIOR) * self._fade
        self.usual = self.usual * self._habit + self._excess(self.p) * self._width
        self.hours = self.hours * self._habit + self._width

    def raised(self, logit: Float64, source: NDArray[np.int32]) -> Float64:
        """Logits of edges, raised by what earlier windows left on their sources."""
        found: Float64 = logit + STRENGTH * np.maximum(self._above(source), 0.0)
        return found

    def stands_out(self, host: int) -> bool:
        """Whether a host is more suspicious than it usually is."""
        return bool(self._above(np.array([host]))[0] > STANDS_OUT)

    def risen(self, before: Float64) -> tuple[NDArray[np.int64], Float64]:
        """Hosts that stand out and whose p was lower `before`, and the logits above their usual ones."""
        hosts = np.flatnonzero(self.p > before)
        above = self._above(hosts)
        return hosts[above > STANDS_OUT], above[above > STANDS_OUT]

    def _above(self, hosts: NDArray[Any]) -> Float64:
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
    ) -> None:
        """Hand suspicion on along a window's new edges; `sources` is how many sources each target had."""
        if not len(logit):
            return
        step = np.clip(logit - self.level, -STEP, STEP)
        q = _sigmoid(_logit(self.p[source]) + step)
        here = np.bincount(source, np.log1p(-q), len(self.p))
        there = np.bincount(target, np.log1p(-q / np.log2(2.0 + sources)), len(self.p))
        self.p = np.minimum(1.0 - (1.0 - self.p) * np.exp(here + there), MOST)
        below = float((logit < self.level).mean())
        self.level = max(0.0, self.level + RATE * (QUANTILE - below))


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
