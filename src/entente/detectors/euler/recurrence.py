"""A recurrence over hosts and windows, exact and lean.

By visit (see `euler_visits`), or in every window, as published. For the latter: hosts are independent, so a
block of them goes through all windows while its gates stay in the cache. An idle host's input gates are
computed once, not once per window. Only the hidden states are kept for the backward pass, which recomputes
the gates of a window from the state before it: memory per window is one state and one embedding per host,
however long the history. The projection of a state to an embedding is part of the same walk, so that its
gradients never exist for all windows at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from entente.detectors.euler.cells import CELLS, Cell, States
from entente.detectors.euler.layout import BLOCK, WindowLayout, indices
from entente.detectors.euler.visits import Visits, Walk


class _Blocks:
    """The hosts of each block, and which rows of the table are theirs in each window."""

    def __init__(self, layout: WindowLayout) -> None:
        self.layout = layout
        self.local = indices(layout.row_node % BLOCK)
        self.starts: list[int] = layout.block_starts.tolist()

    def __iter__(self) -> Iterator[tuple[slice, slice, list[int]]]:
        """Hosts, rows, and the starts of each window's rows within the block's rows."""
        for block in range(self.layout.blocks):
            first = block * self.layout.windows
            starts = self.starts[first : first + self.layout.windows + 1]
            hosts = slice(block * BLOCK, min((block + 1) * BLOCK, self.layout.nodes))
            yield hosts, slice(starts[0], starts[-1]), [start - starts[0] for start in starts]


class _Recur(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        layout: WindowLayout,
        x: Tensor,
        w_input: Tensor,
        w_hidden: Tensor,
        b_input: Tensor,
        b_hidden: Tensor,
        w_out: Tensor,
        b_out: Tensor,
        *initial: Tensor,
    ) -> States:
        width, received = w_hidden.shape[1], layout.rows
        z = x.new_empty(layout.windows, layout.nodes, len(w_out))
        history = tuple(x.new_empty(layout.windows, layout.nodes, width) for _ in initial)
        blocks = _Blocks(layout)
        for hosts, rows, starts in blocks:
            idle = torch.addmm(b_input, x[received:][hosts], w_input.T)
            active = torch.addmm(b_input, x[rows], w_input.T)
            local = blocks.local[rows]
            states = tuple(state[hosts] for state in initial)
            for t in range(layout.windows):
                low, high = starts[t], starts[t + 1]
                from_input = idle
                if high > low:
                    from_input = idle.index_copy(0, local[low:high], active[low:high])
                from_hidden = torch.addmm(b_hidden, states[0], w_hidden.T)
                after = tuple(whole[t, hosts] for whole in history)
                cell.step(from_input, from_hidden, states, after)
                states = after
                torch.addmm(b_out, states[0], w_out.T, out=z[t, hosts])
        ctx.cell, ctx.blocks = cell, blocks
        ctx.save_for_backward(x, w_input, w_hidden, b_input, b_hidden, w_out, *initial, *history)
        ctx.mark_non_differentiable(*history)
        return z, *history

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        cell, blocks = ctx.cell, ctx.blocks
        x, w_input, w_hidden, b_input, b_hidden, w_out, *saved = ctx.saved_tensors
        initial, history = saved[: cell.states], saved[cell.states :]
        received = blocks.layout.rows
        dx = torch.empty_like(x)
        dw_input, dw_hidden = torch.zeros_like(w_input), torch.zeros_like(w_hidden)
        db_input, db_hidden = torch.zeros_like(b_input), torch.zeros_like(b_hidden)
        dw_out, db_out = torch.zeros_like(w_out), w_out.new_zeros(len(w_out))
        for hosts, rows, starts in blocks:
            x_idle, x_active, local = x[received:][hosts], x[rows], blocks.local[rows]
            idle = torch.addmm(b_input, x_idle, w_input.T)
            active = torch.addmm(b_input, x_active, w_input.T)
            d_idle, d_active = torch.zeros_like(idle), torch.empty_like(active)
            d_states = tuple(torch.zeros_like(state[hosts]) for state in initial)
            states = tuple(whole[-1, hosts] for whole in history)
            for t in reversed(range(blocks.layout.windows)):
                low, high = starts[t], starts[t + 1]
                chosen = local[low:high]
                after = states
                states = (
                    tuple(whole[t - 1, hosts] for whole in history)
                    if t
                    else tuple(state[hosts] for state in initial)
                )
                dz = gradients[0][t, hosts]
                dw_out.addmm_(dz.T, after[0])
                db_out += dz.sum(dim=0)
                d_states = (d_states[0].addmm_(dz, w_out), *d_states[1:])
                from_input = idle.index_copy(0, chosen, active[low:high]) if high > low else idle
                from_hidden = torch.addmm(b_hidden, states[0], w_hidden.T)
                slopes = cell.slopes(from_input, from_hidden, states, after)
                to_hidden, dh = torch.empty_like(from_hidden), d_states[0]
                d_states = cell.step_back(slopes, d_states, to_hidden)
                to_input = cell.to_input(slopes, dh, to_hidden)
                dw_hidden.addmm_(to_hidden.T, states[0])
                db_hidden += to_hidden.sum(dim=0)
                d_states = (d_states[0].addmm_(to_hidden, w_hidden), *d_states[1:])
                if high > low:
                    torch.index_select(to_input, 0, chosen, out=d_active[low:high])
                    to_input = to_input.index_fill(0, chosen, 0.0)
                d_idle += to_input
            dw_input.addmm_(d_active.T, x_active).addmm_(d_idle.T, x_idle)
            db_input += d_active.sum(dim=0) + d_idle.sum(dim=0)
            torch.mm(d_active, w_input, out=dx[rows])
            dx[received:][hosts] = d_idle @ w_input
        weights = (dw_input, dw_hidden, db_input, db_hidden, dw_out, db_out)
        return (None, None, dx, *weights, *([None] * len(initial)))


class Recurrence(nn.Module):
    """A recurrent layer over a layout's windows; parameters as in torch.nn.GRU and torch.nn.LSTM."""

    def __init__(self, kind: str, inputs: int, width: int) -> None:
        super().__init__()
        self.cell = CELLS[kind]
        rows, bound = self.cell.gates * width, width**-0.5
        self.weight_ih = nn.Parameter(torch.empty(rows, inputs).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(rows, width).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(rows).uniform_(-bound, bound))

    @property
    def _weights(self) -> States:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def by_window(
        self, x: Tensor, layout: WindowLayout, initial: States, projection: nn.Linear
    ) -> tuple[Tensor, States]:
        """Every host moves on in every window: projected states by window and host, and the last states.

        `x`: receivers' rows, then idle hosts' rows.
        """
        z, *history = _Recur.apply(  # type: ignore[no-untyped-call]
            self.cell, layout, x, *self._weights, projection.weight, projection.bias, *initial
        )
        return z.flatten(0, 1), tuple(states[-1] for states in history)

    def by_visit(
        self, x: Tensor, visits: Visits, initial: States, projection: nn.Linear
    ) -> tuple[Tensor, States]:
        """Hosts move on when they have an edge: projected states by row of `visits`, and the last states.

        A state of zero in `initial` is that of a host nobody has met; it begins, and ends, as its idle row.
        """
        unmet = ~torch.stack([(state != 0).any(dim=1) for state in initial]).any(dim=0, keepdim=True).T
        first = (torch.where(unmet, x[len(x) - visits.nodes :], initial[0]), *initial[1:])
        tables = Walk.apply(self.cell, visits, x, *self._weights, *first)  # type: ignore[no-untyped-call]
        known = ~unmet | (visits.last < len(visits))[:, None]
        after = tuple(table.index_select(0, visits.last) * known for table in tables)
        return projection(tables[0]), after
