"""GRU and LSTM, one step forward and back, as the two ways of walking through time need them.

Backward, everything that does not hang on the step after is a *slope* and can be computed for many
host-windows at once; `step_back` is the little that has to be done one step after the other.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

States = tuple[Tensor, ...]


class GRUCell:
    """h' = (1 - z) n + z h, as in torch.nn.GRU (gates r, z, n)."""

    gates: ClassVar[int] = 3
    states: ClassVar[int] = 1

    @staticmethod
    def step(from_input: Tensor, from_hidden: Tensor, states: States, out: States) -> None:
        """The states after one step, written to `out`."""
        _, z, n = GRUCell._gates(from_input, from_hidden, states[0].shape[1])
        torch.lerp(n, states[0], z, out=out[0])

    @staticmethod
    def slopes(from_input: Tensor, from_hidden: Tensor, states: States, after: States) -> States:
        """How (r, z, n) seen from the hidden state, n seen from the input, and h follow h'."""
        (h,), width = states, states[0].shape[1]
        r, z, n = GRUCell._gates(from_input, from_hidden, width)
        rest = 1.0 - z
        of_n = (1.0 - n * n).mul_(rest)
        of_z = (h - n).mul_(z).mul_(rest)
        of_r = (1.0 - r).mul_(r).mul_(from_hidden[:, 2 * width :]).mul_(of_n)
        return torch.cat((of_r, of_z, r.mul_(of_n)), dim=1), of_n, z

    @staticmethod
    def step_back(slopes: States, gradients: States, to_hidden: Tensor) -> States:
        """Gradients of the states before, but for what goes through `to_hidden`, which is filled in."""
        by_hidden, _, z = slopes
        (dh,) = gradients
        torch.mul(dh.repeat(1, 3), by_hidden, out=to_hidden)
        return (dh * z,)

    @staticmethod
    def to_input(slopes: States, dh: Tensor, to_hidden: Tensor) -> Tensor:
        """Gradients of the gates as the input sees them: but for n as the hidden state does."""
        given, width = to_hidden.clone(), dh.shape[1]
        torch.mul(dh, slopes[1], out=given[:, 2 * width :])
        return given

    @staticmethod
    def _gates(from_input: Tensor, from_hidden: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
        both = torch.sigmoid_(from_input[:, : 2 * width] + from_hidden[:, : 2 * width])
        r, z = both[:, :width], both[:, width:]
        return r, z, torch.addcmul(from_input[:, 2 * width :], r, from_hidden[:, 2 * width :]).tanh_()


class LSTMCell:
    """As in torch.nn.LSTM (gates i, f, g, o); the states are h and c."""

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2

    @staticmethod
    def step(from_input: Tensor, from_hidden: Tensor, states: States, out: States) -> None:
        """The states after one step, written to `out`."""
        i, f, g, o = LSTMCell._gates(from_input, from_hidden)
        torch.addcmul(f * states[1], i, g, out=out[1])
        torch.mul(o, torch.tanh(out[1]), out=out[0])

    @staticmethod
    def slopes(from_input: Tensor, from_hidden: Tensor, states: States, after: States) -> States:
        """How (i, f, g) follow c', o follows h', c' follows h', and c follows c'."""
        _, c = states
        i, f, g, o = LSTMCell._gates(from_input, from_hidden)
        squashed = torch.tanh(after[1])
        by_c = torch.cat((g * i * (1.0 - i), c * f * (1.0 - f), i * (1.0 - g * g)), dim=1)
        return by_c, squashed * o * (1.0 - o), o * (1.0 - squashed * squashed), f

    @staticmethod
    def step_back(slopes: States, gradients: States, to_hidden: Tensor) -> States:
        """Gradients of the states before, but for what goes through `to_hidden`, which is filled in."""
        by_c, by_h, c_by_h, f = slopes
        dh, dc = gradients
        width = dh.shape[1]
        dc = torch.addcmul(dc, dh, c_by_h)
        torch.mul(dc.repeat(1, 3), by_c, out=to_hidden[:, : 3 * width])
        torch.mul(dh, by_h, out=to_hidden[:, 3 * width :])
        return torch.zeros_like(dh), dc * f

    @staticmethod
    def to_input(slopes: States, dh: Tensor, to_hidden: Tensor) -> Tensor:
        """Gradients of the gates as the input sees them: as the hidden state does."""
        return to_hidden

    @staticmethod
    def _gates(from_input: Tensor, from_hidden: Tensor) -> States:
        i, f, g, o = (from_input + from_hidden).chunk(4, dim=1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)


Cell = type[GRUCell] | type[LSTMCell]
CELLS: dict[str, Cell] = {"gru": GRUCell, "lstm": LSTMCell}
