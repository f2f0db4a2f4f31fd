"""Sums over updates in float64, one cache-sized piece at a time: memory stays near two models, not K.

Nothing here calls BLAS, einsum included (it multiplies and sums in one go, in numpy itself): the number of
threads does not change a bit of the result.
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
PIECE = 32768
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
        self._given, self._base = np.empty(PIECE), np.empty(PIECE)
        self._square = 0.0
        for group in self._pieces:
            for piece in group:
                base = self._load(self._base, current[piece])
                self._square += _dot(base, base)

    def measure(self, vector: Vector) -> Geometry:
        """Norm and direction of an update; RefusedError if it is not finite."""
        along = 0.0  # update times global model
        norms = []
        for group in self._pieces:
            square = 0.0
            for piece in group:
                base = self._load(self._base, self.current[piece])
                delta = self._load(self._given, vector[piece])
                np.subtract(delta, base, out=delta)
                square += _dot(delta, delta)
                along += _dot(delta, base)
            norms.append(square)
        whole = sum(norms)
        if not math.isfinite(whole):
            raise RefusedError("weights are not finite")
        # w^k = w_i + update, so both products of the cosine follow from two sums.
        length = math.sqrt(max(0.0, self._square + 2 * along + whole)) * math.sqrt(self._square)
        cosine = (self._square + along) / length if length > 0 else 0.0
        return Geometry(tuple(math.sqrt(square) for square in norms), max(-1.0, min(1.0, cosine)))

    def add(self, vector: Vector, scales: Sequence[float]) -> None:
        for index, scale in enumerate(scales):
            for piece in self._pieces[index]:
                scaled = self._load(self._given, vector[piece])
                if scale != 1.0:
                    np.multiply(scaled, scale, out=scaled)
                total = self._total[piece]
                np.add(total, scaled, out=total)
            self._scales[index] += scale

    def step(self, divisor: float) -> Float64:
        """The sum divided; the summation is used up by it."""
        for index, group in enumerate(self._pieces):
            for piece in group:
                base = self._load(self._base, self.current[piece])
                np.multiply(base, self._scales[index], out=base)
                total = self._total[piece]
                np.subtract(total, base, out=total)
        np.divide(self._total, divisor, out=self._total)
        return self._total

    @staticmethod
    def _load(buffer: Float64, values: Vector) -> Float64:
        part = buffer[: len(values)]
        np.copyto(part, values)
        return part


def _dot(left: Float64, right: Float64) -> float:
    return float(np.einsum("i,i->", left, right))


def pieces(span: slice) -> list[slice]:
    """A span cut into pieces that fit a processor's cache."""
    return [slice(at, min(at + PIECE, span.stop)) for at in range(span.start, span.stop, PIECE)]


def moved(current: Vector, step: Float64) -> Vector:
    """w_i + step as float32, held inside float32's range so that the global model stays finite."""
    result = np.empty_like(current)
    for piece in pieces(slice(0, len(current))):
        result[piece] = np.clip(current[piece] + step[piece], -LARGEST, LARGEST)
    return result
