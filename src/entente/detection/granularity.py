"""Edge scores as scores of hosts and of whole snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entente.errors import GraphError, UsageError

Endpoint = Literal["src", "dst", "both"]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """One row per (window, host) or per window, sorted; `evaluate` takes its arrays as they are."""

    windows: NDArray[np.int64]
    scores: NDArray[np.float64]
    labels: NDArray[np.bool_] | None  # malicious if one of its edges is
    hosts: NDArray[Any] | None = None


def by_host(
    scores: ArrayLike,
    labels: ArrayLike | None,
    windows: ArrayLike,
    src: ArrayLike,
    dst: ArrayLike,
    top: int = 1,
    endpoint: Endpoint = "both",
) -> Aggregated:
    """Score of a host in a window: the mean of the `top` highest scores of its edges (1 = the maximum)."""
    score, window = np.asarray(scores, dtype=np.float64), np.asarray(windows, dtype=np.int64)
    ends = {"src": (src,), "dst": (dst,), "both": (src, dst)}[endpoint]
    hosts, host = np.unique(np.concatenate([np.asarray(end) for end in ends]), return_inverse=True)
    truth = None if labels is None else np.tile(np.asarray(labels) > 0, len(ends))
    starts, number = np.unique(np.tile(window, len(ends)), return_inverse=True)
    group = number.astype(np.int64) * max(len(hosts), 1) + host
    key, value, label = _reduce(np.tile(score, len(ends)), truth, group, top)
    count = max(len(hosts), 1)
    return Aggregated(starts[key // count], value, label, hosts[key % count])


def by_window(scores: ArrayLike, labels: ArrayLike | None, windows: ArrayLike, top: int = 1) -> Aggregated:
    """Score of a snapshot: the mean of its `top` highest edge scores (1 = the maximum)."""
    truth = None if labels is None else np.asarray(labels) > 0
    key, value, label = _reduce(
        np.asarray(scores, dtype=np.float64), truth, np.asarray(windows, dtype=np.int64), top
    )
    return Aggregated(key, value, label)


def _reduce(
    score: NDArray[np.float64], truth: NDArray[np.bool_] | None, group: NDArray[np.int64], top: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_] | None]:
    if top < 1:
        raise UsageError(f"the mean of the {top} highest scores is not defined", remedy="Use 1 or more.")
    if len(group) != len(score) or (truth is not None and len(truth) != len(score)):
        raise GraphError("scores, labels, windows and hosts differ in length")
    if not len(score):
        return group, score, truth
    order = np.lexsort((-score, group))
    score, group = score[order], group[order]
    first = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    size = np.diff(np.append(first, len(score)))
    rank = np.arange(len(score)) - np.repeat(first, size)
    total = np.add.reduceat(np.where(rank < top, score, 0.0), first)
    label = None if truth is None else np.logical_or.reduceat(truth[order], first)
    return group[first], total / np.minimum(size, top), label
