"""Weisfeiler–Lehman histograms and how alike two of them are.

Labels are 64-bit hashes that mean the same in every graph (never numbers handed out per graph), so
two silos' histograms can be compared. A node's next label hashes its own label and the *sum* of its
neighbours' hashed labels: a sum does not depend on order, so nothing has to be sorted, and two
different multisets collide with a chance of about 2^-64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from entente.errors import ConfigError
from entente.federation.reference import UInt64, mix
from entente.graphs.temporal import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often each label occurs: for every iteration ascending labels and their counts."""

    iterations: tuple[tuple[UInt64, Int64], ...]

    @property
    def total(self) -> int:
        return sum(int(counts.sum()) for _, counts in self.iterations)


def sketch(
    src: NDArray[np.integer], dst: NDArray[np.integer], labels: str = "log-degree", iterations: int = 3
) -> Histogram:
    """The histogram of the undirected simple graph behind the edges; hosts without an edge do not count."""
    graph = _adjacency(src, dst)
    degrees = np.diff(graph.indptr) + np.bincount(graph.indices, minlength=graph.shape[0])
    linked = degrees > 0
    current = mix(first_labels(degrees.astype(np.uint64), labels))
    found = [np.unique(current[linked], return_counts=True)]
    for depth in range(1, iterations + 1):
        hashed = mix(current)
        around = graph @ hashed + graph.T @ hashed
        current = mix(mix(current + np.uint64(depth)) ^ mix(around))
        found.append(np.unique(current[linked], return_counts=True))
    return Histogram(tuple(found))


def first_labels(degrees: UInt64, labels: str) -> UInt64:
    """Labels at depth 0: the degree itself, or its binary order of magnitude (1, 2-3, 4-7, ...)."""
    if labels == "degree":
        return degrees
    if labels == "log-degree":
        return (np.frexp(degrees.astype(np.float64))[1] - 1).astype(np.uint64)
    raise ConfigError(f"unknown first labels {labels!r}", remedy="Known: degree, log-degree.")


def jaccard(one: Histogram, other: Histogram) -> float:
    """Generalised Jaccard similarity, sum of minima over sum of maxima; 0 for two empty histograms."""
    shared = 0
    for (ours, counts), (theirs, others) in zip(one.iterations, other.iterations, strict=True):
        _, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        shared += int(np.minimum(counts[left], others[right]).sum())
    largest = one.total + other.total - shared
    return shared / largest if largest else 0.0


def _adjacency(src: NDArray[np.integer], dst: NDArray[np.integer]) -> Any:
    """Half of the adjacency matrix, every pair once (higher host, lower host), with 1 modulo 2^64 in it.

    Transposing a sparse matrix is a counting sort. Done twice, first by the lower host and then by the
    higher, it sorts the pairs in linear time.
    """
    apart = src != dst
    if not apart.all():
        src, dst = src[apart], dst[apart]
    low, high = np.minimum(src, dst).astype(np.int32), np.maximum(src, dst).astype(np.int32)
    pairs, hosts = len(low), int(high.max()) + 1 if len(high) else 1
    here = np.ones(pairs, dtype=np.int8)
    by_low = csr_array((here, low, np.arange(pairs + 1, dtype=np.int32)), shape=(pairs, hosts)).tocsc()
    by_high = csr_array((here, high.take(by_low.indices), by_low.indptr), shape=(hosts, hosts)).tocsc()
    lower, starts = by_high.indices, by_high.indptr
    new = np.ones(pairs, dtype=bool)
    np.not_equal(lower[1:], lower[:-1], out=new[1:])
    new[starts[:-1][starts[:-1] < pairs]] = True
    if not new.all():
        starts = np.append(0, np.cumsum(new))[starts]
        lower = lower[new]
    return csr_array((np.ones(len(lower), dtype=np.uint64), lower, starts), shape=(hosts, hosts))
