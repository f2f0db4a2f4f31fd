"""Processes that train one silo together: torch.distributed, each with the same graph and the same draws."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import distributed, nn


@dataclass(frozen=True, slots=True)
class Peers:
    """Which of how many processes this is. Every one of them calls every method, in the same order."""

    rank: int = 0
    size: int = 1

    @classmethod
    def present(cls) -> Peers:
        """Those of the process group that the program has joined; else this process alone."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    def begin(self, module: nn.Module) -> None:
        """Give everybody the weights of the first."""
        if self.size > 1:
            for parameter in module.parameters():
                distributed.broadcast(parameter.detach(), 0)

    def sum_gradients(self, module: nn.Module) -> None:
        """Every gradient becomes the sum of all processes'."""
        if self.size == 1:
            return
        for parameter in module.parameters():
            if parameter.grad is None:  # this process had no batch in the last step of an epoch
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)

    def mean(self, values: list[float]) -> float:
        """Of all processes' values; 0 where there is none."""
        total = np.array([sum(values), len(values)], dtype=np.float64)
        if self.size > 1:
            distributed.all_reduce(torch.from_numpy(total))
        return float(total[0] / max(total[1], 1.0))


@contextmanager
def joined() -> Iterator[Peers]:
    """The processes that torchrun started, joined; this process alone where it started none."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        distributed.init_process_group("gloo")
    try:
        yield Peers.present()
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
