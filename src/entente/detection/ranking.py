"""A ranking by score, from the highest down; rows with equal scores are one step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ranking:
    """The steps that hold a malicious row; no other step changes AP, AUC or a precision at a recall.

    Only values are sorted, never the rows themselves: tens of millions of edges take seconds.
    """

    rows: int
    found: Ints
    """Malicious rows down to the end of each step, from the highest score down."""
    taken: Ints
    """All rows down to the end of each step."""
    tied: Ints
    """Rows in each step."""

    @classmethod
    def of(cls, score: Floats, truth: Bools) -> Ranking:
        ordered, malicious = np.sort(score), np.sort(score[truth])
        steps = np.unique(malicious)[::-1]
        first = np.searchsorted(ordered, steps, "left")
        return cls(
            rows=len(score),
            found=len(malicious) - np.searchsorted(malicious, steps, "left"),
            taken=len(score) - first,
            tied=np.searchsorted(ordered, steps, "right") - first,
        )

    @cached_property
    def positives(self) -> int:
        return int(self.found[-1]) if len(self.found) else 0

    @cached_property
    def hits(self) -> Ints:
        """Malicious rows in each step."""
        return np.diff(self.found, prepend=0)

    def average_precision(self) -> float | None:
        """Σ (R_n − R_{n−1}) P_n; None without a malicious row."""
        if not self.positives:
            return None
        return float((self.hits * (self.found / self.taken)).sum() / self.positives)

    def area_under_roc(self) -> float | None:
        """Share of (malicious, benign) pairs in the right order, ties half; None without either kind."""
        benign = self.rows - self.positives
        if not self.positives or not benign:
            return None
        level = self.tied - self.hits
        below = benign - (self.taken - self.found)
        return float((self.hits * (below + level / 2)).sum() / self.positives / benign)

    def lift(self) -> float | None:
        """Average precision over the share of malicious rows, which a random order reaches."""
        ap = self.average_precision()
        return None if ap is None else ap * self.rows / self.positives

    def at_half_recall(self) -> tuple[int, int] | None:
        """Malicious and benign rows at or above the highest score that half of the malicious reach."""
        if not self.positives:
            return None
        step = int(np.argmax(2 * self.found >= self.positives))
        found, taken = int(self.found[step]), int(self.taken[step])
        return found, taken - found
