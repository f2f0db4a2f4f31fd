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
    """How often each label occurs, over all iterations; labels ascend."""

    labels: UInt64
    counts: Int64


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


def _adjacency(src: NDArray[np.integer], dst: NDArray[np.integer]) -> Any:
    """The upper half of the adjacency matrix, every pair once, with 1 modulo 2^64 in it."""
    apart = src != dst
    src, dst = src[apart].astype(np.int32), dst[apart].astype(np.int32)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    nodes = int(high.max()) + 1 if len(high) else 0
    del src, dst, apart
    for _ in range(2):  # by the higher end, then by the lower: a radix sort of pairs
        order = _counting_sort(high, nodes)
        low, high = high.take(order), low.take(order)
    if len(low):
        new = np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))
        low, high = low[new], high[new]
    starts = np.append(0, np.cumsum(np.bincount(low, minlength=nodes)))
    return csr_array((np.ones(len(high), dtype=np.uint64), high, starts), shape=(nodes, nodes))


def _counting_sort(keys: NDArray[np.int32], values: int) -> NDArray[np.integer]:
    """The stable order of keys below `values`, in linear time: a sparse matrix's transposition counts."""
    rows = np.arange(len(keys) + 1)
    matrix = csr_array((np.ones(len(keys), dtype=np.int8), keys, rows), shape=(len(keys), max(1, values)))
    order: NDArray[np.integer] = matrix.tocsc().indices
    return order
