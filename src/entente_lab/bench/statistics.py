"""Means over seeds, and what may be said about a difference between two methods.

Every method sees the same seeds, so two methods are compared seed by seed: the interval is that of
the mean of the paired differences (Student's t). A method is called better only when the whole
interval is on its side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

FEWEST = 5
"""Seeds without which nothing is called better or worse, whatever the interval."""
Verdict = Literal["better", "worse", "equal", "no difference shown", "too few seeds"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and sample standard deviation; `failed` runs are counted and not averaged."""

    mean: float | None
    std: float | None
    runs: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean of (ours - theirs) over common seeds, with its confidence interval."""

    difference: float | None
    low: float | None
    high: float | None
    seeds: int
    verdict: Verdict
    confidence: float = 0.95


def summarise(values: Sequence[float | None]) -> Summary:
    """None stands for a run that failed or whose figure is undefined."""
    known = np.array([v for v in values if v is not None], dtype=np.float64)
    failed = len(values) - len(known)
    if not len(known):
        return Summary(None, None, 0, failed)
    std = float(known.std(ddof=1)) if len(known) > 1 else None
    return Summary(float(known.mean()), std, len(known), failed)


def compare(
    ours: Mapping[int, float | None], theirs: Mapping[int, float | None], confidence: float = 0.95
) -> Comparison:
    """Compare two methods by their figure per seed."""
    differences = [
        a - b
        for seed in sorted(set(ours) & set(theirs))
        if (a := ours[seed]) is not None and (b := theirs[seed]) is not None
    ]
    count = len(differences)
    if not count:
        return Comparison(None, None, None, 0, "too few seeds", confidence)
    mean = math.fsum(differences) / count
    if count < 2:
        return Comparison(mean, None, None, count, "too few seeds", confidence)
    half = half_width(differences, confidence)
    low, high = mean - half, mean + half
    if count < FEWEST and low != high:
        verdict: Verdict = "too few seeds"
    elif low > 0:
        verdict = "better"
    elif high < 0:
        verdict = "worse"
    else:
        verdict = "equal" if low == high == 0 else "no difference shown"
    return Comparison(mean, low, high, count, verdict, confidence)


def half_width(values: Sequence[float], confidence: float = 0.95) -> float:
    """Half the width of Student's t interval for the mean of at least two values."""
    from scipy.stats import t

    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(t.ppf(0.5 + confidence / 2, len(values) - 1)) * spread


def ranked(means: Mapping[str, float | None]) -> tuple[set[str], set[str]]:
    """Names with the best and with the second-best mean; ties share a place."""
    levels = sorted({value for value in means.values() if value is not None}, reverse=True)
    best = {name for name, value in means.items() if levels and value == levels[0]}
    second = {name for name, value in means.items() if len(levels) > 1 and value == levels[1]}
    return best, second
