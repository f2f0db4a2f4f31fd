"""GRU and LSTM over every host's windows, exact and lean.

Hosts are independent, so a block of them goes through all windows while its gates stay in the cache.
An idle host's input gates are computed once, not once per window. Only the hidden states are kept for
the backward pass, which recomputes the gates of a window from the state before it: memory per window is
one state and one embedding per host, however long the history. The projection of a state to an embedding
is part of the same walk, so that its gradients never exist for all windows at once.

A host has no past until it is met: it enters every window up to its first edge with a state of zero. So a
newcomer looks the same whenever it comes, and however a log is cut into calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from entente.detectors.euler_layout import BLOCK, Layout, indices

States = tuple[Tensor, ...]


class GRUCell:
    """h' = (1 - z) n + z h, as in torch.nn.GRU (gates r, z, n)."""

    gates: ClassVar[int] = 3
    states: ClassVar[int] = 1

    @staticmethod
    def step(from_input: Tensor, from_hidden: Tensor, states: States) -> States:
        (h,) = states
        _, z, n = GRUCell._gates(from_input, from_hidden, h.shape[1])
        return (torch.lerp(n, h, z),)

    @staticmethod
    def step_back(
        from_input: Tensor, from_hidden: Tensor, states: States, after: States, gradients: States
    ) -> tuple[Tensor, Tensor, States]:
        """Gradients of both gate inputs and of the states before the step."""
        (h,), (dh,), width = states, gradients, states[0].shape[1]
        r, z, n = GRUCell._gates(from_input, from_hidden, width)
        to_input = torch.empty_like(from_input)
        dr, dz, dn = to_input[:, :width], to_input[:, width : 2 * width], to_input[:, 2 * width :]
        keep = dh * z
        torch.mul(dh - keep, 1.0 - n * n, out=dn)
        torch.mul(keep, (h - n).mul_(1.0 - z), out=dz)
        torch.mul(dn, (r * (1.0 - r)).mul_(from_hidden[:, 2 * width :]), out=dr)
        to_hidden = to_input.clone()
        to_hidden[:, 2 * width :] *= r
        return to_input, to_hidden, (keep,)

    @staticmethod
    def _gates(from_input: Tensor, from_hidden: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
        both = torch.sigmoid_(from_input[:, : 2 * width] + from_hidden[:, : 2 * width])
        r, z = both[:, :width], both[:, width:]
        n = torch.addcmul(from_input[:, 2 * width :], r, from_hidden[:, 2 * width :])
        return r, z, _tanh_(n)


class LSTMCell:
    """As in torch.nn.LSTM (gates i, f, g, o); the states are h and c."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    @staticmethod
    def step(from_input: Tensor, from_hidden: Tensor, states: States) -> States:
        _, c = states
        i, f, g, o = LSTMCell._gates(from_input, from_hidden, c.shape[1])
        c = torch.addcmul(f * c, i, g)
        return o * torch.tanh(c), c

    @staticmethod
    def step_back(
        from_input: Tensor, from_hidden: Tensor, states: States, after: States, gradients: States
    ) -> tuple[Tensor, Tensor, States]:
        """Gradients of both gate inputs and of the states before the step."""
        _, c = states
        i, f, g, o = LSTMCell._gates(from_input, from_hidden, c.shape[1])
        dh, dc = gradients
        squashed = torch.tanh(after[1])
        dc = dc + dh * o * (1.0 - squashed * squashed)
        gradient = torch.cat(
            (
                dc * g * i * (1.0 - i),
                dc * c * f * (1.0 - f),
                dc * i * (1.0 - g * g),
                dh * squashed * o * (1.0 - o),
            ),
            dim=1,
        )
        return gradient, gradient, (torch.zeros_like(dh), dc * f)

    @staticmethod
    def _gates(from_input: Tensor, from_hidden: Tensor, width: int) -> States:
        i, f, g, o = (from_input + from_hidden).view(-1, 4, width).unbind(dim=1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


def _tanh_(x: Tensor) -> Tensor:
    """tanh in place as 2 sigmoid(2x) - 1: torch's sigmoid is several times faster on a CPU."""
    return x.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


CELLS: dict[str, type[GRUCell] | type[LSTMCell]] = {"gru": GRUCell, "lstm": LSTMCell}


class _Blocks:
    """The hosts of each block, and which rows of the table are theirs in each window."""

    def __init__(self, layout: Layout) -> None:
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


class _Known:
    """Which hosts of a block have been met before a window; `met` is the window of a host's first edge."""

    def __init__(self, met: Tensor) -> None:
        self._met = met[:, None]
        self._last = int(met.max()) if len(met) else -1

    def before(self, t: int, states: States) -> States:
        """The states, zero for hosts that are not met before window t."""
        if t > self._last:
            return states
        return tuple(state * (self._met < t) for state in states)


class _Recur(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        cell: type[GRUCell] | type[LSTMCell],
        layout: Layout,
        met: Tensor,
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
            known = _Known(met[hosts])
            for t in range(layout.windows):
                low, high = starts[t], starts[t + 1]
                states = known.before(t, states)
                from_input = idle
                if high > low:
                    from_input = idle.index_copy(0, local[low:high], active[low:high])
                from_hidden = torch.addmm(b_hidden, states[0], w_hidden.T)
                states = cell.step(from_input, from_hidden, states)
                for whole, state in zip(history, states, strict=True):
                    whole[t, hosts] = state
                torch.addmm(b_out, states[0], w_out.T, out=z[t, hosts])
        ctx.cell, ctx.blocks, ctx.met = cell, blocks, met
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
            known = _Known(ctx.met[hosts])
            for t in reversed(range(blocks.layout.windows)):
                low, high = starts[t], starts[t + 1]
                chosen = local[low:high]
                after = tuple(whole[t, hosts] for whole in history)
                earlier = [whole[t - 1] for whole in history] if t else initial
                states = known.before(t, tuple(state[hosts] for state in earlier))
                dz = gradients[0][t, hosts]
                dw_out.addmm_(dz.T, after[0])
                db_out += dz.sum(dim=0)
                d_states = (d_states[0].addmm_(dz, w_out), *d_states[1:])
                from_input = idle.index_copy(0, chosen, active[low:high]) if high > low else idle
                from_hidden = torch.addmm(b_hidden, states[0], w_hidden.T)
                to_input, to_hidden, d_states = cell.step_back(
                    from_input, from_hidden, states, after, d_states
                )
                dw_hidden.addmm_(to_hidden.T, states[0])
                db_hidden += to_hidden.sum(dim=0)
                d_states = known.before(t, (d_states[0].addmm_(to_hidden, w_hidden), *d_states[1:]))
                if high > low:
                    torch.index_select(to_input, 0, chosen, out=d_active[low:high])
                    to_input = to_input.index_fill(0, chosen, 0.0)
                d_idle += to_input
            dw_input.addmm_(d_active.T, x_active).addmm_(d_idle.T, x_idle)
            db_input += d_active.sum(dim=0) + d_idle.sum(dim=0)
            torch.mm(d_active, w_input, out=dx[rows])
            dx[received:][hosts] = d_idle @ w_input
        weights = (dw_input, dw_hidden, db_input, db_hidden, dw_out, db_out)
        return (None, None, None, dx, *weights, *([None] * len(initial)))


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

    def forward(
        self, x: Tensor, layout: Layout, met: Tensor, initial: States, projection: nn.Linear
    ) -> tuple[Tensor, States]:
        """Projected states of every window [windows, hosts, outputs], and the states after the last one.

        `x`: receivers' rows, then idle hosts' rows. `met`: the window of each host's first edge; less than
        0 for one that was met before.
        """
        z, *history = _Recur.apply(  # type: ignore[no-untyped-call]
            self.cell,
            layout,
            met,
            x,
            self.weight_ih,
            self.weight_hh,
            self.bias_ih,
            self.bias_hh,
            projection.weight,
            projection.bias,
            *initial,
        )
        return z, _Known(met).before(layout.windows, tuple(states[-1] for states in history))
