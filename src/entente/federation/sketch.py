"""Weisfeiler–Lehman histograms and how alike two of them are.

Labels are 64-bit hashes that mean the same in every graph (never numbers handed out per graph), so
two silos' histograms can be compared. A node's next label hashes its own label and the *sum* of its
neighbours' hashed labels: a sum does not depend on order, so nothing has to be sorted, and two
different multisets collide with a chance of about 2^-64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entente.errors import ConfigError
from entente.federation.reference import UInt64, mix
from entente.graphs.temporal import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often each label occurs, over all iterations; labels ascend."""

    labels: UInt64
    counts: Int64


def sketch(
    src: NDArray[np.integer], dst: NDArray[np.integer], labels: str = "log-degree", iterations: int = 3
) -> Histogram:
    """The histogram of the undirected simple graph behind the edges; hosts without an edge do not count."""
    starts, neighbours = _neighbours(src, dst)
    degrees = np.diff(np.append(starts, len(neighbours))).astype(np.uint64)
    current = mix(first_labels(degrees, labels))
    found = [np.unique(current, return_counts=True)]
    for depth in range(1, iterations + 1):
        if len(starts):
            around = np.add.reduceat(mix(current)[neighbours], starts)
            current = mix(mix(current + np.uint64(depth)) ^ mix(around))
        found.append(np.unique(current, return_counts=True))
    every = np.concatenate([values for values, _ in found])
    order = np.argsort(every)
    return Histogram(every[order], np.concatenate([counts for _, counts in found])[order])


def first_labels(degrees: UInt64, labels: str) -> UInt64:
    """Labels at depth 0: the degree itself, or its binary order of magnitude (1, 2-3, 4-7, ...)."""
    if labels == "degree":
        return degrees
    if labels == "log-degree":
        return (np.frexp(degrees.astype(np.float64))[1] - 1).astype(np.uint64)
    raise ConfigError(f"unknown first labels {labels!r}", remedy="Known: degree, log-degree.")


def jaccard(one: Histogram, other: Histogram) -> float:
    """Generalised Jaccard similarity, sum of minima over sum of maxima; 0 for two empty histograms."""
    _, left, right = np.intersect1d(one.labels, other.labels, assume_unique=True, return_indices=True)
    shared = int(np.minimum(one.counts[left], other.counts[right]).sum())
    largest = int(one.counts.sum() + other.counts.sum()) - shared
    return shared / largest if largest else 0.0


def _neighbours(src: NDArray[np.integer], dst: NDArray[np.integer]) -> tuple[Int64, NDArray[np.uint32]]:
    """Neighbour lists, one after the other, and where each node's list starts; nodes renumbered densely."""
    apart = src != dst
    left, right = src[apart].astype(np.uint64), dst[apart].astype(np.uint64)
    both = np.concatenate((left << np.uint64(32) | right, right << np.uint64(32) | left))
    del left, right, apart
    both.sort()
    if len(both):
        both = both[np.append(True, both[1:] != both[:-1])]
    node = (both >> np.uint64(32)).astype(np.uint32)
    change = np.append(True, node[1:] != node[:-1]) if len(node) else np.empty(0, dtype=bool)
    starts = np.flatnonzero(change)
    number = np.zeros(int(node[-1]) + 1 if len(node) else 0, dtype=np.uint32)
    number[node[starts]] = np.arange(len(starts), dtype=np.uint32)
    return starts, number[(both & np.uint64(0xFFFFFFFF)).astype(np.uint32)]
