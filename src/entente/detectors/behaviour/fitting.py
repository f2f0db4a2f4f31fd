"""Training of the network by hand: forward, backward and Adam on one vector, without an autograd graph.

A step over 512 examples is some 6 million multiplications; through autograd and an optimiser that walks six
tensors most of the time went into calls. The formulae are those of torch's cross-entropy and Adam.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from entente.artifacts import Arrays
from entente.detectors.behaviour.training import Examples

LAYERS = ("first", "second", "last")
NAMES = tuple(f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias"))
FADE, FADE_SQUARES, TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


@dataclass(frozen=True, slots=True)
class Fit:
    """How a network is trained: passes over the examples, examples per step, Adam's rate, FedProx's mu.

    `hidden` is the chance of each feature of each example to be shown as usual (0). A network that may lean
    on no single feature carries over from injected campaigns to real ones.
    """

    epochs: int
    batch: int
    lr: float
    proximal: float = 0.0
    hidden: float = 0.0


class Fitter:
    """Weights and Adam's moments of the network, each as one vector with a view per layer."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], memory: Mapping[str, NDArray[Any]]) -> None:
        self._shapes = {name: weights[name].shape for name in NAMES}
        self._w = _flat([weights[name] for name in NAMES])
        self._slope = torch.zeros_like(self._w)
        self._mean, self._square = (
            _flat([memory[f"{part}.{name}"] for name in NAMES]) if memory else torch.zeros_like(self._w)
            for part in ("exp_avg", "exp_avg_sq")
        )
        self._steps = int(memory[f"step.{NAMES[0]}"]) if memory else 0
        self._room = torch.empty_like(self._w)
        self._layers, self._slopes = self._views(self._w), self._views(self._slope)

    def fit(self, examples: Examples, plan: Fit, rng: np.random.Generator) -> float:
        """Train in place; the mean loss of an example in the last pass."""
        features = torch.from_numpy(examples.features)
        truth = torch.from_numpy(examples.positive.astype(np.float32)[:, None])
        weight = torch.from_numpy(examples.weight[:, None])
        anchor, total = self._w.clone(), 0.0
        with torch.no_grad():
            for epoch in range(plan.epochs):
                order = torch.from_numpy(rng.permutation(len(examples)))
                for chosen in torch.split(order, plan.batch):
                    y, w = truth[chosen], weight[chosen]
                    x = features[chosen]
                    if plan.hidden:
                        shown = rng.random(x.shape, dtype=np.float32) >= plan.hidden
                        x = x * torch.from_numpy(shown)
                    logit = self._gradient(x, y, w)
                    if plan.proximal:
                        self._slope.add_(self._w - anchor, alpha=plan.proximal)
                    self._step(plan.lr)
                    if epoch == plan.epochs - 1:
                        total += float(
                            nn.functional.binary_cross_entropy_with_logits(logit, y, w, reduction="sum")
                        )
        return total / len(examples)

    def _gradient(self, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """The slope of the mean loss over one batch, left in `_slope`; gives the logits."""
        w1, b1, w2, b2, w3, b3 = self._layers
        one = torch.addmm(b1, x, w1.t()).relu_()
        two = torch.addmm(b2, one, w2.t()).relu_()
        logit = torch.addmm(b3, two, w3.t())
        g1, c1, g2, c2, g3, c3 = self._slopes
        back = logit.sigmoid().sub_(y).mul_(w).div_(len(x))
        torch.mm(back.t(), two, out=g3)
        torch.sum(back, 0, out=c3)
        back = torch.mm(back, w3).mul_(two > 0)
        torch.mm(back.t(), one, out=g2)
        torch.sum(back, 0, out=c2)
        back = torch.mm(back, w2).mul_(one > 0)
        torch.mm(back.t(), x, out=g1)
        torch.sum(back, 0, out=c1)
        return logit

    def _step(self, lr: float) -> None:
        self._steps += 1
        self._mean.lerp_(self._slope, 1 - FADE)
        self._square.mul_(FADE_SQUARES).addcmul_(self._slope, self._slope, value=1 - FADE_SQUARES)
        torch.sqrt(self._square, out=self._room)
        self._room.div_(math.sqrt(1 - FADE_SQUARES**self._steps)).add_(TINY)
        self._w.addcdiv_(self._mean, self._room, value=-lr / (1 - FADE**self._steps))

    def _views(self, vector: Tensor) -> list[Tensor]:
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        parts = torch.split(vector, sizes)
        return [part.view(shape) for part, shape in zip(parts, self._shapes.values(), strict=True)]

    def weights(self) -> Arrays:
        return self._arrays(self._w)

    def memory(self) -> Arrays:
        """Adam's step and moments by weight, as `NeuralDetector.optimiser_state` has them."""
        moments = {"exp_avg": self._mean, "exp_avg_sq": self._square}
        found = {f"{part}.{n}": a for part, v in moments.items() for n, a in self._arrays(v).items()}
        return found | {f"step.{name}": np.array(self._steps, dtype=np.float32) for name in NAMES}

    def _arrays(self, vector: Tensor) -> Arrays:
        return {name: part.numpy().copy() for name, part in zip(NAMES, self._views(vector), strict=True)}


def _flat(parts: list[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.concatenate([part.reshape(-1) for part in parts]).astype(np.float32))
