"""Edge scores seen per host or per snapshot."""

from __future__ import annotations

from typing import Literal

import numpy as np

from entente.graphs.temporal import Float32, Int64, TemporalGraph

Summary = Literal["max", "mean"]


def node_scores(
    graph: TemporalGraph, scores: Float32, summary: Summary = "max"
) -> tuple[Int64, Int64, Float32]:
    """Window, host and score of every host that has an edge in a window, sorted by (window, host).

    A host's score sums up the scores of the edges it sends or receives: the largest, or their mean.
    """
    window = graph.window_of_edge()
    ends = np.concatenate((window * graph.num_nodes + graph.src, window * graph.num_nodes + graph.dst))
    keys, place = np.unique(ends, return_inverse=True)
    values = _summed_up(place.astype(np.int64), np.concatenate((scores, scores)), len(keys), summary)
    nodes = max(graph.num_nodes, 1)
    return keys // nodes, keys % nodes, values


def snapshot_scores(graph: TemporalGraph, scores: Float32, summary: Summary = "max") -> Float32:
    """The score of every window; 0 for a window without edges, which has nothing unexpected in it."""
    return _summed_up(graph.window_of_edge(), scores, graph.num_windows, summary)


def _summed_up(place: Int64, scores: Float32, size: int, summary: Summary) -> Float32:
    result = np.zeros(size, dtype=np.float32)
    if summary == "mean":
        counts = np.maximum(np.bincount(place, minlength=size), 1)
        result[:] = np.bincount(place, weights=scores, minlength=size) / counts
        return result
    result[place] = -np.inf
    np.maximum.at(result, place, scores)
    return result
