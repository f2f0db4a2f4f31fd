"""Theorem 2's condition M >= eta * E * G, checked for a run that was made.

G bounds the norm of a gradient, eta is the learning rate and E the number of local steps per round. The
theorem is about plain gradient steps; our silos train with Adam, whose steps do not shrink with the gradient.
So the longest update that was sent stands beside the condition: where it exceeds M, the bound did cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from entente.config import Experiment
from entente.detectors import available
from entente.federation.records import RoundRecord
from entente.runtime.assembly import Dataset


@dataclass(slots=True)
class Gradients:
    """The largest gradient norm of all steps so far."""

    largest: float = 0.0


@contextmanager
def watched_gradients(found: Gradients) -> Iterator[Gradients]:
    """Every optimiser step of this process, while the block runs; what `found` held is forgotten."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    found.largest = 0.0

    def look(optimiser: torch.optim.Optimizer, *given: Any) -> None:
        squares = [
            float(parameter.grad.square().sum())
            for group in optimiser.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        found.largest = max(found.largest, math.sqrt(sum(squares)))

    hook = register_optimizer_step_pre_hook(look)
    try:
        yield found
    finally:
        hook.remove()


def condition(
    experiment: Experiment, dataset: Dataset, gradients: Gradients, rounds: Sequence[RoundRecord]
) -> dict[str, float | None]:
    """G, eta E G, the smallest M of the run, and the longest update; empty where nothing was bounded.

    A detector that does without torch's optimisers shows no gradient, and the condition is not known.
    """
    bounds = [record.bound for record in rounds if record.bound is not None]
    norms = [silo.norm for record in rounds for silo in record.silos.values() if silo.norm is not None]
    if not bounds or not norms or not gradients.largest:
        return {}
    lr = float(getattr(experiment.detector, "lr", 0.0))
    return {
        "gradient_norm": gradients.largest,
        "bound_needed": lr * local_steps(experiment, dataset) * gradients.largest,
        "bound_least": float(min(bounds)),
        "update_norm": float(max(norms)),
    }


def local_steps(experiment: Experiment, dataset: Dataset) -> int:
    """Gradient steps per round of the silo with most of them: one per epoch, or one per batch of events."""
    detector, epochs = experiment.detector, experiment.federation.epochs
    count = available()[detector.name].local_epochs if epochs == "auto" else int(epochs)
    batch: int | None = getattr(detector, "batch", None)
    if batch is None:
        return count
    kept = 1.0 - float(getattr(detector, "validation_events", 0.0))
    events = max(silo.train.num_edges for silo in dataset.silos.values())
    return count * math.ceil(events * kept / batch)
