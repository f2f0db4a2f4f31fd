"""The network over features: two hidden layers, about two thousand weights, none of which names a host."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from entente.artifacts import Arrays
from entente.detectors.behaviour.features import NAMES
from entente.detectors.neural import one_thread
from entente.graphs.temporal import Float32


class Network(nn.Module):
    """Scaled features -> the logit of belonging to a campaign."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(len(NAMES), hidden)
        self.second = nn.Linear(hidden, max(1, hidden // 2))
        self.last = nn.Linear(max(1, hidden // 2), 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.second(torch.relu(self.first(features))))
        logit: torch.Tensor = self.last(inner).squeeze(1)
        return logit


STRAY = 6.0
"""Logits by which trained weights may differ from the base model; what is beyond does not count."""


class Forward:
    """The same network from plain weights, for scoring; on one thread, whatever else the machine does.

    A window is multiplied on its own, so that its logits do not hang on what else is scored with it. Beside
    a base model the logit is the mean of both, and never further from the base model's than half of STRAY:
    whatever weights a federation hands out, they cannot hide what the base model sees clearly.
    """

    def __init__(self, weights: Arrays, base: Arrays | None = None) -> None:
        self._base = None if base is None else Forward(base)
        self._layers = [
            (torch.from_numpy(weights[f"{name}.weight"]).t(), torch.from_numpy(weights[f"{name}.bias"]))
            for name in ("first", "second", "last")
        ]

    def __call__(self, features: Float32) -> Float32:
        values = torch.from_numpy(np.ascontiguousarray(features))
        with one_thread(), torch.no_grad():
            for number, (weight, bias) in enumerate(self._layers):
                values = torch.addmm(bias, values, weight)
                if number < 2:
                    values.relu_()
        logit: Float32 = values[:, 0].numpy()
        if self._base is None:
            return logit
        near = self._base(features)
        mixed: Float32 = near + np.float32(0.5) * np.clip(np.nan_to_num(logit - near), -STRAY, STRAY)
        return mixed
