"""TGN's memory: one row per host, brought up to date by a GRU from the host's last message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from entente.artifacts import Arrays
from entente.detectors.jbeil.layers import TimeEncoding
from entente.errors import DetectorError
from entente.graphs.temporal import Float32, Int64, distinct
from entente.logs.schema import MICROSECONDS

NAMES = ("memory", "memory_time", "message_pending", "message_other", "message_gap")
FEATURE = "message_feature"
"""In the state of a model whose edges have a weight."""


@dataclass(slots=True, eq=False)
class TgnMemory:
    """All hosts' memories, and the raw message that each has received since its own was updated.

    A message is kept raw (identity message function), the last one only (last-message aggregator). It is
    turned into memory when the host is next looked at, so that the GRU is trained by that look.
    """

    rows: Tensor  # [hosts, width]
    time: Int64  # of the host's last event, microseconds; -1 before the first
    pending: NDArray[np.bool_]  # whether a message waits
    other: Tensor  # [hosts, width]: the other end's memory when the message was sent
    gap: Tensor  # [hosts]: seconds between the host's last two events
    feature: Tensor  # [hosts, 0 or 1]: what the event of the message weighed

    @staticmethod
    def empty(hosts: int, width: int, device: torch.device, features: int = 0) -> TgnMemory:
        return TgnMemory(
            torch.zeros(hosts, width, device=device),
            np.full(hosts, -1, dtype=np.int64),
            np.zeros(hosts, dtype=np.bool_),
            torch.zeros(hosts, width, device=device),
            torch.zeros(hosts, device=device),
            torch.zeros(hosts, features, device=device),
        )

    @staticmethod
    def load(state: Arrays, hosts: int, width: int, device: torch.device, features: int = 0) -> TgnMemory:
        """A copy of the memory in a state; hosts appended since then have none."""
        fresh = TgnMemory.empty(hosts, width, device, features)
        tensors = {"memory": fresh.rows, "message_other": fresh.other, "message_gap": fresh.gap}
        if features:
            tensors[FEATURE] = fresh.feature
        if any(name not in state for name in (*NAMES, *tensors)) or state["memory"].shape[1:] != (width,):
            raise DetectorError(
                "the state is not one of this detector", remedy="Use the state that the same model left."
            )
        old = len(state["memory"])
        if old > hosts:
            raise DetectorError(f"the state knows {old} hosts, the graph only {hosts}")
        for name, tensor in tensors.items():
            if not np.isfinite(state[name]).all():
                raise DetectorError(f"the state's {name} holds a value that is not a finite number")
            tensor[:old] = torch.from_numpy(np.array(state[name])).to(device)
        fresh.time[:old] = state["memory_time"]
        fresh.pending[:old] = state["message_pending"]
        return fresh

    def state(self) -> Arrays:
        return {
            "memory": self.rows.cpu().numpy().copy(),
            "memory_time": self.time.copy(),
            "message_pending": self.pending.astype(np.uint8),
            "message_other": self.other.cpu().numpy().copy(),
            "message_gap": self.gap.cpu().numpy().copy(),
            **({FEATURE: self.feature.cpu().numpy().copy()} if self.feature.shape[1] else {}),
        }

    def receive(
        self,
        src: Int64,
        dst: Int64,
        time: Int64,
        hosts: Int64,
        rows: Tensor,
        features: Float32 | None = None,
    ) -> None:
        """Settle the memories of the ends of a batch's events, then keep each end's last event as message.

        `rows` are the up-to-date memories of `hosts`, which are sorted and hold every end; `features` are
        what the events weigh, where that is known.
        """
        ends = np.stack((src, dst), axis=1).ravel()
        others = np.stack((dst, src), axis=1).ravel()
        last = np.empty(len(self.time), dtype=np.int64)
        last[ends] = np.arange(len(ends))  # of equal places the last one stays
        touched = distinct(ends)
        event = last[touched]
        device = rows.device
        at = torch.from_numpy(touched).to(device)
        own = torch.from_numpy(np.searchsorted(hosts, touched)).to(device)
        other = torch.from_numpy(np.searchsorted(hosts, others[event])).to(device)
        moment = time[event // 2]
        before = np.where(self.time[touched] < 0, moment, self.time[touched])
        gap = (np.maximum(moment - before, 0) / MICROSECONDS).astype(np.float32)
        self.rows[at] = rows[own]
        self.other[at] = rows[other]
        self.gap[at] = torch.from_numpy(gap).to(device)
        if features is not None:
            self.feature[at] = torch.from_numpy(features[event // 2][:, None]).to(device)
        self.time[touched] = moment
        self.pending[touched] = True


class MemoryUpdater(nn.Module):
    """GRU from (own memory, other's memory, time since the last event, its weight) to own memory."""

    def __init__(self, width: int, time: TimeEncoding, features: int = 0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(2 * width + time.width + features, width)
        self.time = time

    def forward(self, memory: TgnMemory, hosts: Int64) -> Tensor:
        """Up-to-date memories of `hosts`; the store itself is not changed."""
        device = memory.rows.device
        at = torch.from_numpy(hosts).to(device)
        rows = memory.rows[at]
        waiting = np.flatnonzero(memory.pending[hosts])
        if not len(waiting):
            return rows
        place = torch.from_numpy(waiting).to(device)
        at = at[place]
        own = rows[place]
        message = torch.cat((own, memory.other[at], self.time(memory.gap[at]), memory.feature[at]), dim=1)
        return rows.index_copy(0, place, self._gru(message, own))

    def _gru(self, message: Tensor, own: Tensor) -> Tensor:
        """`self.cell(message, own)`, a sixth cheaper: own memory leads the message as well, so that the
        gates' two maps of it are one."""
        cell, width = self.cell, own.shape[1]
        gates = 2 * width
        shared = nn.functional.pad(cell.weight_hh[:gates], (0, message.shape[1] - width, 0, width))
        bias = cell.bias_ih + nn.functional.pad(cell.bias_hh[:gates], (0, width))
        mapped = torch.addmm(bias, message, (cell.weight_ih + shared).t())
        reset, update = torch.sigmoid(mapped[:, :gates]).chunk(2, dim=1)
        kept = torch.addmm(cell.bias_hh[gates:], own, cell.weight_hh[gates:].t())
        new = torch.tanh(mapped[:, gates:] + reset * kept)
        return new + update * (own - new)
