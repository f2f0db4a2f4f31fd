"""Which embeddings really have to be computed: the receivers of each window, and one idle row per host.

A host that receives no edge in a window gets nothing but its own self loop, so its graph embedding is
the same in all such windows. All windows are laid out as one table: one row per (window, receiver),
then one *idle* row per host. This is exact, and most rows of the plain [windows x hosts] table are idle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from entente.graphs.temporal import Int32, Int64, TemporalGraph

BLOCK = 1024
"""Hosts that go through time together: their gates stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowLayout:
    """Edges of all windows, grouped by receiving row; rows are sorted by (block of hosts, window, host)."""

    windows: int
    nodes: int
    keys: Int64  # [rows], ascending; see `_keys`
    row_node: Int64  # [rows]: the receiving host
    block_starts: Int64  # [blocks * windows + 1]: rows of block b in window t begin at [b * windows + t]
    starts: Int64  # [rows + 1]: edges into row r are starts[r]:starts[r + 1]
    sender: Int64  # [edges]: the sending host
    sender_row: Int64  # [edges]: its row in the table of receivers and idle hosts
    weight: NDArray[np.float32]  # [edges]: log2(1 + events), so that one event weighs 1

    @property
    def rows(self) -> int:
        return len(self.row_node)

    @property
    def blocks(self) -> int:
        return -(-self.nodes // BLOCK)

    def position(self, window: Int64, node: Int64) -> Int64:
        """The row of the table that holds a host's graph embedding in a window."""
        return _position(self.keys, _keys(window, node, self.windows), node)


def lay_out(
    window: Int64, src: Int32, dst: Int32, weight: NDArray[np.float32], windows: int, nodes: int
) -> WindowLayout:
    """Lay out the edges of `windows` windows among `nodes` hosts."""
    sender, receiver = src.astype(np.int64), dst.astype(np.int64)
    edge_keys = _keys(window, receiver, windows)
    order = np.argsort(edge_keys, kind="stable")
    edge_keys, window, sender = edge_keys[order], window[order], sender[order]
    first = np.ones(len(edge_keys), dtype=np.bool_)
    first[1:] = edge_keys[1:] != edge_keys[:-1]
    keys = edge_keys[first]
    blocks = -(-nodes // BLOCK)
    return WindowLayout(
        windows=windows,
        nodes=nodes,
        keys=keys,
        row_node=receiver[order][first],
        block_starts=np.searchsorted(keys, np.arange(blocks * windows + 1) * BLOCK).astype(np.int64),
        starts=np.append(np.flatnonzero(first), len(edge_keys)).astype(np.int64),
        sender=sender,
        sender_row=_position(keys, _keys(window, sender, windows), sender),
        weight=np.log2(1.0 + weight[order].astype(np.float64)).astype(np.float32),
    )


def lay_out_graph(graph: TemporalGraph) -> WindowLayout:
    """All windows and all hosts of a graph."""
    weight = graph.weight if graph.strength is None else graph.strength
    return lay_out(graph.window_of_edge(), graph.src, graph.dst, weight, graph.num_windows, graph.num_nodes)


def _keys(window: Int64, node: Int64, windows: int) -> Int64:
    return (node // BLOCK * windows + window) * BLOCK + node % BLOCK


def _position(keys: Int64, wanted: Int64, node: Int64) -> Int64:
    if not len(keys):
        return node.astype(np.int64)
    row = np.searchsorted(keys, wanted)
    received = keys[np.minimum(row, len(keys) - 1)] == wanted
    return np.where(received, row, len(keys) + node)


def indices(values: Int64) -> torch.Tensor:
    """A torch index of a numpy one."""
    return torch.from_numpy(np.ascontiguousarray(values))
