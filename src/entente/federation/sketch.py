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
    each = np.ones(graph.shape[0], dtype=np.uint64)
    degrees = graph @ each + graph.T @ each
    linked = degrees > 0
    current = mix(first_labels(degrees, labels))
    found = [np.unique(current[linked], return_counts=True)]
    for depth in range(1, iterations + 1):
        hashed = mix(current)
        around = graph @ hashed + graph.T @ hashed
        current = mix(mix(current + np.uint64(depth)) ^ mix(around))
        found.append(np.unique(current[linked], return_counts=True))
    return Histogram(tuple(found))


def first_labels(degrees: UInt64, labels: str) -> UInt64:
    """Labels at depth 0: the degree, its order of magnitude (1, 2-3, 4-7, ...), or its class in the graph.

    The classes are relative: below the median degree, up to four times it, above. A large graph and a small
    one of the same shape then have the same labels.
    """
    if labels == "degree":
        return degrees
    if labels == "log-degree":
        return (np.frexp(degrees.astype(np.float64))[1] - 1).astype(np.uint64)
    if labels == "relative-degree":
        linked = degrees[degrees > 0]
        middle = float(np.median(linked)) if len(linked) else 1.0
        return (degrees >= middle).astype(np.uint64) + (degrees > 4.0 * middle).astype(np.uint64)
    raise ConfigError(
        f"unknown first labels {labels!r}", remedy="Known: degree, log-degree, relative-degree."
    )


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

    A pair is one number, its higher host in the upper bits, so that a plain sort brings the rows into
    order and equal pairs together.
    """
    apart = src != dst
    if not apart.all():
        src, dst = src[apart], dst[apart]
    hosts = max(int(src.max()), int(dst.max())) + 1 if len(src) else 1
    bits = hosts.bit_length()
    kind: Any = np.uint32 if 2 * bits <= 32 else np.uint64
    pairs = np.maximum(src, dst).astype(kind)
    pairs <<= kind(bits)
    pairs |= np.minimum(src, dst).astype(kind)
    pairs.sort()
    repeated = pairs[1:] == pairs[:-1]
    if repeated.any():
        pairs = np.delete(pairs, np.flatnonzero(repeated))
    starts = np.searchsorted(pairs, np.arange(hosts + 1, dtype=kind) << kind(bits))
    pairs &= kind((1 << bits) - 1)
    indices = pairs.astype(np.int32), starts.astype(np.int32)
    return csr_array((np.ones(len(pairs), dtype=np.uint64), *indices), shape=(hosts, hosts))
