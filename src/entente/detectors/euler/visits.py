"""A recurrence whose hosts move on only in windows in which they have an edge.

A host that does nothing keeps its state, so only *visits*, the (window, host) pairs of the graph's edges,
are computed: on a real log about one host-window in ten. A host that has not been met yet is what its
identity says: its first state is its idle row of the encoder. So it does not matter how long nobody knew of
it, or how a log is cut into calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entente.detectors.euler.cells import Cell, States
from entente.detectors.euler.layout import BLOCK, WindowLayout, indices
from entente.graphs.temporal import Int64, distinct

ROWS_AT_ONCE = 4096
"""Visits whose gates are held at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits sorted by (window, host); behind them, in the table of states, one first state per host."""

    windows: int
    nodes: int
    starts: list[int]  # visits of window t are starts[t]:starts[t + 1]
    encoded: Tensor  # [visits]: the encoder's row of each
    before: Tensor  # [visits]: the row of the state that each begins with
    last: Tensor  # [hosts]: the row of the state that each host ends with
    _keys: Int64  # host * windows + window, ascending
    _rows: Int64  # the visit behind each key

    def __len__(self) -> int:
        return len(self.encoded)

    def position(self, window: Int64, node: Int64) -> Int64:
        """The row of the state that a host has after a window; window -1 is before the first."""
        found = np.searchsorted(self._keys, node * self.windows + window, side="right") - 1
        own = found >= 0
        own[own] = self._keys[found[own]] // self.windows == node[own]
        rows = node + len(self)
        rows[own] = self._rows[found[own]]
        return rows

    def stretches(self) -> Iterator[range]:
        """Consecutive windows with about ROWS_AT_ONCE visits."""
        first = 0
        for t in range(1, self.windows + 1):
            if t == self.windows or self.starts[t + 1] - self.starts[first] > ROWS_AT_ONCE:
                yield range(first, t)
                first = t


def visits_of(layout: WindowLayout) -> Visits:
    """All windows in which a host sends or receives."""
    windows, nodes = max(layout.windows, 1), layout.nodes
    received = layout.keys // BLOCK - layout.row_node // BLOCK * layout.windows
    sent = np.repeat(received, np.diff(layout.starts))
    visits = distinct(np.concatenate((received * nodes + layout.row_node, sent * nodes + layout.sender)))
    window, node = visits // max(nodes, 1), visits % max(nodes, 1)
    rows = np.lexsort((window, node))
    keys = (node * windows + window)[rows]
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = node[rows][1:] != node[rows][:-1]
    before = np.empty(len(rows), dtype=np.int64)
    before[rows] = np.where(first, len(rows) + node[rows], np.roll(rows, 1))
    last = np.arange(nodes, dtype=np.int64) + len(rows)
    last[node[rows]] = rows  # of a host's visits the latest is written last
    return Visits(
        windows=windows,
        nodes=nodes,
        starts=np.searchsorted(window, np.arange(windows + 1)).tolist(),
        encoded=indices(layout.position(window, node)),
        before=indices(before),
        last=indices(last),
        _keys=keys,
        _rows=rows,
    )


class Walk(torch.autograd.Function):
    """States after every visit, followed by the hosts' first states."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        visits: Visits,
        x: Tensor,
        w_input: Tensor,
        w_hidden: Tensor,
        b_input: Tensor,
        b_hidden: Tensor,
        *first: Tensor,
    ) -> States:
        width = w_hidden.shape[1]
        tables = tuple(torch.cat((x.new_empty(len(visits), width), state)) for state in first)
        for windows in visits.stretches():
            offset = visits.starts[windows.start]
            rows = slice(offset, visits.starts[windows.stop])
            given = torch.addmm(b_input, x.index_select(0, visits.encoded[rows]), w_input.T)
            for t in windows:
                here = slice(visits.starts[t], visits.starts[t + 1])
                states = tuple(table.index_select(0, visits.before[here]) for table in tables)
                from_hidden = torch.addmm(b_hidden, states[0], w_hidden.T)
                from_input = given[here.start - offset : here.stop - offset]
                cell.step(from_input, from_hidden, states, tuple(table[here] for table in tables))
        ctx.cell, ctx.visits = cell, visits
        ctx.save_for_backward(x, w_input, w_hidden, b_input, b_hidden, *tables)
        ctx.mark_non_differentiable(*tables[1:])
        return tables

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        cell, visits = ctx.cell, ctx.visits
        x, w_input, w_hidden, b_input, b_hidden, *tables = ctx.saved_tensors
        reached = [gradients[0].clone(), *(torch.zeros_like(table) for table in tables[1:])]
        dx = torch.zeros_like(x)
        dw_input, dw_hidden = torch.zeros_like(w_input), torch.zeros_like(w_hidden)
        db_input, db_hidden = torch.zeros_like(b_input), torch.zeros_like(b_hidden)
        for windows in reversed(list(visits.stretches())):
            offset = visits.starts[windows.start]
            rows = slice(offset, visits.starts[windows.stop])
            encoded = x.index_select(0, visits.encoded[rows])
            states = tuple(table.index_select(0, visits.before[rows]) for table in tables)
            slopes = cell.slopes(
                torch.addmm(b_input, encoded, w_input.T),
                torch.addmm(b_hidden, states[0], w_hidden.T),
                states,
                tuple(table[rows] for table in tables),
            )
            to_hidden = w_hidden.new_empty(len(encoded), len(w_hidden))
            for t in reversed(windows):
                here = slice(visits.starts[t], visits.starts[t + 1])
                part = slice(here.start - offset, here.stop - offset)
                earlier = cell.step_back(
                    tuple(slope[part] for slope in slopes),
                    tuple(table[here] for table in reached),
                    to_hidden[part],
                )
                earlier[0].addmm_(to_hidden[part], w_hidden)
                for table, gradient in zip(reached, earlier, strict=True):
                    table.index_add_(0, visits.before[here], gradient)
            to_input = cell.to_input(slopes, reached[0][rows], to_hidden)
            dw_hidden.addmm_(to_hidden.T, states[0])
            db_hidden += to_hidden.sum(dim=0)
            dw_input.addmm_(to_input.T, encoded)
            db_input += to_input.sum(dim=0)
            dx.index_add_(0, visits.encoded[rows], to_input @ w_input)
        weights = (dw_input, dw_hidden, db_input, db_hidden)
        return (None, None, dx, *weights, *(table[len(visits) :] for table in reached))
