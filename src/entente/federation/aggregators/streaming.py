"""Sums over updates in float64, one cache-sized piece at a time: memory stays near two models, not K.

Only element-wise operations and numpy's pairwise sum are used, no BLAS: the number of threads or the
kind of processor does not change a bit of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.errors import RefusedError
from entente.federation.aggregators.base import Vector

Float64 = NDArray[np.float64]
PIECE = 16384
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where one silo's weights lie, seen from the global model."""

    norms: tuple[float, ...]  # of the update, per group
    cosine: float  # of the two models; 0 where one of them is zero

    @property
    def norm(self) -> float:
        return math.hypot(*self.norms)


class Summation:
    """The sum over silos of scale * (w^k - w_i); each group of spans may have its own scale."""

    def __init__(self, current: Vector, groups: Sequence[Sequence[slice]] | None = None) -> None:
        self.current = current
        chosen = [[slice(0, len(current))]] if groups is None else groups
        self._pieces = [[piece for span in spans for piece in pieces(span)] for spans in chosen]
        self._total: Float64 = np.zeros(len(current))  # of scale * w^k
        self._scales = [0.0] * len(self._pieces)
        self._left, self._right = np.empty(PIECE), np.empty(PIECE)
        self._square = sum(self._dot(self._load(piece), None) for group in self._pieces for piece in group)

    def measure(self, vector: Vector) -> Geometry:
        """Norm and direction of an update; RefusedError if it is not finite."""
        own = mixed = 0.0
        norms = []
        for group in self._pieces:
            square = 0.0
            for piece in group:
                base = self._load(piece)
                given = self._left[: len(base)]
                np.copyto(given, vector[piece])
                own += self._dot(given, None)
                mixed += self._dot(given, base)
                np.subtract(given, base, out=given)
                square += self._dot(given, None)
            norms.append(math.sqrt(square) if square < math.inf else square)
        if not all(math.isfinite(value) for value in (own, *norms)):
            raise RefusedError("weights are not finite")
        length = math.sqrt(own) * math.sqrt(self._square)
        return Geometry(tuple(norms), max(-1.0, min(1.0, mixed / length)) if length > 0 else 0.0)

    def add(self, vector: Vector, scales: Sequence[float]) -> None:
        for index, scale in enumerate(scales):
            for piece in self._pieces[index]:
                scaled = self._left[: piece.stop - piece.start]
                np.copyto(scaled, vector[piece])
                np.multiply(scaled, scale, out=scaled)
                np.add(self._total[piece], scaled, out=self._total[piece])
            self._scales[index] += scale

    def step(self, divisor: float) -> Float64:
        """The sum divided; the summation is used up by it."""
        for index, group in enumerate(self._pieces):
            for piece in group:
                base = self._load(piece)
                np.multiply(base, self._scales[index], out=base)
                np.subtract(self._total[piece], base, out=self._total[piece])
        np.divide(self._total, divisor, out=self._total)
        return self._total

    def _load(self, piece: slice) -> Float64:
        buffer = self._right[: piece.stop - piece.start]
        np.copyto(buffer, self.current[piece])
        return buffer

    @staticmethod
    def _dot(left: Float64, right: Float64 | None) -> float:
        return float(np.add.reduce(left * (left if right is None else right)))


def pieces(span: slice) -> list[slice]:
    """A span cut into pieces that fit a processor's cache."""
    return [slice(at, min(at + PIECE, span.stop)) for at in range(span.start, span.stop, PIECE)]


def moved(current: Vector, step: Float64) -> Vector:
    """w_i + step as float32, held inside float32's range so that the global model stays finite."""
    result = np.empty_like(current)
    for piece in pieces(slice(0, len(current))):
        result[piece] = np.clip(current[piece] + step[piece], -LARGEST, LARGEST)
    return result
