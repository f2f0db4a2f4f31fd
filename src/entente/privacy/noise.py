"""Clipping and noise as two small steps that go before and after any aggregation rule."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


def clip(vector: Vector, current: Vector, bound: float) -> tuple[Vector, float]:
    """`vector` with its distance from `current` cut to `bound`, and the distance it had."""
    delta = vector.astype(np.float64) - current
    norm = math.sqrt(float(np.add.reduce(delta * delta)))
    if norm <= bound:
        return vector, norm
    # One part in 10^6 less, so that rounding to float32 does not carry the update over the bound.
    return (current + delta * (bound * (1 - 1e-6) / norm)).astype(np.float32), norm


def perturb(vector: Vector, deviation: float, rng: np.random.Generator) -> Vector:
    """`vector` plus independent Gaussian noise of the given standard deviation."""
    limit = float(np.finfo(np.float32).max)
    noisy = vector + rng.normal(0.0, deviation, size=vector.shape)
    return np.clip(noisy, -limit, limit).astype(np.float32)
